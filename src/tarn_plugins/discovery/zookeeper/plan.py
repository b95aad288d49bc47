"""From what is in ZooKeeper, and the view, to transactions. Pure."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from tarn.domain import DiscoveryView, Member
from tarn.errors import ConfigError, DiscoveryError, Superseded
from tarn.zk.nodes import FleetNode, InstanceNode, fleet_path, instance_payload, valid_name
from tarn.zk.operations import CheckVersion, Create, Delete, Operation, SetData, ZNode, size

__all__ = ["LIMIT", "PublishPlan", "PublishTarget", "PublishedNodes", "own", "plan"]

LIMIT = 700_000
"""Bytes of one transaction; a server takes a megabyte (``jute.maxbuffer``), with its answer."""


@attrs.frozen
class PublishTarget:
    """Where one cluster publishes, and how."""

    path: str
    cluster: str
    payload: str
    api_url: str = ""
    owner: str = ""
    """Who runs the master: a name that two people gave their clusters is one fleet's node."""

    @property
    def fleet(self) -> str:
        """The path of the cluster's own node."""
        return fleet_path(self.path, self.cluster)

    def at(self, name: str) -> str:
        """Return the path of one instance's node."""
        return f"{self.path}/{name}"

    def data(self, member: Member, view: DiscoveryView) -> bytes:
        """Return what the node of *member* says."""
        return instance_payload(
            member,
            cluster=self.cluster,
            epoch=view.epoch,
            revision=view.revision,
            kind=self.payload,
        )


@attrs.frozen
class PublishedNodes:
    """What is in ZooKeeper, as far as this cluster is concerned."""

    fleet: FleetNode | None = None
    """What the last master said; None where there was none, or the node makes no sense."""
    version: int | None = None
    """Of the fleet's node; None: there is no such node."""
    nodes: Mapping[str, ZNode] = attrs.field(factory=dict, hash=False)
    """Those children that are this cluster's, or have a name that it needs."""

    @property
    def ours(self) -> frozenset[str]:
        """The children that a master of this cluster published."""
        return frozenset(self.fleet.nodes) if self.fleet else frozenset()


@attrs.frozen
class PublishPlan:
    """What is to be done, and what is found afterwards."""

    transactions: tuple[tuple[Operation, ...], ...]
    """In this order, each as a whole; none: everything is as it should be."""
    after: PublishedNodes
    blocked: tuple[str, ...] = ()
    """Names that cannot be published: somebody else's nodes, or no names of nodes at all."""


def own(place: PublishTarget, found: PublishedNodes) -> PublishedNodes:
    """Return *found* without what another owner's master left in the fleet's node.

    Epochs of two owners say nothing about each other: neither is ever superseded.

    Raises:
        DiscoveryError: Another owner's cluster of this name has instances, or nodes.
    """
    fleet = found.fleet
    if fleet is None or fleet.owner in {"", place.owner}:
        return found
    if fleet.count or found.ours & found.nodes.keys():
        raise DiscoveryError(
            "zookeeper",
            f"{place.fleet} is the node of a cluster '{place.cluster}' of {fleet.owner}",
            code="TARN-3304",
            right=f"Below {place.path} each name belongs to one owner; this master belongs to "
            f"{place.owner}.",
            next_step="Choose another path or name; or, where that cluster has gone for good, "
            "have its node removed",
        )
    return attrs.evolve(found, fleet=None)


def plan(
    place: PublishTarget,
    found: PublishedNodes,
    view: DiscoveryView,
    session_id: int,
    limit: int = LIMIT,
) -> PublishPlan:
    """Return how *view* becomes true.

    A node that another session owns would vanish with that session, so it is deleted and made
    again in one transaction: nobody ever sees it missing. An incomplete view deletes nothing, and
    what it does not name is taken over as it is. A transaction holds *limit* bytes at most.

    Raises:
        Superseded: A higher epoch than the view's stands in the fleet's node.
        DiscoveryError: That node is another owner's.
    """
    found = own(place, found)
    if found.fleet is not None and found.fleet.epoch > view.epoch:
        raise Superseded(str(view.epoch), str(found.fleet.epoch))
    wanted = {member.container_id: place.data(member, view) for member in view.members}
    blocked = {name for name in wanted if not _may(name, found, wanted[name])}
    if not view.complete:
        kept = found.ours & found.nodes.keys()
        wanted = {name: found.nodes[name].data for name in kept} | wanted
    wanted = {
        name: _settled(found.nodes.get(name), wanted[name], session_id)
        for name in sorted(wanted)
        if name not in blocked
    }

    units = list(_units(place, found, wanted, session_id))
    leaving = sorted(found.ours - wanted.keys() - blocked) if view.complete else []
    units += [(Delete(place.at(name)),) for name in leaving if name in found.nodes]

    # A name whose node has gone still counts until a complete view says that it left: whoever
    # reads this keeps what it had, and takes nobody's traffic away.
    names = wanted.keys() if view.complete else wanted.keys() | (found.ours - blocked)
    nodes = tuple(sorted(names))
    fleet = FleetNode(view.epoch, view.revision, len(names), place.api_url, nodes, place.owner)
    if not units and fleet == found.fleet:
        return PublishPlan((), found, tuple(sorted(blocked)))
    batches = _batches(units, limit - len(fleet.render()))
    intent = _intent(found, fleet) if len(batches) > 1 else None
    version = found.version if intent is None else _next(found.version)
    after = PublishedNodes(fleet, _next(version), _after(found, wanted, session_id))
    transactions = _transactions(place, (intent, fleet), found.version, batches)
    return PublishPlan(transactions, after, tuple(sorted(blocked)))


