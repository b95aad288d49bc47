"""Plans played against a ZooKeeper made of a dictionary."""

import attrs
import pytest
from fake_zookeeper import Conflict, Servers
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import DiscoveryView, Endpoint, Epoch, Member
from tarn.errors import DiscoveryError, Superseded
from tarn.testing.strategies import endpoints
from tarn.zk.nodes import CheckVersion, FleetNode, ZNode, size
from tarn_plugins.discovery.zookeeper import plan as planning
from tarn_plugins.discovery.zookeeper.plan import PublishedNodes, PublishTarget, plan

PATH = "/services/triton/instances"
ENDPOINT = Endpoint("node-1", 8000, 8001, 8002)
_names = st.sampled_from([f"c{n}" for n in range(6)])
_epochs = st.builds(Epoch, st.just(7), st.integers(1, 3))


def look(servers: Servers, place: PublishTarget, view: DiscoveryView) -> PublishedNodes:
    """Read what the discovery reads."""
    at = servers.nodes.get(place.fleet)
    told = FleetNode.parse(at.data) if at else None
    names = {m.container_id for m in view.members} | set(told.nodes if told else ())
    nodes = {n: servers.nodes[place.at(n)] for n in names if place.at(n) in servers.nodes}
    return PublishedNodes(told, at.version if at else None, nodes)


@st.composite
def views(
    draw: st.DrawFn, epoch: Epoch | None = None, complete: bool | None = None
) -> DiscoveryView:
    names = draw(st.lists(_names, unique=True))
    members = tuple(Member(f"i-{n}", n, draw(endpoints), "aa") for n in sorted(names))
    return DiscoveryView(
        draw(_epochs) if epoch is None else epoch,
        draw(st.integers(0, 9)),
        draw(st.booleans()) if complete is None else complete,
        members,
    )


def publish(
    servers: Servers,
    place: PublishTarget,
    view: DiscoveryView,
    session: int,
    limit: int = planning.LIMIT,
) -> list[set[str]]:
    """Publish as the discovery does; return the children before, between and after."""
    done = plan(place, look(servers, place, view), view, session, limit)
    seen = [servers.children(PATH)]
    for transaction in done.transactions:
        servers.commit(transaction, session)
        seen.append(servers.children(PATH))
    found = look(servers, place, view)
    assert done.after.fleet == found.fleet
    assert done.after.version == found.version
    names = found.ours
    mine = {n: node for n, node in found.nodes.items() if n in names}
    assert {n: node for n, node in done.after.nodes.items() if n in names} == mine
    return seen


payloads = st.sampled_from(("hostport", "json"))


@given(payloads, st.lists(st.tuples(views(), st.integers(1, 3), st.booleans()), max_size=6))
def test_what_any_masters_publish_is_the_last_view(
    payload: str, steps: list[tuple[DiscoveryView, int, bool]]
) -> None:
    """Masters come and go with their sessions; nobody in the view is ever missing in between."""
    servers, place = Servers(), PublishTarget(PATH, "fleet", payload)
    servers.nodes[f"{PATH}/java"] = ZNode(b"node:1", 0, 99)
    newest = Epoch(0, 0)
    for view, session, expired in steps:
        if view.epoch < newest:
            with pytest.raises(Superseded):
                publish(servers, place, view, session)
            continue
        newest = view.epoch
        if expired:
            servers.expire(session)
        before = servers.children(PATH)
        seen = publish(servers, place, view, session)
        wanted = {m.container_id for m in view.members}
        stays = before - {"java"} if not view.complete else before & wanted
        assert all(stays <= children for children in seen)
        after = servers.children(PATH) - {"java"}
        assert after == (wanted if view.complete else before - {"java"} | wanted)
        assert all(servers.nodes[place.at(n)].owner == session for n in after)
        for member in view.members:
            data = servers.nodes[place.at(member.container_id)].data
            assert planning._same(data, place.data(member, view))
        told = look(servers, place, view).fleet
        assert told is not None
        assert told.count == len(told.nodes) >= len(after)
        assert plan(place, look(servers, place, view), view, session).transactions == ()
    assert servers.nodes[f"{PATH}/java"] == ZNode(b"node:1", 0, 99)


