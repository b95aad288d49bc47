"""What an operator sees of the discovery ``zookeeper``, on one real server."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from servers.zookeeper import Ensemble, Secured, client, watched
from zookeeper_masters import EPOCH, Masters, children, fleet, masters, names, view

from tarn.domain import Epoch
from tarn.errors import ConfigError, DiscoveryError, Superseded
from tarn.testing.wait import until
from tarn.zk.nodes import FleetNode, fleet_path, parse_payload
from tarn_plugins.discovery.zookeeper import ZooKeeperTlsSettings
from tarn_plugins.discovery.zookeeper.discovery import ZooKeeper

pytestmark = pytest.mark.discovery

LATER = Epoch(EPOCH.incarnation, EPOCH.attempt + 1)


@pytest.fixture
def house(zookeeper: Ensemble, tmp_path: Path) -> Iterator[Masters]:
    with client(zookeeper.address) as everybody:  # else the first with a digest owns it
        everybody.ensure_path("/services")
    with masters(tmp_path, zookeeper.address) as some:
        yield some


@pytest.fixture
def other(zookeeper: Ensemble) -> Iterator[KazooClient]:
    with client(zookeeper.address) as one:
        yield one


def lose(discovery: ZooKeeper, other: KazooClient) -> None:
    """End the session at the servers, as its timeout does."""
    theirs = discovery._session._client
    assert theirs is not None
    thief = KazooClient(",".join(f"{h}:{p}" for h, p in other.hosts), client_id=theirs.client_id)
    thief.start(10)
    thief.stop()
    thief.close()


def test_writes_what_the_java_tarn_wrote(house: Masters, other: KazooClient) -> None:
    """``host:port`` in an ephemeral node of the container's name; the parents are made."""
    discovery = house.make(environ={"USER": "alice"})
    discovery.sync(view(1, 1, 2))
    data, stat = other.get(f"{house.path}/container_1")
    assert data == b"127.0.0.1:8003"
    assert stat.ephemeralOwner == discovery._session.id
    told = fleet(other, house.path)
    assert told == FleetNode(EPOCH, 1, 2, "", ("container_1", "container_2"), "alice")
    assert other.get(fleet_path(house.path, "fleet"))[1].ephemeralOwner == 0


def test_steady_state_writes_nothing(house: Masters, other: KazooClient) -> None:
    """A view twice, and one that has only moved: no node is touched but the fleet's."""
    discovery = house.make(payload="json")
    discovery.sync(view(1, 1, 2))
    before = other.get(house.path)[1], other.get(f"{house.path}/container_1")[1]
    at = other.get(fleet_path(house.path, "fleet"))[1].mzxid
    discovery.sync(view(1, 1, 2))
    assert other.get(fleet_path(house.path, "fleet"))[1].mzxid == at
    discovery.sync(view(2, 1, 2))
    assert (other.get(house.path)[1], other.get(f"{house.path}/container_1")[1]) == before
    assert fleet(other, house.path).revision == 2


def test_a_new_master_takes_over_and_nobody_misses_an_instance(
    house: Masters, other: KazooClient, zookeeper: Ensemble
) -> None:
    """The old master died; its nodes outlive its session, through an incomplete view too."""
    old = house.make(session_timeout_s=1.0)
    old.sync(view(5, 1, 2, 3))
    with watched(zookeeper.address, house.path, *names(1, 2, 3)):
        old.close(withdraw=False)
        new = house.make(epoch=LATER)
        new.sync(view(1, 1, epoch=LATER, complete=False))
        owners = {other.get(f"{house.path}/{n}")[1].ephemeralOwner for n in names(1, 2, 3)}
        assert owners == {new._session.id}
        threading.Event().wait(1.6)  # the old session ends
        new.sync(view(2, 1, 2, 3, epoch=LATER))
    assert fleet(other, house.path).epoch == LATER
    new.sync(view(3, 2, epoch=LATER))
    assert children(other, house.path) == names(2)


