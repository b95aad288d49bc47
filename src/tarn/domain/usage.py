"""What a fleet did and what it held, by instance and by model, over days. Pure.

Kept in slots of ten minutes for a day and of an hour for a week, a fixed number of names in each;
the names beyond them are one, `OTHER`.
"""

from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.counters import Counters, after, grew

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

OTHER = "_other"
MOST_NAMES = 100
"""Instances, and models, with numbers of their own in one slot."""
INSTANCE, MODEL = "instance", "model"
Key = tuple[str, str]
"""`INSTANCE` or `MODEL`, and its name."""


@attrs.frozen
class ResourceUse:
    """What was done and held."""

    requests: float = 0.0
    """That succeeded."""
    failures: float = 0.0
    request_s: float = 0.0
    """Seconds from arrival to answer, summed over those that succeeded."""
    instance_s: float = 0.0
    """Seconds in which the instance had a process, or instances had the model READY."""
    gpu_s: float = 0.0
    """The same, times the GPUs of an instance. Models of one instance share it: each has all."""

    def plus(self, other: "ResourceUse") -> "ResourceUse":
        """Return both together."""
        return ResourceUse(
            self.requests + other.requests,
            self.failures + other.failures,
            self.request_s + other.request_s,
            self.instance_s + other.instance_s,
            self.gpu_s + other.gpu_s,
        )


@attrs.frozen
class UsageSample:
    """What one moment shows. Times are wall seconds."""

    at: float
    gpus: int
    """Of each instance."""
    instances: Mapping[str, Counters | None] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to its counters; None where they are not known."""
    ready: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Model to how many instances have it READY."""
    models: Mapping[str, Counters] = attrs.field(factory=dict, hash=False)
    """Model to what it counted under this master, from 0 on."""
    fresh: frozenset[str] = frozenset()
    """Instances that were started under this master: all that they count is new."""


@attrs.frozen
class UsageSlots:
    """One resolution: what was spent in each slot of *slot_s* seconds, of which *keep* are kept."""

    slot_s: int
    keep: int
    slots: Mapping[float, Mapping[Key, ResourceUse]] = attrs.field(factory=dict, hash=False)
    """Wall seconds of a slot's beginning to what was spent in it, oldest first."""

    @property
    def span_s(self) -> int:
        """How far back it can reach."""
        return self.slot_s * self.keep

    def plus(self, at: float, more: Mapping[Key, ResourceUse]) -> "UsageSlots":
        """Return it with *more* in the slot of *at*; the oldest slots beyond *keep* are dropped."""
        begun = at // self.slot_s * self.slot_s
        slot = dict(self.slots.get(begun, {}))
        for key, spent in more.items():
            named = key if key in slot or _room(slot, key[0]) else (key[0], OTHER)
            slot[named] = slot.get(named, ResourceUse()).plus(spent)
        slots = {**self.slots, begun: slot}
        kept = sorted(slots)[-self.keep :]
        return attrs.evolve(self, slots={at: slots[at] for at in kept})


SLOTS = (UsageSlots(600, 144), UsageSlots(3600, 168))
"""A day, a week."""


@attrs.frozen
class UsageTotal:
    """What was spent from *begun* on, wall seconds: the beginning of a slot."""

    begun: float
    slot_s: int
    spent: Mapping[Key, ResourceUse] = attrs.field(factory=dict, hash=False)


@attrs.frozen
class FleetUsage:
    """What was spent so far, and the counters that it was found by."""

    slots: tuple[UsageSlots, ...] = SLOTS
    at: float | None = None
    """Of the newest look; None: there was none."""
    instances: Mapping[str, Counters] = attrs.field(factory=dict, hash=False)
    running: frozenset[str] = frozenset()
    """Ids that had a process at the newest look."""
    models: Mapping[str, Counters] = attrs.field(factory=dict, hash=False)
    """What each model had counted under this master."""

    def looked(self, held: UsageSample) -> "FleetUsage":
        """Return it with one more look.

        An instance that ran at two looks ran in between, however long no master looked.
        """
        seconds = max(0.0, held.at - self.at) if self.at is not None else 0.0
        more = dict(self._more(held, seconds))
        return FleetUsage(
            tuple(slots.plus(held.at, more) for slots in self.slots) if more else self.slots,
            held.at,
            after(self.instances, held.instances),
            frozenset(held.instances),
            held.models,
        )

    def total(self, since: float, now: float) -> UsageTotal:
        """Return what was spent since the slot of *since*; the finest slots that reach so far."""
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
            before = self.instances.get(id_) or (Counters() if id_ in held.fresh else None)
            grown = grew(before, said) if before and said else Counters()
            yield (INSTANCE, id_), _spent(grown, seconds * (id_ in self.running), held.gpus)
        for name in held.ready.keys() | held.models.keys():
            said = held.models.get(name, Counters())
            grown = grew(self.models.get(name, Counters()), said)
            ready_s = 0.0 if seconds > LONGEST_S else seconds * held.ready.get(name, 0)
            yield (MODEL, name), _spent(grown, ready_s, held.gpus)


LONGEST_S = 60.0
"""Between two looks further apart nobody knows which models were ready."""


def _spent(grown: Counters, seconds: float, gpus: int) -> ResourceUse:
    return ResourceUse(
        grown.requests, grown.failures, grown.request_us / 1e6, seconds, seconds * gpus
    )


def _room(slot: Mapping[Key, ResourceUse], kind: str) -> bool:
    return sum(1 for key in slot if key[0] == kind) < MOST_NAMES