@given(views(Epoch(7, 1), complete=True), views(Epoch(7, 1), complete=True))
def test_two_clusters_do_not_meet(one: DiscoveryView, two: DiscoveryView) -> None:
    """Of one name the first keeps it: the second says so, and publishes the rest."""
    servers = Servers()
    first, second = PublishTarget(PATH, "first", "json"), PublishTarget(PATH, "second", "json")
    publish(servers, first, one, 1)
    taken = dict(servers.nodes)
    blocked = plan(second, look(servers, second, two), two, 2).blocked
    publish(servers, second, two, 2)
    ours = {m.container_id for m in one.members}
    assert set(blocked) == ours & {m.container_id for m in two.members}
    assert {p: servers.nodes[p] for p in taken} == taken


_turns = st.lists(st.tuples(st.sampled_from(("alice", "bob")), views()), max_size=8)


@given(_turns)
def test_two_owners_of_one_name_end_no_master_and_touch_no_node(
    turns: list[tuple[str, DiscoveryView]],
) -> None:
    """Who has instances keeps the name, whatever the epochs say; the other is told whose it is."""
    servers, holder = Servers(), ""
    sessions = {"alice": 1, "bob": 2}
    newest = {"alice": Epoch(0, 0), "bob": Epoch(0, 0)}
    for who, view in turns:
        place = PublishTarget(PATH, "fleet", "json", owner=who)
        if holder not in {"", who} and servers.children(PATH):
            before = dict(servers.nodes)
            with pytest.raises(DiscoveryError, match=f"of {holder}") as caught:
                publish(servers, place, view, sessions[who])
            assert caught.value.code == "TARN-3304"
            assert servers.nodes == before
        elif holder == who and view.epoch < newest[who]:
            with pytest.raises(Superseded):
                publish(servers, place, view, sessions[who])
        else:
            publish(servers, place, view, sessions[who])
            holder, newest[who] = who, view.epoch
            assert FleetNode.parse(servers.nodes[place.fleet].data).owner == who


def test_an_owner_whose_master_is_away_keeps_the_name() -> None:
    """Its nodes vanished with the session; the count says that they come back."""
    servers, alice, bob = (
        Servers(),
        PublishTarget(PATH, "fleet", "hostport", owner="alice"),
        PublishTarget(PATH, "fleet", "hostport", owner="bob"),
    )
    view = DiscoveryView(Epoch(7, 1), 1, True, (Member("i", "c", ENDPOINT, "a"),))
    publish(servers, alice, view, 1)
    servers.expire(1)
    with pytest.raises(DiscoveryError, match="alice"):
        publish(servers, bob, view, 2)


def test_a_node_without_an_owner_is_taken_over() -> None:
    """An older TARN wrote it."""
    servers = Servers()
    view = DiscoveryView(Epoch(7, 1), 1, True, (Member("i", "c", ENDPOINT, "a"),))
    publish(servers, PublishTarget(PATH, "fleet", "hostport"), view, 1)
    place = PublishTarget(PATH, "fleet", "hostport", owner="bob")
    publish(servers, place, attrs.evolve(view, epoch=Epoch(7, 2)), 2)
    assert FleetNode.parse(servers.nodes[place.fleet].data).owner == "bob"


@given(st.integers(300, 2000), views(complete=True), views(complete=True), st.integers(1, 2))
def test_a_large_view_is_split_and_nothing_is_missing_in_between(
    limit: int, one: DiscoveryView, two: DiscoveryView, session: int
) -> None:
    """Pairs stay together, the fleet's node is last, and every part is void after a newer one."""
    two = attrs.evolve(two, epoch=max(one.epoch, two.epoch))
    servers, place = Servers(), PublishTarget(PATH, "fleet", "json")
    publish(servers, place, one, 1, limit)
    done = plan(place, look(servers, place, two), two, session, limit)
    if done.transactions:
        assert done.transactions[-1][-1].path == place.fleet
        for part in done.transactions[1:-1]:
            assert part[0] == CheckVersion(place.fleet, servers.nodes[place.fleet].version + 1)
    stays = servers.children(PATH) & {m.container_id for m in two.members}
    assert all(stays <= children for children in publish(servers, place, two, session, limit))
    assert servers.children(PATH) == {m.container_id for m in two.members}


