"""Plan the transactions that bring ZooKeeper's nodes to a view. Pure."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from tarn.domain import DiscoveryView, Member
from tarn.errors import ConfigError, DiscoveryError, Superseded
from tarn.zk.nodes import (
    CheckVersion,
    Create,
    Delete,
    FleetNode,
    InstanceNode,
    Operation,
    SetData,
    ZNode,
    fleet_path,
    instance_payload,
    size,
    valid_name,
)

__all__ = ["LIMIT", "PublishPlan", "PublishTarget", "PublishedNodes", "own", "plan"]

LIMIT = 700_000
"""Bytes of one transaction; a server accepts a megabyte with its answer (``jute.maxbuffer``)."""


@attrs.frozen
class PublishTarget:
    """The place and form of one cluster's nodes."""

    path: str
    cluster: str
    payload: str
    api_url: str = ""
    owner: str = ""
    """The user who runs the master; two users' clusters of one name would share the nodes."""

    @property
    def fleet(self) -> str:
        """The path of the cluster's own node."""
        return fleet_path(self.path, self.cluster)

    def at(self, name: str) -> str:
        """Return the path of one instance's node."""
        return f"{self.path}/{name}"

    def data(self, member: Member, view: DiscoveryView) -> bytes:
        """Return the content of the node of *member*."""
        return instance_payload(
            member,
            cluster=self.cluster,
            epoch=view.epoch,
            revision=view.revision,
            kind=self.payload,
        )


@attrs.frozen
class PublishedNodes:
    """The nodes in ZooKeeper that concern this cluster."""

    fleet: FleetNode | None = None
    """The content of the cluster's node; None: it does not exist, or cannot be read."""
    version: int | None = None
    """The version of the cluster's node; None: it does not exist."""
    nodes: Mapping[str, ZNode] = attrs.field(factory=dict, hash=False)
    """The instances' nodes that are this cluster's, or have a name that it needs."""

    @property
    def ours(self) -> frozenset[str]:
        """The names that a master of this cluster published."""
        return frozenset(self.fleet.nodes) if self.fleet else frozenset()


@attrs.frozen
class PublishPlan:
    """The transactions for a view, and the nodes after them."""

    transactions: tuple[tuple[Operation, ...], ...]
    """To be executed in this order; empty: nothing has to change."""
    after: PublishedNodes
    blocked: tuple[str, ...] = ()
    """Names that cannot be published: another program has the node, or the name is not valid."""


def own(place: PublishTarget, found: PublishedNodes) -> PublishedNodes:
    """Return *found* without an empty cluster's node that another owner's master left.

    Raises:
        DiscoveryError: Another owner's cluster of this name has instances, or nodes.
    """
    # The node must not count: epochs of two owners cannot be compared, so neither supersedes.
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
    """Return the transactions that publish *view*.

    An incomplete view deletes nothing, and keeps the nodes that it does not name. A transaction has
    at most *limit* bytes.

    Raises:
        Superseded: The cluster's node has a higher epoch than the view.
        DiscoveryError: That node belongs to another owner.
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

    # A name whose node is missing still counts until a complete view leaves it out: otherwise a
    # reader of the count would take traffic away from an instance that may be well.
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
    """Return the content of the cluster's node until the last of several transactions."""
    # It names every node that may be created, so that none is forgotten if the rest fails.
    nodes = found.ours | set(fleet.nodes)
    count, revision = (found.fleet.count, found.fleet.revision) if found.fleet else (0, 0)
    return attrs.evolve(fleet, revision=revision, count=count, nodes=tuple(sorted(nodes)))


def _may(name: str, found: PublishedNodes, data: bytes) -> bool:
    """Return whether the node *name* may be written: it is missing, ours, or the same."""
    if not valid_name(name):
        return False
    node = found.nodes.get(name)
    return node is None or name in found.ours or _same(node.data, data)


def _units(
    place: PublishTarget, found: PublishedNodes, wanted: Mapping[str, bytes], session_id: int
) -> Iterator[tuple[Operation, ...]]:
    """Yield the operations for each node that must change; they belong into one transaction."""
    for name, data in wanted.items():
        at, node = place.at(name), found.nodes.get(name)
        if node is None:
            yield (Create(at, data, ephemeral=True),)
        elif node.owner != session_id:
            # It would vanish with that session. Both operations are in one transaction, so no
            # reader ever sees the node missing.
            yield (Delete(at), Create(at, data, ephemeral=True))
        elif node.data != data:
            yield (SetData(at, data, node.version),)


def _settled(node: ZNode | None, data: bytes, session_id: int) -> bytes:
    """Return the content for a node; the old one if it is ours and differs in revision only."""
    if node is not None and node.owner == session_id and _same(node.data, data):
        return node.data
    return data


def _same(old: bytes, new: bytes) -> bool:
    """Return whether two contents are equal except for epoch and revision."""
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
    """Return the transactions; each fails once another master has written the cluster's node.

    *said* is the content of the cluster's node until the last transaction (None: there is only
    one), and after it.
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
    """Return the units in order, in as few batches as possible; at least one."""
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
    """Return our nodes after the transactions."""
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