def test_nodes_stay_for_the_session_when_a_master_leaves(
    house: Masters, other: KazooClient
) -> None:
    """A clean end of the session would take everybody's traffic away."""
    old = house.make(session_timeout_s=1.0)
    old.sync(view(1, 1, 2))
    begun_s = time.monotonic()
    old.close(withdraw=False)
    assert time.monotonic() - begun_s < 3.0
    assert children(other, house.path) == names(1, 2)
    until(lambda: not children(other, house.path), 5.0)
    assert time.monotonic() - begun_s > 0.9
    assert fleet(other, house.path).count == 2  # more than there are: no master


def test_an_old_master_is_refused(house: Masters, other: KazooClient) -> None:
    """It wakes up after the new one published: it writes nothing, and hears why."""
    old, new = house.make(), house.make(epoch=LATER)
    old.sync(view(5, 1))
    new.sync(view(1, 1, 2, epoch=LATER))
    with pytest.raises(Superseded) as caught:
        old.sync(view(6))
    assert (caught.value.mine, caught.value.theirs) == (str(EPOCH), str(LATER))
    assert children(other, house.path) == names(1, 2)


def test_an_old_master_whose_session_was_lost_makes_nothing(
    house: Masters, other: KazooClient
) -> None:
    """The keeper asks for the epoch before it makes everything again."""
    old, new = house.make(), house.make(epoch=LATER)
    old.sync(view(5, 1))
    new.sync(view(1, 2, epoch=LATER))
    lose(old, other)
    until(lambda: old._superseded, 10.0, "the old master's keeper to notice")
    assert children(other, house.path) == names(2)
    with pytest.raises(Superseded):
        old.sync(view(5, 1))
    with pytest.raises(Superseded):
        old.applied()  # the master asks in every tick


def test_an_old_master_learns_of_a_newer_one_though_its_view_stays(
    house: Masters, other: KazooClient
) -> None:
    """At its next look: the fleet's node is not as it wrote it."""
    old, new = house.make(look_every_s=0.2), house.make(epoch=LATER)
    old.sync(view(5, 1))
    new.sync(view(1, 1, epoch=LATER))
    until(lambda: old._superseded, 5.0)
    assert fleet(other, house.path).epoch == LATER


def test_a_lost_session_is_made_good_at_once(house: Masters, other: KazooClient) -> None:
    """Within a second of the new connection; the master posts nothing for it."""
    discovery = house.make()
    discovery.sync(view(1, 1, 2, 3))
    before = discovery._session.id
    lose(discovery, other)
    until(lambda: discovery._session.id not in {0, before}, 10.0)
    reconnected_s = time.monotonic()
    until(lambda: children(other, house.path) == names(1, 2, 3), 5.0)
    took_s = time.monotonic() - reconnected_s
    print(f"re-created {took_s * 1e3:.0f} ms after reconnecting")
    assert took_s < 3.0
    discovery.sync(view(2, 1, 2))
    assert children(other, house.path) == names(1, 2)


