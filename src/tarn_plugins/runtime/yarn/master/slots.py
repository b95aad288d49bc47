"""The ledger's entries for instances and nodes, and the jobs and facts from them. Pure."""

import enum
from collections.abc import Iterable
from typing import Any

import attrs

from tarn.domain import Ended, Endpoint, ExitStatus, Fact, Launch, Pending, Running
from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Ask,
    ContainerRecord,
    Exchange,
    Shape,
)

__all__ = [
    "BadNodes",
    "Forget",
    "InstanceSlot",
    "InstanceSlots",
    "Job",
    "Note",
    "Phase",
    "Start",
    "Stop",
    "fact",
]

# For preparing the files, and again for the node. All calls in either have shorter deadlines, so
# after this long the thread itself is stuck.
_START_WITHIN_S = 120.0
_MOST_LEFT = 200
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0
_RETRY_DOUBLINGS = 6

# An avoided node is tried again after this long, since it may have been fixed.
FORGIVE_AFTER_S = 600.0


@attrs.frozen
class Start:
    """Start the process of *record* in the container *grant*."""

    grant: AllocatedContainer
    record: ContainerRecord
    launch: Launch


@attrs.frozen
class Stop:
    """Stop the container *grant*."""

    grant: AllocatedContainer


@attrs.frozen
class Forget:
    """Remove the launch file of an ended instance."""

    record: ContainerRecord
    diagnostics: str = ""
    """YARN's text about its end."""


@attrs.frozen
class Note:
    """Note for the next master that *node* is avoided, or remove that note."""

    node: str
    avoided: bool


Job = Start | Stop | Forget | Note


class Phase(enum.Enum):
    """The phase of an instance's life."""

    ASKED = enum.auto()
    STARTING = enum.auto()
    """YARN granted a container; its process is being started."""
    RUNNING = enum.auto()
    ENDED = enum.auto()


def _legal_phase(slot: "InstanceSlot", _attribute: Any, phase: Phase) -> Phase:
    assert phase in (Phase.ASKED, Phase.ENDED) or slot.grant is not None
    return phase


@attrs.define(eq=False)
class InstanceSlot:
    """One instance. Seconds are monotonic."""

    instance_id: str
    number: int
    spec_hash: str
    asked_s: float
    shape: Shape | None = None
    launch: Launch | None = None
    """None: an earlier master started it."""
    grant: AllocatedContainer | None = None
    record: ContainerRecord | None = None
    phase: Phase = attrs.field(default=Phase.ASKED, on_setattr=_legal_phase)
    granted_s: float = 0.0
    called_s: float | None = None
    """When its node was called, after its files had been prepared; None before."""
    running_s: float = 0.0
    proven: bool = False
    """It ran long enough to show that its node works."""
    adopted: bool = False
    leaving: str = ""
    exit: ExitStatus | None = None

    # Used in the phase ASKED.
    refusals: int = 0
    again: str = ""
    """Why it is requested once more."""
    retry_s: float = 0.0
    """It is not requested before this time."""

    # Used while it is being stopped.
    stop_asked: bool = False
    stop_said: bool = False
    """A heartbeat began after the stop request; its answer lets `Ledger` post the stop."""
    stop_posted_s: float | None = None
    releasing: bool = False
    """Its container is being released to YARN."""
    released_s: float | None = None
    """When YARN answered the heartbeat with the release."""

    def ask_again(self, now_s: float, why: str = "") -> None:
        """Delay the next request, longer after each refusal; *why* is shown meanwhile."""
        self.again = why or self.again
        # Without the limit, the power would become too large for a float after a thousand refusals.
        pause_s = _RETRY_FIRST_S * 2 ** min(self.refusals, _RETRY_DOUBLINGS)
        self.refusals += 1
        self.retry_s = now_s + min(pause_s, _RETRY_MOST_S)

    def hold(
        self, grant: AllocatedContainer, endpoint: Endpoint, now_s: float, at: float
    ) -> ContainerRecord:
        """Assign the container *grant*, with *endpoint*; return its record."""
        container_id, node = grant.container_id, grant.node
        self.grant = grant
        self.record = ContainerRecord(
            self.instance_id, self.number, container_id, self.spec_hash, node, endpoint, at
        )
        self.phase, self.granted_s, self.called_s = Phase.STARTING, now_s, None
        return self.record

    def let_go(self) -> ContainerRecord:
        """Give up the container, so that another is requested; return its record."""
        record = self.record
        assert record is not None
        self.phase, self.grant, self.record, self.leaving = Phase.ASKED, None, None, ""
        return record

    def late(self, now_s: float) -> Exception | None:
        """Return an error if its start takes too long, else None."""
        since_s = self.granted_s if self.called_s is None else self.called_s
        if now_s - since_s <= _START_WITHIN_S:
            return None
        if self.called_s is None:  # a slow file system, which is not the node's fault
            found = f"its files were not ready in {_START_WITHIN_S:g} s"
            return LaunchError("yarn", found, retry_after_s=1.0)
        return TimeoutError(f"its node did nothing for {_START_WITHIN_S:g} s")

    @property
    def holds(self) -> bool:
        """Whether it has a container."""
        return self.phase in (Phase.STARTING, Phase.RUNNING)

    def moves(self, since_s: float) -> bool:
        """Return whether it may change soon; a request only if newer than *since_s*."""
        if self.phase is Phase.ASKED:
            return self.asked_s > since_s
        return self.phase is Phase.STARTING or (self.holds and self.stop_asked)

    @property
    def ask(self) -> Ask:
        """The request to YARN for it."""
        assert self.shape is not None
        return Ask(self.number, self.shape)


