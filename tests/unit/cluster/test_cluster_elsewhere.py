"""Masters that moved to another machine, stand behind a proxy, or are over."""

import logging
import threading

import attrs
import pytest
from fake_fleet import API_TOKEN, URL, FakeApi, FakeFleet, status

from tarn.cluster import Cluster, connect
from tarn.cluster.explain import explain
from tarn.cluster.operate.watching import LinePrinter
from tarn.domain import Epoch
from tarn.errors import NotAuthorizedError, NotFoundError, TarnError, UnreachableError
from tarn.interfaces import ClusterRef, Ending

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
MOVED = "http://nm2:40002"
PROXY = "http://rm:8088/proxy/application_1_0001"
NOBODY = UnreachableError("nothing listens")


@pytest.fixture
def running(fleet: FakeFleet) -> FakeFleet:
    """A cluster that runs."""
    Cluster(SPEC, environment=fleet.environment).up()
    (fleet.directory / "api_token").write_text(API_TOKEN)
    fleet.asked.clear()
    return fleet


def found(fleet: FakeFleet) -> Cluster:
    return connect("demo", environment=fleet.environment)


def move(fleet: FakeFleet, url: str | None, proxy: str | None = None) -> None:
    """Let only the runtime know where the master is now; ``ref.json`` stays as it was."""
    fleet.ref = attrs.evolve(fleet.ref, url=url, proxy_url=proxy)


def test_a_master_that_moved_is_found_by_asking_the_runtime(running: FakeFleet) -> None:
    """The kept address and the noted one are dead."""
    cluster = found(running)
    assert cluster.status()["ready"] == 2
    running.answers = {URL: NOBODY, MOVED: None}
    move(running, MOVED)
    assert cluster.status()["ready"] == 2
    assert cluster.url == MOVED
    assert found(running).status()["ready"] == 2


def test_a_write_goes_to_the_new_address_too(running: FakeFleet) -> None:
    """It is absolute: twice is once."""
    running.answers = {URL: NOBODY, MOVED: None}
    move(running, MOVED)
    found(running).scale(3)
    assert running.asked == [("scale", 3)]


def test_the_runtime_is_not_asked_for_each_failure(running: FakeFleet, monkeypatch) -> None:
    """It may be a child process and a network away."""
    looks = []
    find = FakeFleet.find
    monkeypatch.setattr(FakeFleet, "find", lambda self, name: looks.append(1) or find(self, name))
    running.answers = {}
    link = found(running).source
    for _ in range(5):
        with pytest.raises(UnreachableError):
            link.ask(lambda api: api.status())
    assert len(looks) == 1
    running.clock.time_s += 3.0
    with pytest.raises(UnreachableError):
        link.ask(lambda api: api.status())
    assert len(looks) == 2


