"""Who listens where the master was must say that it is this cluster's master."""

from collections.abc import Callable

import attrs
import pytest
from fake_fleet import API_TOKEN, URL, FakeApi, FakeFleet

from tarn.cluster import Cluster, connect
from tarn.errors import NotAuthorizedError, NotFoundError, TimedOutError, UnreachableError

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
MOVED = "http://nm2:40002"
PROXY = "http://rm:8088/proxy/application_1_0001"
REFUSED = NotAuthorizedError("anonymous", "view", next_step="The api token is wrong")


def another_name(fleet: FakeFleet) -> None:
    fleet.names[URL] = "other"


def another_token(fleet: FakeFleet) -> None:
    fleet.answers[URL] = REFUSED


strangers = pytest.mark.parametrize("stranger", [another_name, another_token])


@pytest.fixture
def running(fleet: FakeFleet) -> FakeFleet:
    """A cluster that runs."""
    Cluster(SPEC, environment=fleet.environment).up()
    (fleet.directory / "api_token").write_text(API_TOKEN)
    fleet.asked.clear()
    return fleet


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses whose master was asked for its name."""
    seen: list[str] = []
    cluster = FakeApi.cluster
    monkeypatch.setattr(FakeApi, "cluster", lambda self: seen.append(self.url) or cluster(self))
    return seen


def found(fleet: FakeFleet) -> Cluster:
    return connect("demo", environment=fleet.environment)


@strangers
def test_a_stranger_at_the_old_address_is_not_commanded(
    running: FakeFleet, stranger: Callable[[FakeFleet], None]
) -> None:
    """The live one is found by asking the runtime, and commanded once."""
    stranger(running)
    running.answers[MOVED] = None
    running.ref = attrs.evolve(running.ref, url=MOVED)
    cluster = found(running)
    cluster.scale(3)
    assert running.asked == [("scale", 3)]
    assert cluster.url == MOVED
    assert found(running).source.open().url == MOVED


@strangers
def test_a_stranger_alone_is_no_master(
    running: FakeFleet, stranger: Callable[[FakeFleet], None]
) -> None:
    """One that restarts has no address yet; one that is gone is gone."""
    stranger(running)
    running.ref = attrs.evolve(running.ref, url=None)
    cluster = found(running)
    for _ in range(2):
        with pytest.raises(
            UnreachableError, match=r"the master of another cluster|for cluster 'other'"
        ):
            cluster.scale(3)
    with pytest.raises(TimedOutError):
        cluster.wait(timeout="10s")
    running.ref = None
    running.clock.time_s += 3.0
    with pytest.raises(NotFoundError):
        cluster.status()
    assert "scale" not in running.verbs()


@strangers
def test_a_live_master_that_does_not_answer_is_what_is_told(
    running: FakeFleet, stranger: Callable[[FakeFleet], None]
) -> None:
    """Not what a stranger said."""
    stranger(running)
    running.ref = attrs.evolve(running.ref, url=MOVED)
    cluster = found(running)
    for _ in range(2):
        with pytest.raises(UnreachableError, match="nothing listens"):
            cluster.scale(3)


@pytest.mark.parametrize("url", [URL, MOVED])
def test_a_wrong_token_is_told_as_such_each_time(running: FakeFleet, url: str) -> None:
    """The runtime's own address says no."""
    running.answers = {URL: REFUSED, MOVED: REFUSED}
    running.ref = attrs.evolve(running.ref, url=url)
    cluster = found(running)
    for _ in range(2):
        with pytest.raises(NotAuthorizedError, match="The api token is wrong"):
            cluster.scale(3)


def test_who_is_refused_through_the_proxy_hears_it_each_time(running: FakeFleet) -> None:
    """Not only that the direct way is closed."""
    running.answers = {PROXY: NotAuthorizedError("alice", "view")}
    running.ref = attrs.evolve(running.ref, proxy_url=PROXY)
    cluster = found(running)
    for _ in range(2):
        with pytest.raises(NotAuthorizedError):
            cluster.events()


def test_a_connection_is_proven_once_and_again_after_silence(
    running: FakeFleet, counted: list[str]
) -> None:
    """One question more for each; who listens after a silence may be another."""
    cluster = found(running)
    for _ in range(3):
        cluster.scale(3)
    assert counted == [URL]
    running.answers[URL] = UnreachableError("nothing listens")
    with pytest.raises(UnreachableError):
        cluster.scale(3)
    running.answers[URL] = None
    another_name(running)
    with pytest.raises(UnreachableError, match="answers for cluster 'other'"):
        cluster.scale(4)
    assert ("scale", 4) not in running.asked