def test_nothing_is_made_by_a_session_that_came_after_the_decision(
    house: Masters, other: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session ends between the look and the writing: an error, and then all by the new one."""
    discovery = house.make()
    discovery.sync(view(1, 1))
    session = discovery._session
    before, commit = session.id, session.commit

    def late(*arguments: Any) -> None:
        monkeypatch.undo()
        discovery._closing.set()  # the keeper has no part in this
        discovery._stirred.set()
        lose(discovery, other)
        until(lambda: session.id not in {0, before}, 10.0)
        commit(*arguments)

    monkeypatch.setattr(session, "commit", late)
    with pytest.raises(DiscoveryError):
        discovery.sync(view(2, 1, 2))
    assert children(other, house.path) == set()
    discovery.sync(view(2, 1, 2))
    owners = {other.get(f"{house.path}/{n}")[1].ephemeralOwner for n in names(1, 2)}
    assert owners == {session.id}
    discovery._closing.clear()


def test_two_clusters_and_the_java_tarn_share_a_path(house: Masters, other: KazooClient) -> None:
    """Each removes only what it published itself."""
    first, second = house.make(), house.make(cluster="second")
    first.sync(view(1, 1, 2))
    second.sync(view(7, 11, 12))
    other.create(f"{house.path}/container_java", b"node-9:8000", ephemeral=True)
    first.sync(view(2, 2))
    assert children(other, house.path) == names(2, 11, 12) | {"container_java"}
    second.close(withdraw=True)
    assert children(other, house.path) == names(2) | {"container_java"}
    assert fleet(other, house.path, "second").count == 0
    assert fleet(other, house.path).count == 1


def test_two_users_with_clusters_of_one_name(house: Masters, other: KazooClient) -> None:
    """The second is told, at its start and later; the first serves on, and goes in its own time."""
    bobs = house.make(environ={"USER": "bob"})
    alices = house.make(environ={"USER": "alice"}, epoch=LATER)
    bobs.sync(view(1, 1, 2))
    for attempt in (lambda: alices.reach(5.0), lambda: alices.sync(view(1, 3, epoch=LATER))):
        with pytest.raises(DiscoveryError, match="'fleet' of bob") as caught:
            attempt()
        assert caught.value.code == "TARN-3304"
    alices.close(withdraw=True)
    bobs.sync(view(2, 2))
    assert children(other, house.path) == names(2)
    bobs.close(withdraw=True)
    later = house.make(environ={"USER": "alice"})
    later.sync(view(1, 3))
    assert fleet(other, house.path).owner == "alice"


def test_a_node_of_somebody_else_is_left_alone(house: Masters, other: KazooClient) -> None:
    """A name that is taken costs that name, and is said; the others are published."""
    other.ensure_path(house.path)
    other.create(f"{house.path}/container_1", b"elsewhere:80")
    discovery = house.make()
    with pytest.raises(DiscoveryError, match="container_1") as caught:
        discovery.sync(view(1, 1, 2))
    assert caught.value.code == "TARN-3303"
    assert other.get(f"{house.path}/container_1")[0] == b"elsewhere:80"
    assert children(other, house.path) == names(1, 2)
    assert fleet(other, house.path).nodes == ("container_2",)
    with pytest.raises(DiscoveryError, match="container_1"):
        discovery.sync(view(2, 1))
    applied = discovery.applied()
    assert applied is not None
    assert (applied.revision, applied.error) == (2, "")  # a drain of 2 goes on
    assert children(other, house.path) == names(1)
    other.delete(f"{house.path}/container_1")
    discovery.sync(view(3, 1, 2))
    assert fleet(other, house.path).count == 2


def test_a_removed_node_comes_back(house: Masters, other: KazooClient) -> None:
    """An operator's slip is corrected without a new view."""
    discovery = house.make(look_every_s=0.2)
    discovery.sync(view(1, 1, 2))
    other.delete(f"{house.path}/container_2")
    until(lambda: children(other, house.path) == names(1, 2), 5.0)
    other.delete(fleet_path(house.path, "fleet"))
    until(lambda: other.exists(fleet_path(house.path, "fleet")), 5.0)
    assert fleet(other, house.path).count == 2


def test_nonsense_in_the_fleets_node_is_written_anew(house: Masters, other: KazooClient) -> None:
    """A stranger's words stop no master."""
    other.create(fleet_path(house.path, "fleet"), b"\xff[[", makepath=True)
    house.make().sync(view(1, 1))
    assert fleet(other, house.path).count == 1


def test_a_consumer_as_documented_keeps_the_last_good_set(
    house: Masters, other: KazooClient
) -> None:
    """The example in the how-to, over the life of a cluster."""
    page = Path(__file__).parents[2] / "docs/how-to/find-through-zookeeper.md"
    code = page.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    scope: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), scope)
    last: list[str] = []

    def look() -> list[str]:
        last[:] = scope["instances"](other, house.path, "fleet", list(last))
        return last

    assert look() == []
    first = house.make(session_timeout_s=1.0)
    first.sync(view(1, 1, 2))
    house.make(cluster="second").sync(view(1, 11))
    both = ["127.0.0.1:8003", "127.0.0.1:8006"]
    assert look() == both
    first.close(withdraw=False)
    until(lambda: children(other, house.path) == names(11), 5.0)
    assert look() == both
    later = house.make(epoch=LATER)
    later.sync(view(1, 1, epoch=LATER, complete=False))
    assert look() == both
    later.sync(view(2, 1, epoch=LATER))
    assert look() == both[:1]
    later.close(withdraw=True)
    assert look() == []


