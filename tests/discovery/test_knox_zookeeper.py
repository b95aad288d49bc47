"""A real Knox that follows what masters publish in a real ZooKeeper, by TARN's jar."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from knox_load import Load
from servers.zookeeper import client
from zookeeper_masters import EPOCH, Masters, masters

from tarn.domain import DiscoveryView, Epoch, Member
from tarn.errors import DiscoveryError
from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.testing.wait import until
from tarn_plugins.discovery.zookeeper.discovery import ZooKeeper

pytestmark = pytest.mark.discovery
SOON_S = 5.0
LATER = Epoch(EPOCH.incarnation, EPOCH.attempt + 1)


class Master:
    """One master of a fleet; its view is what a test says."""

    def __init__(self, some: Masters, epoch: Epoch = EPOCH, **options: object) -> None:
        self.zookeeper: ZooKeeper = some.make(epoch=epoch, cluster="echo", **options)
        self._epoch, self._revision = epoch, 0

    def shows(self, **tritons: FakeTriton) -> None:
        """Publish who may get traffic: name of the node to who it is."""
        self._revision += 1
        members = tuple(
            Member(f"echo-{name}", name, one.endpoint, "aaaaaaaaaaaa")
            for name, one in sorted(tritons.items())
        )
        view = DiscoveryView(self._epoch, self._revision, complete=True, members=members)
        self.zookeeper.sync(view)

    def loses_its_session(self) -> None:
        """Let nothing more reach ZooKeeper; the session ends after its time-out of 2 s."""
        self.zookeeper._session._line.cut()


@pytest.fixture
def some(perimeter, tmp_path: Path):
    """Return how to get masters in one of the namespaces that the perimeter's topologies have."""
    with contextlib.ExitStack() as closing:

        def made(name: str) -> Masters:
            one = closing.enter_context(masters(tmp_path, perimeter.zookeeper.address))
            one.path = f"/{name}/instances"
            return one

        yield made


@contextlib.contextmanager
def slow() -> Iterator[FakeTriton]:
    with FakeTriton(FakeModel("echo", latency_s=0.05, instances=8)) as one:
        yield one


def status(perimeter, name: str) -> int:
    return perimeter.knox.get(name, "v2/health/ready").status_code


def all_get(perimeter, name: str, *tritons: FakeTriton) -> None:
    """Wait until each got a request."""
    before = [one.looks for one in tritons]

    def asked() -> bool:
        good = status(perimeter, name) == 200
        return good and all(o.looks > was for o, was in zip(tritons, before, strict=True))

    until(asked, SOON_S, "a request for each")


def gets(one: FakeTriton, more: int = 5) -> None:
    """Wait until it answered so many more."""
    before = one.model("echo").successes
    until(lambda: one.model("echo").successes > before + more, SOON_S, "requests")


def end(one: FakeTriton) -> None:
    """End it as a drain does: after the quiesce time, once nothing executes."""
    threading.Event().wait(0.5)
    until(lambda: one.executing == 0, SOON_S, "quiet")
    one.crash()


@pytest.mark.parametrize(("name", "payload"), [("zk0", "hostport"), ("zk1", "json")])
def test_a_fleet_grows_and_shrinks_and_no_request_fails(perimeter, some, name, payload):
    """Who appears gets requests at once, who is withdrawn gets none; both ways to write a node."""
    master = Master(some(name), payload=payload)
    with slow() as a, slow() as b, slow() as c:
        master.shows(c1=a)
        all_get(perimeter, name, a)
        with Load(perimeter.knox, name) as load:
            master.shows(c1=a, c2=b)
            gets(b)
            master.shows(c1=a, c2=b, c3=c)
            gets(c)
            master.shows(c2=b, c3=c)
            end(a)
            master.shows(c3=c)
            end(b)
            gets(c, 20)
        answered = sum(one.model("echo").successes for one in (a, b, c))
    assert load.sent > 60
    assert load.lost == []
    assert answered == load.sent