class InstanceSlots(dict[str, InstanceSlot]):
    """The slots by instance id, and the containers of the last removed ones."""

    def __init__(self) -> None:
        super().__init__()
        self._left: dict[str, AllocatedContainer] = {}

    def forget(self, slot: InstanceSlot) -> None:
        """Remove a slot, but remember its container, for requests of its log."""
        del self[slot.instance_id]
        if slot.grant is not None:
            self._left[slot.instance_id] = slot.grant
        while len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]

    def grant(self, instance_id: str) -> AllocatedContainer | None:
        """Return the container that an instance has or had; None if unknown."""
        slot = self.get(instance_id)
        return self._left.get(instance_id) if slot is None else slot.grant

    def asked(self) -> Iterable[InstanceSlot]:
        """Yield the slots that wait for a container."""
        return (slot for slot in self.values() if slot.phase is Phase.ASKED)

    def on(self, node: str) -> Iterable[InstanceSlot]:
        """Yield the slots with a container on *node*."""
        held = (slot for slot in self.values() if slot.holds)
        return (slot for slot in held if slot.grant is not None and slot.grant.node == node)

    def hosts(self) -> frozenset[str]:
        """Return the nodes that have an instance."""
        held = (slot for slot in self.values() if slot.holds)
        return frozenset(slot.grant.node for slot in held if slot.grant is not None)


def fact(slot: InstanceSlot, waits_for: str) -> Fact:
    """Return the fact that describes an instance; *waits_for* is for pending ones."""
    grant, record = slot.grant, slot.record
    if slot.exit is not None:
        container_id = grant.container_id if grant else None
        node = grant.node if grant else None
        return Ended(slot.instance_id, slot.spec_hash, slot.exit, container_id, node)
    if slot.phase is not Phase.RUNNING:
        return Pending(slot.instance_id, slot.spec_hash, waits_for)
    assert grant is not None
    assert record is not None
    return Running(
        slot.instance_id,
        slot.spec_hash,
        grant.container_id,
        grant.node,
        record.endpoint,
        started_at=record.started_at,
        adopted=slot.adopted,
        leaving=slot.leaving,
    )


@attrs.define(eq=False)
class BadNodes:
    """Counts consecutive failures of each node, and decides which nodes to avoid.

    At most half of the nodes are avoided at a time, those that failed first.
    """

    limit: int
    """Consecutive failures after which a node is avoided."""
    _failures: dict[str, int] = attrs.field(factory=dict)
    # Host name -> the second since which it is avoided, oldest first.
    _avoided: dict[str, float] = attrs.field(factory=dict)
    _noted: set[str] = attrs.field(factory=set)

    def failed(self, node: str, now_s: float) -> None:
        """Count a failure that the node may have caused."""
        self._failures[node] = self._failures.get(node, 0) + 1
        if self._failures[node] >= self.limit:
            self._avoided.setdefault(node, now_s)

    def succeeded(self, node: str) -> None:
        """Forget the failures of a node on which an instance works."""
        self._failures.pop(node, None)
        self._avoided.pop(node, None)

    def forgive(self, now_s: float, *, starving: bool) -> None:
        """Stop avoiding nodes after their time; with *starving*, the one avoided longest."""
        over = [n for n, since_s in self._avoided.items() if now_s - since_s >= FORGIVE_AFTER_S]
        if starving and not over:
            over = list(self._avoided)[:1]
        for node in over:
            del self._avoided[node]
            # So one further failure makes the node avoided again.
            self._failures[node] = self.limit - 1

    def remember(self, nodes: frozenset[str], now_s: float) -> None:
        """Avoid the *nodes* that an earlier master avoided, from now on."""
        for node in sorted(nodes):
            self._failures[node] = self.limit
            self._avoided[node] = now_s
            self._noted.add(node)

    def notes(self, said: Exchange) -> tuple[Note, ...]:
        """Return the notes for the next master after *said* was answered."""
        # YARN keeps its blacklist over masters, so the next one must know what it contains.
        bad = [node for node in said.avoid if node in self._avoided and node not in self._noted]
        good = [node for node in said.welcome if node in self._noted]
        self._noted = (self._noted | set(bad)) - set(good)
        return (*(Note(n, avoided=True) for n in bad), *(Note(n, avoided=False) for n in good))

    def avoided(self, nodes: int) -> frozenset[str]:
        """Return the host names to avoid now; *nodes* is the number of all NodeManagers."""
        # If every node fails, the nodes are not the cause.
        return frozenset(list(self._avoided)[: nodes // 2])