def test_down_withdraws(house: Masters, other: KazooClient) -> None:
    """No node stays, and the fleet's says that there is nobody: not that the master is away."""
    discovery = house.make()
    discovery.sync(view(3, 1, 2))
    discovery.close(withdraw=True)
    assert children(other, house.path) == set()
    told = fleet(other, house.path)
    assert (told.epoch, told.count, told.nodes) == (EPOCH, 0, ())


def test_a_chroot_is_a_path_as_others(
    house: Masters, other: KazooClient, zookeeper: Ensemble
) -> None:
    """Also one that is not there yet."""
    root = house.path.rpartition("/")[0]
    house.make(ensemble=f"{zookeeper.address}{root}/deep", path="/i").sync(view(1, 1))
    assert children(other, f"{root}/deep/i") == names(1)
    assert fleet_path("/i", "fleet") == "/fleets/fleet"
    assert json.loads(other.get(f"{root}/deep/fleets/fleet")[0])["count"] == 1


def test_a_stranger_reads_and_does_not_write(house: Masters, other: KazooClient) -> None:
    """With a digest: nobody redirects traffic to a machine of their own."""
    (house.root / "zk").write_text("tarn:not-to-be-told\n")
    discovery = house.make(digest=f"file:{house.root}/zk")
    discovery.sync(view(1, 1))
    node = f"{house.path}/container_1"
    assert parse_payload(other.get(node)[0]) == ("127.0.0.1", 8003)
    for attempt in (
        lambda: other.set(node, b"evil:80"),
        lambda: other.delete(node),
        lambda: other.create(f"{house.path}/evil", b"evil:80"),
        lambda: other.set(fleet_path(house.path, "fleet"), b"{}"),
        lambda: other.create(fleet_path(house.path, "evil"), b"{}"),
    ):
        with pytest.raises(NoAuthError):
            attempt()
    discovery.sync(view(2, 1, 2))
    assert children(other, house.path) == names(1, 2)


def test_the_wrong_user_is_told_so(house: Masters) -> None:
    """Never with the password."""
    house.make(digest="env:ZK", environ={"ZK": "tarn:right-one"}).sync(view(1, 1))
    wrong = house.make(digest="env:ZK", environ={"ZK": "tarn:wrong-one"}, epoch=LATER)
    with pytest.raises(DiscoveryError) as caught:
        wrong.sync(view(1, 1, 2, epoch=LATER))
    assert caught.value.code == "TARN-3302"
    assert "wrong-one" not in f"{caught.value}{caught.value.__cause__!r}{wrong.__dict__}"


def test_an_acl_of_ones_own(house: Masters, other: KazooClient) -> None:
    """As ZooKeeper's own command line writes it."""
    house.make(acl=("world:anyone:cdrwa",)).sync(view(1, 1))
    (grant,) = other.get_acls(f"{house.path}/container_1")[0]
    assert (grant.id.scheme, grant.id.id, grant.perms) == ("world", "anyone", 31)


def test_1000_instances_in_one_transaction(house: Masters, other: KazooClient) -> None:
    """With room to spare; and their takeover."""
    (house.root / "zk").write_text("tarn:secret")
    made = [
        house.make(digest=f"file:{house.root}/zk", payload="json", epoch=e) for e in (EPOCH, LATER)
    ]
    took: list[float] = []
    for discovery, epoch in zip(made, (EPOCH, LATER), strict=True):
        begun_s = time.monotonic()
        discovery.sync(view(1, *range(1, 1001), epoch=epoch))
        took.append(time.monotonic() - begun_s)
    print(f"1000 published in {took[0] * 1e3:.0f} ms, taken over in {took[1] * 1e3:.0f} ms")
    assert len(children(other, house.path)) == 1000
    assert max(took) < 5.0
    zxids = {other.get(f"{house.path}/container_{n}")[1].czxid for n in (1, 500, 1000)}
    assert len(zxids) == 1


