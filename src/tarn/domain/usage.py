"""Requests and resources of a fleet over days, by instance and by model. Pure.

There are slots of ten minutes for a day, and of an hour for a week. Each has a bounded number of
names; all further names are counted together as `OTHER`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.counters import NOTHING, CounterSet, newest_known
from tarn.domain.history import NOT_LOOKED_S
from tarn.domain.model_totals import OTHER

__all__ = [
    "INSTANCE",
    "MODEL",
    "MOST_NAMES",
    "OTHER",
    "SLOTS",
    "FleetUsage",
    "ResourceUse",
    "UsageSample",
    "UsageSlots",
    "UsageTotal",
]

MOST_NAMES = 100
"""The most instances, and the most models, with numbers of their own in one slot."""
INSTANCE, MODEL = "instance", "model"
# `INSTANCE` or `MODEL`, and its name.
Key = tuple[str, str]


@attrs.frozen
class ResourceUse:
    """The requests that were answered, and the time for which resources were held."""

    requests: float = 0.0
    """Requests that succeeded."""
    failures: float = 0.0
    request_s: float = 0.0
    """Seconds from arrival to answer, summed over those that succeeded."""
    instance_s: float = 0.0
    """Seconds for which the instance had a process, or instances had the model READY."""
    gpu_s: float = 0.0
    """The same times the GPUs of an instance. All models of an instance share its GPUs, so each
    counts all of them."""

    def plus(self, other: "ResourceUse") -> "ResourceUse":
        """Return the sum of both."""
        return ResourceUse(
            self.requests + other.requests,
            self.failures + other.failures,
            self.request_s + other.request_s,
            self.instance_s + other.instance_s,
            self.gpu_s + other.gpu_s,
        )


@attrs.frozen
class UsageSample:
    """The resources in use at one moment. Times are wall seconds."""

    at: float
    gpus: int
    """GPUs of each instance."""
    instances: Mapping[str, CounterSet | None] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to its counters; None: not known."""
    ready: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Model to how many instances have it READY."""
    models: Mapping[str, CounterSet] = attrs.field(factory=dict, hash=False)
    """Model to its counters under this master, from 0 on."""
    fresh: frozenset[str] = frozenset()
    """Ids of instances that were started under this master, so that all their counts are new."""


@attrs.frozen
class UsageSlots:
    """One resolution: the usage in each of the newest ``keep`` slots of ``slot_s`` seconds."""

    slot_s: int
    keep: int
    slots: Mapping[float, Mapping[Key, ResourceUse]] = attrs.field(factory=dict, hash=False)
    """Wall second of a slot's beginning to the usage in it, oldest first."""

    @property
    def span_s(self) -> int:
        """The seconds that it can cover."""
        return self.slot_s * self.keep

    def plus(self, at: float, more: Mapping[Key, ResourceUse]) -> "UsageSlots":
        """Return it with *more* added to the slot of *at*."""
        begun = at // self.slot_s * self.slot_s
        slot = dict(self.slots.get(begun, {}))
        names = Counter(kind for kind, _ in slot)
        for key, spent in more.items():
            room = key in slot or names[key[0]] < MOST_NAMES
            named = key if room else (key[0], OTHER)
            if named in slot:
                slot[named] = slot[named].plus(spent)
            else:
                slot[named] = spent
                names[key[0]] += 1
        slots = {**self.slots, begun: slot}
        kept = sorted(slots)[-self.keep :]
        return attrs.evolve(self, slots={at: slots[at] for at in kept})


SLOTS = (UsageSlots(600, 144), UsageSlots(3600, 168))
"""A day, a week."""


@attrs.frozen
class UsageTotal:
    """The usage since ``begun``, the wall second at which a slot begins."""

    begun: float
    slot_s: int
    spent: Mapping[Key, ResourceUse] = attrs.field(factory=dict, hash=False)


@attrs.frozen
class FleetUsage:
    """The usage so far, and the newest sample's counters."""

    slots: tuple[UsageSlots, ...] = SLOTS
    at: float | None = None
    """Time of the newest sample; None: there was none."""
    instances: Mapping[str, CounterSet] = attrs.field(factory=dict, hash=False)
    running: frozenset[str] = frozenset()
    """Ids of the instances that had a process in the newest sample."""
    models: Mapping[str, CounterSet] = attrs.field(factory=dict, hash=False)
    """Counters of each model under this master."""

    def looked(self, held: UsageSample) -> "FleetUsage":
        """Return it with one more sample."""
        # An instance that ran at two samples ran in between, even if no master ran then.
        seconds = max(0.0, held.at - self.at) if self.at is not None else 0.0
        more = dict(self._more(held, seconds))
        return FleetUsage(
            tuple(slots.plus(held.at, more) for slots in self.slots) if more else self.slots,
            held.at,
            newest_known(self.instances, held.instances),
            frozenset(held.instances),
            held.models,
        )

    def total(self, since: float, now: float) -> UsageTotal:
        """Return the usage since the slot of *since*, from the finest slots that cover it."""
        span_s = now - since
        slots = next((s for s in self.slots if s.span_s >= span_s), self.slots[-1])
        spent: dict[Key, ResourceUse] = {}
        begun = now
        for at, slot in slots.slots.items():
            if at + slots.slot_s > since:
                begun = min(begun, at)
                for key, one in slot.items():
                    spent[key] = spent.get(key, ResourceUse()).plus(one)
        return UsageTotal(begun, slots.slot_s, spent)

    def _more(self, held: UsageSample, seconds: float) -> Iterator[tuple[Key, ResourceUse]]:
        for id_, said in held.instances.items():
            before = self.instances.get(id_, NOTHING if id_ in held.fresh else None)
            more = NOTHING if before is None or said is None else said.since(before)
            yield (INSTANCE, id_), _spent(more, seconds * (id_ in self.running), held.gpus)
        for name in held.ready.keys() | held.models.keys():
            more = held.models.get(name, NOTHING).since(self.models.get(name, NOTHING))
            # Which models were ready while no master ran is not known.
            ready_s = 0.0 if seconds > NOT_LOOKED_S else seconds * held.ready.get(name, 0)
            yield (MODEL, name), _spent(more, ready_s, held.gpus)


def _spent(more: CounterSet, seconds: float, gpus: int) -> ResourceUse:
    return ResourceUse(more.completed, more.failed, more.request_us / 1e6, seconds, seconds * gpus)