def _intent(found: PublishedNodes, fleet: FleetNode) -> FleetNode:
    """Return what stands in the fleet's node while several transactions are on their way.

    It names every node that may be made, so that none is forgotten when the rest does not follow.
    """
    nodes = found.ours | set(fleet.nodes)
    count, revision = (found.fleet.count, found.fleet.revision) if found.fleet else (0, 0)
    return attrs.evolve(fleet, revision=revision, count=count, nodes=tuple(sorted(nodes)))


def _may(name: str, found: PublishedNodes, data: bytes) -> bool:
    """Say whether the node *name* is ours to write: missing, published by us, or the same."""
    if not valid_name(name):
        return False
    node = found.nodes.get(name)
    return node is None or name in found.ours or _same(node.data, data)


def _units(
    place: PublishTarget, found: PublishedNodes, wanted: Mapping[str, bytes], session_id: int
) -> Iterator[tuple[Operation, ...]]:
    """Yield what belongs together, a tuple for each node that is not as it should be."""
    for name, data in wanted.items():
        at, node = place.at(name), found.nodes.get(name)
        if node is None:
            yield (Create(at, data, ephemeral=True),)
        elif node.owner != session_id:
            yield (Delete(at), Create(at, data, ephemeral=True))
        elif node.data != data:
            yield (SetData(at, data, node.version),)


def _settled(node: ZNode | None, data: bytes, session_id: int) -> bytes:
    """Return what a node should hold: what it holds, where that is ours and means the same."""
    if node is not None and node.owner == session_id and _same(node.data, data):
        return node.data
    return data


def _same(old: bytes, new: bytes) -> bool:
    """Say whether two contents mean the same place; a later revision alone is no news."""
    if old == new:
        return True
    try:
        before, after = InstanceNode.parse(old), InstanceNode.parse(new)
    except ConfigError:
        return False
    return attrs.evolve(before, epoch=after.epoch, revision=after.revision) == after


def _transactions(
    place: PublishTarget,
    said: tuple[FleetNode | None, FleetNode],
    version: int | None,
    batches: Sequence[tuple[Operation, ...]],
) -> tuple[tuple[Operation, ...], ...]:
    """Return the transactions; each is void once another master has written the fleet's node.

    *said* is what the fleet's node holds meanwhile (None: one transaction does it all), and at
    the end.
    """
    intent, fleet = said
    first: tuple[tuple[Operation, ...], ...] = ()
    if intent is not None:
        first = ((_write(place.fleet, intent, version),),)
        version = _next(version)
    guard = () if version is None else (CheckVersion(place.fleet, version),)
    return (
        *first,
        *((*guard, *batch) for batch in batches[:-1]),
        (*batches[-1], _write(place.fleet, fleet, version)),
    )


def _write(path: str, fleet: FleetNode, version: int | None) -> Operation:
    data = fleet.render()
    return Create(path, data) if version is None else SetData(path, data, version)


def _batches(
    units: Sequence[tuple[Operation, ...]], room: int
) -> tuple[tuple[Operation, ...], ...]:
    """Return the units in order, as few batches as there is room for; one at least."""
    batches: list[list[Operation]] = [[]]
    used = 0
    for unit in units:
        needed = sum(size(operation) for operation in unit)
        if batches[-1] and used + needed > room:
            batches.append([])
            used = 0
        batches[-1].extend(unit)
        used += needed
    return tuple(tuple(batch) for batch in batches)


def _next(version: int | None) -> int:
    return 0 if version is None else version + 1


def _after(found: PublishedNodes, wanted: Mapping[str, bytes], session_id: int) -> dict[str, ZNode]:
    """Return our nodes as they are once everything was done."""
    after: dict[str, ZNode] = {}
    for name, data in wanted.items():
        node = found.nodes.get(name)
        if node is None or node.owner != session_id:
            after[name] = ZNode(data, 0, session_id)
        elif node.data == data:
            after[name] = node
        else:
            after[name] = ZNode(data, node.version + 1, session_id)
    return after