def test_a_view_beyond_one_request_is_published_in_several(
    house: Masters, other: KazooClient
) -> None:
    """ZooKeeper drops the connection of a request over a megabyte; here are 1.4 of payload."""
    numbers = range(1, 4001)
    for epoch in (EPOCH, LATER):
        house.make(payload="json", epoch=epoch).sync(view(1, *numbers, epoch=epoch))
        assert fleet(other, house.path).count == len(children(other, house.path)) == 4000
    zxids = {other.get(f"{house.path}/container_{n}")[1].czxid for n in (1000, 3999)}
    assert len(zxids) == 2


def test_unreachable_is_said_in_time(house: Masters) -> None:
    """`required` asks `reach`: the error names the ensemble, and what to do."""
    discovery = house.make(ensemble="127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(DiscoveryError) as caught:
        discovery.reach(0.5)
    assert caught.value.code == "TARN-3301"
    assert "127.0.0.1:1,127.0.0.1:2" in str(caught.value)
    assert "refused" in str(caught.value)
    begun_s = time.monotonic()
    discovery.close(withdraw=True)
    assert time.monotonic() - begun_s < 3.0


def test_tls(zookeeper_tls: Secured, house: Masters) -> None:
    """Both sides show who they are; a server of somebody else is not believed."""
    good = {"ca": zookeeper_tls.ca, "cert": zookeeper_tls.cert, "key": zookeeper_tls.key}
    discovery = house.make(ensemble=zookeeper_tls.address, tls=ZooKeeperTlsSettings(**good))
    discovery.sync(view(1, 1))
    with client(zookeeper_tls.ensemble.address) as plain:
        assert children(plain, house.path) == names(1)
    for bad, said in (
        ({**good, "ca": zookeeper_tls.other_ca}, "certificate verify failed"),
        ({"ca": zookeeper_tls.ca}, "no answer"),
    ):
        wrong = house.make(ensemble=zookeeper_tls.address, tls=ZooKeeperTlsSettings(**bad))
        with pytest.raises(DiscoveryError, match="TLS") as caught:
            wrong.reach(1.5)
        assert caught.value.code == "TARN-3301"
        assert said in str(caught.value)
    for files in ({"ca": "/missing"}, {**good, "key": zookeeper_tls.other_ca}):
        with pytest.raises(ConfigError):
            house.make(ensemble=zookeeper_tls.address, tls=ZooKeeperTlsSettings(**files))


def test_a_thousand_flips_hang_nothing(house: Masters, other: KazooClient) -> None:
    """kazoo#381: a call in a listener waits for itself; ours only wakes."""
    discovery = house.make()
    discovery.sync(view(1, 1))
    theirs = discovery._session._client
    assert theirs is not None
    for number in range(1000):
        theirs._make_state_change("SUSPENDED" if number % 2 else "CONNECTED")
    theirs._make_state_change("CONNECTED")
    discovery.sync(view(2, 1, 2))
    assert children(other, house.path) == names(1, 2)


def test_a_watch_wakes_once(house: Masters, other: KazooClient) -> None:
    """For a node that is there, and one that is not yet."""
    discovery = house.make()
    discovery.sync(view(1, 1))
    session, woken = discovery._session, threading.Event()
    path = fleet_path(house.path, "second")
    assert session.watch(path, woken.set) is None
    house.make(cluster="second").sync(view(1, 11))
    assert woken.wait(5)
    woken.clear()
    assert session.watch(path, woken.set) == other.get(path)[0]
    assert not woken.is_set()
    other.set(path, b"x")
    assert woken.wait(5)


def test_settings_make_one(house: Masters) -> None:
    """Two discoveries of one master do not share a session."""
    one, two = house.make(), house.make(path=f"{house.path}2")
    one.sync(view(1, 1))
    two.sync(view(1, 1))
    assert one._session.id != two._session.id
    assert attrs.asdict(one._place)["cluster"] == "fleet"