def test_a_master_behind_a_firewall_is_reached_through_its_proxy(
    running: FakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once; the proxy's address is shown."""
    running.answers = {PROXY: None}
    move(running, URL, PROXY)
    cluster = found(running)
    with caplog.at_level(logging.WARNING):
        assert cluster.status()["ready"] == 2
        cluster.scale(3)
        cluster.events()
    assert cluster.url == PROXY
    assert len(caplog.messages) == 1
    assert PROXY in caplog.messages[0]
    assert API_TOKEN not in caplog.text


def test_no_api_token_goes_to_a_proxy(running: FakeFleet, monkeypatch) -> None:
    """It could not travel on, and is none of the proxy's business."""
    seen: list[tuple[str, str | None]] = []
    begin = FakeApi.__init__

    def kept(self, fleet, url, api_token):
        seen.append((url, api_token))
        begin(self, fleet, url, api_token)

    monkeypatch.setattr(FakeApi, "__init__", kept)
    running.answers = {PROXY: None}
    move(running, URL, PROXY)
    found(running).status()
    assert (URL, API_TOKEN) in seen
    assert (PROXY, None) in seen


def test_when_the_proxy_does_not_answer_either_both_are_named(running: FakeFleet) -> None:
    """Where one could look."""
    running.answers = {}
    move(running, URL, PROXY)
    with pytest.raises(UnreachableError, match="through the proxy http://rm:8088"):
        found(running).events()


def test_who_is_not_let_in_through_the_proxy_hears_it(running: FakeFleet) -> None:
    """The master's own word, not a missing answer."""
    running.answers = {PROXY: NotAuthorizedError("anonymous", "view")}
    move(running, URL, PROXY)
    with pytest.raises(NotAuthorizedError):
        found(running).events()


def test_through_a_proxy_events_are_asked_for_again_and_again(running: FakeFleet) -> None:
    """Each is told once; a count that grew is news."""
    running.answers = {PROXY: None}
    move(running, URL, PROXY)
    running.events = [{"code": "TARN-1102", "count": 1}]
    stop, heard = threading.Event(), []
    for message in found(running).follow(stop):
        heard.append(message.data["count"])
        running.events = [{"code": "TARN-1102", "count": min(3, len(heard) + 1)}]
        if len(heard) == 3:
            stop.set()
    assert heard == [1, 2, 3]
    assert not any(asked[0] == "stream" for asked in running.asked)


def test_a_client_of_the_view_finds_a_master_that_moved(running: FakeFleet) -> None:
    """Its connection is its own."""
    running.answers = {URL: NOBODY, MOVED: None}
    move(running, MOVED)
    api = found(running).source.open()
    assert api.url == MOVED


# A cluster that is over.


@pytest.fixture
def over(running: FakeFleet) -> FakeFleet:
    """Its master and its instances are gone, and its runtime remembers."""
    running.answers = {}
    running.ref = None
    was = ClusterRef("demo", "fake", Epoch(1000, 2), application_id="application_1_0001")
    running.ending = Ending("demo", "failed", "killed by alice", 1.8e9, was)
    return running


def test_the_status_of_a_cluster_that_is_over_says_how_it_ended(over: FakeFleet) -> None:
    """No instance, and no error."""
    shown = found(over).status()
    assert (shown["state"], shown["reason"]) == ("failed", "killed by alice")
    assert (shown["instances"], shown["epoch"]) == ([], "1000-2")


def test_why_says_it_with_a_next_step(over: FakeFleet) -> None:
    """One sentence."""
    assert found(over).why() == (
        "demo failed at 2027-01-15T08:00:00Z: killed by alice. `tarn up` starts it again;"
        " `tarn logs -c demo` shows what it wrote."
    )


def test_its_logs_are_those_of_what_ended(over: FakeFleet) -> None:
    """The runtime keeps them."""
    over.lines = ["one", "two"]
    assert list(found(over).logs("demo-0001", tail=1)) == ["two"]


def test_it_is_found_without_its_reference_as_long_as_it_is_remembered(over: FakeFleet) -> None:
    """A runtime may clear the one and not the other."""
    (over.directory / "ref.json").unlink()
    assert found(over).status()["state"] == "failed"
    over.ending = None
    with pytest.raises(NotFoundError):
        found(over)


def test_waiting_for_the_end_is_over_and_for_more_is_hopeless(over: FakeFleet) -> None:
    """Neither waits half a minute for a master."""
    begun_s = over.clock.time_s
    found(over).wait(state="failed")
    with pytest.raises(TarnError, match="the cluster is failed: killed by alice"):
        found(over).wait(ready=1)
    assert over.clock.time_s - begun_s < 2.0


def test_watching_it_shows_it_and_ends(over: FakeFleet) -> None:
    """There is nothing to wait for."""
    shown = []

    class Kept(LinePrinter):
        def show(self, status, api):
            shown.append(status["state"])

    found(over).watch(on=Kept(None))
    assert shown == ["failed"]


def test_one_that_runs_again_is_not_over(over: FakeFleet) -> None:
    """What ended is older."""
    over.answers = {URL: None}
    over.run({})
    assert found(over).status()["state"] == "ready"
    assert found(over).source.ended() is None


def test_down_of_what_is_over_removes_what_is_left(over: FakeFleet) -> None:
    """Its secrets are kept for nobody; and `up` starts it again."""
    assert found(over).down() == "cluster 'demo' had ended already; what was left is removed"
    assert ("end", "demo") in over.asked
    over.answers = {URL: None}
    again = Cluster(SPEC, environment=over.environment).up()
    assert again.started_here
    assert again.status()["state"] == "ready"


@pytest.mark.parametrize("epoch", ['"1000-2"', "null"])
def test_what_only_this_home_remembers_is_removed_too(over: FakeFleet, epoch: str) -> None:
    """A runtime need not remember; then the reference is all there is, and the last of it."""
    over.ending = None
    (over.directory / "ref.json").write_text(
        f'{{"runtime": "fake", "epoch": {epoch}, "application_id": "application_1_0001"}}'
    )
    cluster = found(over)
    assert cluster.down() == "cluster 'demo' had ended already; what was left is removed"
    assert cluster.down() == "cluster 'demo' is not running"
    assert over.asked == [("end", "demo")]


def test_only_the_end_is_told_of_what_is_over() -> None:
    """Sizes and holds mean nothing any more."""
    ended = status("stopped", code="TARN-4004", ended_at=1.8e9, reason="down", ready=0)
    (cause,) = explain(ended)
    assert cause.found == "demo stopped at 2027-01-15T08:00:00Z: down"
