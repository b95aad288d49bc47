"""`down` while others start a cluster of the same name, or its runtime cannot be asked."""

from collections.abc import Callable

import attrs
import pytest
from fake_fleet import URL, FakeFleet, instance, status

from tarn.cluster import Cluster, connect
from tarn.domain import Epoch
from tarn.errors import LaunchError, NotAuthorizedError, TimedOutError, UnreachableError
from tarn.interfaces import ClusterRef, Progress

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
SILENT = LaunchError("fake", "the ResourceManager does not answer", code="TARN-3130")


@pytest.fixture
def running(fleet: FakeFleet) -> FakeFleet:
    """A cluster that runs."""
    Cluster(SPEC, environment=fleet.environment).up()
    fleet.asked.clear()
    return fleet


def found(fleet: FakeFleet) -> Cluster:
    return connect("demo", environment=fleet.environment)


def looks(
    monkeypatch: pytest.MonkeyPatch, look: Callable[[FakeFleet, int], ClusterRef | None]
) -> None:
    """Let the runtime answer with *look* of the fleet and the number of the look, from 0."""
    count = iter(range(10_000))
    monkeypatch.setattr(FakeFleet, "find", lambda self, _name: look(self, next(count)))


@pytest.mark.parametrize(
    ("ours", "later"),
    [
        ({"application_id": "application_1_0001"}, {"application_id": "application_1_0002"}),
        ({"epoch": Epoch(1000, 2)}, {"epoch": Epoch(2000, 1)}),
    ],
)
@pytest.mark.parametrize("answers", [None, UnreachableError("gone")])
def test_a_later_cluster_of_the_name_is_left_alone(
    running: FakeFleet,
    monkeypatch: pytest.MonkeyPatch,
    ours: dict[str, object],
    later: dict[str, object],
    answers: UnreachableError | None,
) -> None:
    """Ours has ended when another one is found."""
    ended: list[ClusterRef] = []
    first, second = (attrs.evolve(running.ref, **more) for more in (ours, later))
    looks(monkeypatch, lambda _fleet, look: first if look < 4 else second)
    monkeypatch.setattr(FakeFleet, "end", lambda _self, ref: ended.append(ref))
    running.answers = {URL: answers}
    assert found(running).down() == "cluster 'demo' ended"
    assert running.verbs().count("down") == (answers is None)
    assert ended == [first]


def test_a_restarted_master_is_no_other_cluster(
    running: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt, another process, the same incarnation; or a reference half written."""
    again = attrs.evolve(running.ref, epoch=Epoch(1000, 2), pid=7)
    lost = attrs.evolve(running.ref, epoch=Epoch(0, 0))
    refs = [running.ref, again, lost]
    looks(monkeypatch, lambda _fleet, look: refs[look % 3])
    with pytest.raises(TimedOutError):
        found(running).down(timeout="20s")


def test_a_runtime_that_cannot_be_asked_is_waited_out(
    running: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ResourceManager that fails over; its word counts again when it is back."""

    def look(fleet: FakeFleet, number: int) -> ClusterRef | None:
        if number == 0:
            return fleet.ref
        if number < 100:
            raise SILENT
        return None

    looks(monkeypatch, look)
    running.answers = {}
    assert found(running).down() == "cluster 'demo' ended"


def test_nothing_is_forced_while_its_runtime_cannot_be_asked(
    running: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout ends the waiting."""

    def look(fleet: FakeFleet, number: int) -> ClusterRef | None:
        if number:
            raise SILENT
        return fleet.ref

    looks(monkeypatch, look)
    running.answers = {}
    with pytest.raises(TimedOutError, match="still there: the master"):
        found(running).down(timeout="1m")
    assert running.verbs() == []


def test_who_may_not_end_it_hears_it_at_once(running: FakeFleet) -> None:
    """That is no silence."""
    running.answers = {URL: NotAuthorizedError("alice", "manage")}
    with pytest.raises(NotAuthorizedError):
        found(running).down()


def test_the_wait_for_a_follower_names_it(
    running: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is gone holds a drain until its lease ends: nobody should wonder why."""
    looks(monkeypatch, lambda fleet, look: fleet.ref if look < 4 else None)
    heard: list[Progress] = []
    held = {"for": "followers", "until_in_s": None, "followers": ["lb2", "lb1"]}
    both = (instance(1, "draining", waits=held), instance(2, "draining", waits=None))
    running.statuses = [status("draining", both), status("draining", both[1:])]
    found(running).down(progress=heard.append)
    said = list(dict.fromkeys(one.message for one in heard))
    assert said == ["2 instances left, waiting for lb1, lb2 to acknowledge", "1 instance left"]