def test_an_expired_session_takes_nobody_away(perimeter, some):
    """All nodes vanish, the fleet's node says 2: Knox goes on, and follows the next master."""
    both = some("zk2")
    first, second = Master(both), Master(both, LATER)
    with (
        slow() as a,
        slow() as b,
        slow() as c,
        client(perimeter.zookeeper.address) as zk,
    ):
        first.shows(c1=a, c2=b)
        all_get(perimeter, "zk2", a, b)
        with Load(perimeter.knox, "zk2") as load:
            gets(a)
            first.loses_its_session()
            until(lambda: zk.get_children(both.path) == [], 10, "the session's end")
            gets(a, 10)
            gets(b, 10)
            second.shows(c1=a, c3=c)
            gets(c)
            end(b)
            gets(c, 20)
    assert load.sent > 60
    assert load.lost == []


def test_a_zookeeper_that_is_away_for_a_while_changes_nothing(perimeter, some):
    """The set stands while no server answers; what changes after its return is followed."""
    a, b = perimeter.still
    master = Master(some("zk6"), session_timeout_s=10.0)
    master.shows(c1=a)
    all_get(perimeter, "zk6", a)
    (server,) = perimeter.zookeeper.servers
    server.stop()
    try:
        threading.Event().wait(1)
        assert {status(perimeter, "zk6") for _ in range(8)} == {200}
    finally:
        perimeter.zookeeper.start()

    def published() -> bool:
        with contextlib.suppress(DiscoveryError):
            master.shows(c1=a, c2=b)
            return True
        return False

    until(published, 20, "the master's way back")
    until(lambda: looked_at(perimeter, "zk6", b), 20, "requests on b")


def looked_at(perimeter, name: str, one: FakeTriton) -> bool:
    before = one.looks
    assert status(perimeter, name) == 200
    return one.looks > before


def test_an_empty_fleet_is_believed_when_its_master_says_so(perimeter, some):
    """A view without anybody is the truth: 500, Knox's word for it; then it is back at once."""
    a, b = perimeter.still
    assert status(perimeter, "zk3") == 500, "nobody ever was there"
    master = Master(some("zk3"))
    master.shows(c1=a)
    all_get(perimeter, "zk3", a)
    master.shows()
    until(lambda: status(perimeter, "zk3") == 500, SOON_S, "500")
    master.shows(c2=b)
    all_get(perimeter, "zk3", b)


def test_who_does_not_answer_is_passed_over(perimeter, some):
    """A dead instance whose node still stands costs at most what Knox had sent to it.

    That Knox repeats such a request elsewhere, without its body: Triton refuses it.
    """
    a, _ = perimeter.still
    master = Master(some("zk4"))
    with FakeTriton() as dead:
        master.shows(c1=a, c2=dead)
        all_get(perimeter, "zk4", a, dead)
        with Load(perimeter.knox, "zk4") as load:
            gets(dead)
            on_its_way = dead.http_connections
            dead.crash()
            threading.Event().wait(1.5)
        master.shows(c1=a)
    assert load.sent > 40
    assert len(load.lost) <= on_its_way, load.lost


def test_nodes_that_others_write_are_read_as_far_as_they_can_be(perimeter):
    """A count without names, as a writer of one's own may leave it; an address that is none."""
    a, b = perimeter.still
    with client(perimeter.zookeeper.address) as zk:
        zk.create("/zk5/fleets/other", json.dumps({"count": 2}).encode(), makepath=True)
        for node, text in (("x", "no address"), ("y", a.endpoint.http), ("z", b.endpoint.http)):
            zk.create(f"/zk5/instances/{node}", text.encode(), makepath=True)
        all_get(perimeter, "zk5", a, b)
        zk.delete("/zk5/instances/y")
        threading.Event().wait(0.5)
        all_get(perimeter, "zk5", a, b)
        zk.set("/zk5/fleets/other", json.dumps({"count": 1}).encode())
        threading.Event().wait(0.5)
        before = a.looks
        assert {status(perimeter, "zk5") for _ in range(4)} == {200}
        assert a.looks == before
        zk.delete("/zk5/fleets/other")
        zk.delete("/zk5/instances/z")
        until(lambda: status(perimeter, "zk5") == 500, SOON_S, "500")


def test_a_zookeeper_that_is_not_there_leaves_the_topology_its_own_urls(perimeter):
    """Nothing is thrown into Knox: the topology is up, and its written URL serves."""
    a, _ = perimeter.still
    before = a.looks
    assert perimeter.knox.get("away", "v2/health/ready").status_code == 200
    assert a.looks == before + 1