@given(views(complete=True), views(complete=True), views(complete=True), st.integers(0, 9))
def test_nothing_is_forgotten_when_the_rest_of_a_split_does_not_follow(
    one: DiscoveryView, two: DiscoveryView, three: DiscoveryView, parts: int
) -> None:
    """The next view finds what was made, though it names it no more."""
    servers, place = Servers(), PublishTarget(PATH, "fleet", "json")
    two = attrs.evolve(two, epoch=max(one.epoch, two.epoch))
    three = attrs.evolve(three, epoch=max(two.epoch, three.epoch))
    publish(servers, place, one, 1, 300)
    for part in plan(place, look(servers, place, two), two, 1, 300).transactions[:parts]:
        servers.commit(part, 1)
    publish(servers, place, three, 1, 300)
    assert servers.children(PATH) == {m.container_id for m in three.members}


def test_a_newer_master_voids_the_rest_of_a_split() -> None:
    """Two that publish at once: the older one's next part is refused."""
    servers, place = Servers(), PublishTarget(PATH, "fleet", "hostport")
    view = DiscoveryView(Epoch(7, 1), 1, complete=True, members=())
    publish(servers, place, view, 1)
    old = look(servers, place, view)
    newer = attrs.evolve(view, epoch=Epoch(7, 2))
    publish(servers, place, newer, 2)
    done = plan(place, old, attrs.evolve(view, revision=2), 1)
    with pytest.raises(Conflict):
        servers.commit(done.transactions[0], 1)


def test_a_node_that_went_counts_until_a_complete_view() -> None:
    """A new master that has probed nothing yet does not say that nobody is there."""
    servers, place = Servers(), PublishTarget(PATH, "fleet", "hostport")
    members = tuple(Member(f"i-{n}", n, ENDPOINT, "aa") for n in ("c1", "c2"))
    publish(servers, place, DiscoveryView(Epoch(7, 1), 4, complete=True, members=members), 1)
    servers.expire(1)
    publish(servers, place, DiscoveryView(Epoch(7, 2), 1, complete=False, members=members[:1]), 2)
    told = FleetNode.parse(servers.nodes[place.fleet].data)
    assert (told.count, servers.children(PATH)) == (2, {"c1"})
    publish(servers, place, DiscoveryView(Epoch(7, 2), 2, complete=True, members=members[:1]), 2)
    assert FleetNode.parse(servers.nodes[place.fleet].data).count == 1


def test_1000_json_instances_fit_one_transaction() -> None:
    """Names as YARN gives them; their takeover needs two operations each."""
    place = PublishTarget(PATH, "a-cluster", "json")
    members = tuple(
        Member(f"a-cluster-{n:04d}", f"container_e17_1410901177871_0001_01_{n:06d}", ENDPOINT, "a")
        for n in range(1000)
    )
    view = DiscoveryView(Epoch(1_700_000_000_000, 1), 5, complete=True, members=members)
    nodes = {m.container_id: ZNode(place.data(m, view), 0, 1) for m in members}
    fleet = FleetNode(view.epoch, 5, 1000, "", tuple(sorted(nodes)))
    done = plan(place, PublishedNodes(fleet, 3, nodes), view, 2)
    (transaction,) = done.transactions
    print(sum(size(operation) for operation in transaction), "bytes")
    assert len(transaction) == 2001


def test_a_name_that_is_no_node_is_not_published() -> None:
    """A container id must not lead to another place."""
    view = DiscoveryView(Epoch(7, 1), 1, True, (Member("i", "../c", ENDPOINT, "a"),))
    done = plan(PublishTarget(PATH, "fleet", "json"), PublishedNodes(), view, 1)
    assert done.blocked == ("../c",)
    assert [one.path for part in done.transactions for one in part] == [
        "/services/triton/fleets/fleet"
    ]
