"""A real Knox that follows instances in a real ZooKeeper by itself, with TARN's jar."""

import contextlib
import json
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from knox_load import Load
from knox_stage import wait_for

from tarn.testing.fake_triton import FakeModel, FakeTriton

pytestmark = pytest.mark.discovery
SOON_S = 5.0


class Fleet:
    """What a master writes: its instances' nodes, and its own."""

    def __init__(self, perimeter, name: str) -> None:
        self.knox, self.name = perimeter.knox, name

    def say(self, zk: KazooClient, *nodes: str) -> None:
        """Write the fleet's node as a master does, with the names of the instances' nodes."""
        self.write(zk, {"count": len(nodes), "nodes": sorted(nodes)})

    def write(self, zk: KazooClient, word: dict[str, object]) -> None:
        path = f"/{self.name}/fleets/echo"
        zk.ensure_path(path)
        plain = {"epoch": "1-1", "revision": 1, "api_url": "", **word}
        zk.set(path, json.dumps(plain).encode())

    def publish(self, zk: KazooClient, node: str, payload: str) -> None:
        path = f"/{self.name}/instances/{node}"
        zk.create(path, payload.encode(), ephemeral=True, makepath=True)

    def withdraw(self, zk: KazooClient, node: str, *left: str) -> None:
        """Take one out in one transaction, as a master does."""
        change = zk.transaction()
        change.delete(f"/{self.name}/instances/{node}")
        plain = {"epoch": "1-1", "revision": 2, "count": len(left), "nodes": sorted(left)}
        change.set_data(f"/{self.name}/fleets/echo", json.dumps(plain).encode())
        wrong = [one for one in change.commit() if isinstance(one, Exception)]
        assert wrong == []

    def status(self) -> int:
        return self.knox.get(self.name, "v2/health/ready").status_code

    def wait(self, *tritons: FakeTriton) -> None:
        """Wait until each got a request."""
        before = [one.looks for one in tritons]

        def all_asked() -> bool:
            answers = self.status() == 200
            return answers and all(o.looks > was for o, was in zip(tritons, before, strict=True))

        wait_for(all_asked, SOON_S, "a request for each")


@contextlib.contextmanager
def slow() -> Iterator[FakeTriton]:
    with FakeTriton(FakeModel("echo", latency_s=0.05, instances=8)) as one:
        yield one


def gets(one: FakeTriton, more: int = 5) -> None:
    """Wait until it answered so many more."""
    before = one.model("echo").successes
    wait_for(lambda: one.model("echo").successes > before + more, SOON_S, "requests")


def end(one: FakeTriton) -> None:
    """End it as a drain does: after the quiesce time, once nothing executes."""
    threading.Event().wait(0.5)
    wait_for(lambda: one.executing == 0, SOON_S, "quiet")
    one.crash()


def test_a_fleet_grows_and_shrinks_and_no_request_fails(perimeter):
    """Who appears gets requests at once, who is withdrawn gets none; two ways to write a node."""
    fleet = Fleet(perimeter, "zk1")
    with slow() as a, slow() as b, slow() as c, perimeter.zookeeper.client() as zk:
        fleet.publish(zk, "c1", a.endpoint.http)
        fleet.say(zk, "c1")
        fleet.wait(a)
        with Load(perimeter.knox, "zk1") as load:
            for node, new in (("c2", b), ("c3", c)):
                fleet.publish(zk, node, json.dumps({"url": f"http://{new.endpoint.http}"}))
                gets(new)
            fleet.say(zk, "c1", "c2", "c3")
            fleet.withdraw(zk, "c1", "c2", "c3")
            end(a)
            fleet.withdraw(zk, "c2", "c3")
            end(b)
            gets(c, 20)
        fleet.withdraw(zk, "c3")
        answered = sum(one.model("echo").successes for one in (a, b, c))
    assert load.sent > 60
    assert load.lost == []
    assert answered == load.sent


def test_an_expired_session_takes_nobody_away(perimeter):
    """All nodes vanish, the fleet's node says 2: Knox goes on, and follows the next master."""
    fleet = Fleet(perimeter, "zk2")
    with slow() as a, slow() as b, slow() as c, contextlib.ExitStack() as until_then:
        with perimeter.zookeeper.client() as zk:
            fleet.publish(zk, "c1", a.endpoint.http)
            fleet.publish(zk, "c2", b.endpoint.http)
            fleet.say(zk, "c1", "c2")
            fleet.wait(a, b)
            load = until_then.enter_context(Load(perimeter.knox, "zk2"))
            gets(a)
        # The session is over, and with it both nodes.
        with perimeter.zookeeper.client() as zk:
            assert zk.get_children("/zk2/instances") == []
            gets(a, 10)
            gets(b, 10)
            fleet.publish(zk, "c1", a.endpoint.http)
            fleet.publish(zk, "c3", c.endpoint.http)
            fleet.say(zk, "c1", "c3")
            gets(c)
            end(b)
            gets(c, 20)
            until_then.close()
            fleet.say(zk)
    assert load.sent > 60
    assert load.lost == []


def test_an_empty_fleet_is_believed_when_its_master_says_so(perimeter):
    """A count of 0 is the truth: 500, the word of this Knox for nobody; then it is back at once."""
    fleet = Fleet(perimeter, "zk3")
    a, b = perimeter.still
    with perimeter.zookeeper.client() as zk:
        assert fleet.status() == 500, "nobody ever was there"
        fleet.publish(zk, "c1", a.endpoint.http)
        fleet.say(zk, "c1")
        fleet.wait(a)
        fleet.withdraw(zk, "c1")
        wait_for(lambda: fleet.status() == 500, SOON_S, "500")
        fleet.publish(zk, "c2", b.endpoint.http)
        fleet.say(zk, "c2")
        fleet.wait(b)
        zk.delete("/zk3/fleets/echo")
        zk.delete("/zk3/instances/c2")
        wait_for(lambda: fleet.status() == 500, SOON_S, "500")


def test_who_does_not_answer_is_passed_over(perimeter):
    """A dead instance whose node still stands costs at most what Knox had sent to it.

    That Knox repeats such a request elsewhere, without its body: Triton refuses it.
    """
    fleet = Fleet(perimeter, "zk4")
    a, _ = perimeter.still
    with FakeTriton() as dead, perimeter.zookeeper.client() as zk:
        fleet.publish(zk, "c0", "no address")
        fleet.publish(zk, "c1", a.endpoint.http)
        fleet.publish(zk, "c2", dead.endpoint.http)
        fleet.write(zk, {"count": 2})
        fleet.wait(a, dead)
        with Load(perimeter.knox, "zk4") as load:
            gets(dead)
            on_its_way = dead.http_connections
            dead.crash()
            threading.Event().wait(1.5)
        # Counts alone, as others may write them: who vanishes without a word stays.
        zk.delete("/zk4/instances/c1")
        threading.Event().wait(0.5)
        assert {fleet.status() for _ in range(4)} == {200}
        fleet.say(zk)
    assert load.sent > 40
    assert len(load.lost) <= on_its_way, load.lost


def test_a_zookeeper_that_is_not_there_leaves_the_topology_its_own_urls(perimeter):
    """Nothing is thrown into Knox: the topology is up, and its written URL serves."""
    a, _ = perimeter.still
    before = a.looks
    assert perimeter.knox.get("away", "v2/health/ready").status_code == 200
    assert a.looks == before + 1
