"""What a new master makes of the containers that YARN hands over from earlier ones. Pure."""

from collections.abc import Iterable, Mapping
from typing import Self

import attrs

from tarn.domain import ClusterSpec, Endpoint
from tarn.domain.instance import id_of
from tarn_plugins.runtime.yarn.master.records import avoided_host, read_names
from tarn_plugins.runtime.yarn.master.shapes import endpoint_on
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, ContainerRecord

__all__ = ["RecoveredRecords", "Recovery", "recover"]


@attrs.frozen
class RecoveredRecords:
    """What the records of earlier masters say, for as long as containers may still turn up."""

    records: Mapping[str, ContainerRecord] = attrs.field(factory=dict, hash=False)
    """By container id."""
    guess: ClusterSpec | None = None
    """The present spec, where the records could not be read."""
    spec_hash: str = ""
    found: Mapping[str, Endpoint] = attrs.field(factory=dict, hash=False)
    """Container id to where its instance said that it is, where the records could not be read."""
    avoided: frozenset[str] = frozenset()
    """Nodes that YARN was told to avoid, for what failed there."""

    @classmethod
    def read(cls, names: Iterable[str]) -> tuple[Self, tuple[str, ...]]:
        """Return what the launch files *names* say, and notes on those that say nothing."""
        names = tuple(names)
        records, notes = read_names(names)
        avoided = frozenset(host for name in names if (host := avoided_host(name)) is not None)
        by_container = {r.container_id: r for r in records}
        return cls(by_container, avoided=avoided), notes

    @classmethod
    def lost(cls, spec: ClusterSpec, spec_hash: str, found: Mapping[str, Endpoint]) -> Self:
        """Return what can be said without the records: numbers, and what was *found* on the nodes.

        One that said nothing is taken to listen where the spec says, if it is alone on its node.
        """
        return cls({}, spec, spec_hash, found)

    def of(self, grant: AllocatedContainer) -> ContainerRecord | None:
        """Return the record of the container *grant*; None where nobody can know it."""
        record = self.records.get(grant.container_id)
        if record is not None or self.guess is None or not grant.number:
            return record
        endpoint = self.found.get(grant.container_id)
        if endpoint is None and self.guess.placement.spread != "node":
            return None
        return ContainerRecord(
            instance_id=id_of(self.guess.name, grant.number),
            number=grant.number,
            container_id=grant.container_id,
            spec_hash=self.spec_hash,
            node=grant.node,
            endpoint=endpoint or endpoint_on(grant.node, grant.number, self.guess.triton, ()),
            started_at=0.0,
        )


@attrs.frozen
class Recovery:
    """What was found alive, and what is to be done about the rest."""

    running: tuple[tuple[AllocatedContainer, ContainerRecord], ...] = ()
    lost: tuple[AllocatedContainer, ...] = ()
    """Containers that nobody can address: they go back."""
    stale: tuple[ContainerRecord, ...] = ()
    """Their containers were not handed over; a late NodeManager may still bring one."""
    notes: tuple[str, ...] = ()

    @property
    def hosts(self) -> frozenset[str]:
        """The nodes of all of these: earlier attempts may have avoided each of them."""
        grants = (*(grant for grant, _ in self.running), *self.lost)
        return frozenset((*(g.node for g in grants), *(r.node for r in self.stale)))


def recover(grants: Iterable[AllocatedContainer], memory: RecoveredRecords) -> Recovery:
    """Match the containers that YARN handed over with what earlier masters left.

    Of two containers of one instance the later grant wins; the other goes back.
    """
    running: dict[str, tuple[AllocatedContainer, ContainerRecord]] = {}
    lost: list[AllocatedContainer] = []
    notes: list[str] = []
    for grant in sorted(grants, key=lambda g: g.container_id):
        record = memory.of(grant)
        if record is None:
            lost.append(grant)
            notes.append(_unknown(grant))
            continue
        other = running.pop(record.instance_id, None)
        if other is not None:
            lost.append(other[0])
            notes.append(f"{record.instance_id} had two containers; {other[0].container_id} ends")
        running[record.instance_id] = (grant, record)
    known = {grant.container_id for grant, _ in running.values()}
    stale = tuple(r for r in memory.records.values() if r.container_id not in known)
    return Recovery(tuple(running.values()), tuple(lost), stale, tuple(notes))


def _unknown(grant: AllocatedContainer) -> str:
    return (
        f"{grant.container_id} on {grant.node} has no launch file that says where it listens; it "
        "goes back to YARN"
    )
