"""What the ledger holds for one instance, what is to be done about it, and the fact it makes."""

import enum
from collections.abc import Iterable
from typing import Any

import attrs

from tarn.domain import Ended, Endpoint, ExitStatus, Fact, Launch, Pending, Running
from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, Ask, ContainerRecord, Shape

__all__ = [
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

_START_WITHIN_S = 120.0
"""To make files ready, and again for the node: beyond the deadlines of every call that each is made
of, so the thread itself is stuck."""
_MOST_LEFT = 200
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0
_RETRY_DOUBLINGS = 6


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
    """Remove the launch file of an instance that is over."""

    record: ContainerRecord
    diagnostics: str = ""
    """What YARN said at its end."""


@attrs.frozen
class Note:
    """Leave word for the next master that *node* is avoided, or take it back."""

    node: str
    avoided: bool


Job = Start | Stop | Forget | Note


class Phase(enum.Enum):
    """Where an instance is in its life, as the runtime sees it."""

    ASKED = enum.auto()
    STARTING = enum.auto()
    """Granted, and its NodeManager was told to start it."""
    RUNNING = enum.auto()
    ENDED = enum.auto()


def _held(slot: "InstanceSlot", _attribute: Any, phase: Phase) -> Phase:
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
    """None: it was started by an earlier master."""
    grant: AllocatedContainer | None = None
    record: ContainerRecord | None = None
    phase: Phase = attrs.field(default=Phase.ASKED, on_setattr=_held)
    granted_s: float = 0.0
    called_s: float | None = None
    """Its node was called; before, its files were made ready."""
    running_s: float = 0.0
    proven: bool = False
    """It ran for long enough to speak for its node."""
    adopted: bool = False
    leaving: str = ""
    exit: ExitStatus | None = None

    # While it is asked for.
    refusals: int = 0
    again: str = ""
    """Why it is asked for once more, in words."""
    retry_s: float = 0.0
    """Not asked for again before."""

    # While it is to end.
    stop_asked: bool = False
    stop_said: bool = False
    """A heartbeat began after the stop was asked; only its answer lets `Ledger` post the stop."""
    stop_posted_s: float | None = None
    releasing: bool = False
    """YARN is to take its container back."""
    released_s: float | None = None
    """YARN answered the heartbeat that said so."""

    def ask_again(self, now_s: float, why: str = "") -> None:
        """Let the next ask wait, longer with each refusal; *why* is told meanwhile."""
        self.again = why or self.again
        pause_s = _RETRY_FIRST_S * 2 ** min(self.refusals, _RETRY_DOUBLINGS)
        self.refusals += 1
        self.retry_s = now_s + min(pause_s, _RETRY_MOST_S)

    def hold(
        self, grant: AllocatedContainer, endpoint: Endpoint, now_s: float, at: float
    ) -> ContainerRecord:
        """Take the container *grant*, to listen at *endpoint*; return what is noted of it."""
        container_id, node = grant.container_id, grant.node
        self.grant = grant
        self.record = ContainerRecord(
            self.instance_id, self.number, container_id, self.spec_hash, node, endpoint, at
        )
        self.phase, self.granted_s, self.called_s = Phase.STARTING, now_s, None
        return self.record

    def let_go(self) -> tuple[AllocatedContainer, ContainerRecord]:
        """Return the container, and be asked for once more."""
        grant, record = self.grant, self.record
        assert grant is not None
        assert record is not None
        self.phase, self.grant, self.record, self.leaving = Phase.ASKED, None, None, ""
        return grant, record

    def late(self, now_s: float) -> Exception | None:
        """Return what took too long of its start; None: nothing did.

        A file system that is slow is not the fault of the node.
        """
        since_s = self.granted_s if self.called_s is None else self.called_s
        if now_s - since_s <= _START_WITHIN_S:
            return None
        if self.called_s is None:
            found = f"its files were not ready in {_START_WITHIN_S:g} s"
            return LaunchError("yarn", found, retry_after_s=1.0)
        return TimeoutError(f"its node did nothing for {_START_WITHIN_S:g} s")

    @property
    def holds(self) -> bool:
        """It has a container."""
        return self.phase in (Phase.STARTING, Phase.RUNNING)

    def moves(self, since_s: float) -> bool:
        """Say whether it may change soon; an ask only when it was first said after *since_s*."""
        if self.phase is Phase.ASKED:
            return self.asked_s > since_s
        return self.phase is Phase.STARTING or (self.holds and self.stop_asked)

    @property
    def ask(self) -> Ask:
        """What is asked of YARN for it."""
        assert self.shape is not None
        return Ask(self.number, self.shape)


class InstanceSlots(dict[str, InstanceSlot]):
    """The slots by instance id, and where the last ones were that are none any more."""

    def __init__(self) -> None:
        super().__init__()
        self._left: dict[str, AllocatedContainer] = {}

    def forget(self, slot: InstanceSlot) -> None:
        """Take a slot out; where its container was is known on, for who asks for its log."""
        del self[slot.instance_id]
        if slot.grant is not None:
            self._left[slot.instance_id] = slot.grant
        while len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]

    def grant(self, instance_id: str) -> AllocatedContainer | None:
        """Return the container that an instance has, or had; None: none is known."""
        slot = self.get(instance_id)
        return self._left.get(instance_id) if slot is None else slot.grant

    def asked(self) -> Iterable[InstanceSlot]:
        """Yield those that wait for a container."""
        return (slot for slot in self.values() if slot.phase is Phase.ASKED)

    def on(self, node: str) -> Iterable[InstanceSlot]:
        """Yield those that hold a container on *node*."""
        held = (slot for slot in self.values() if slot.holds)
        return (slot for slot in held if slot.grant is not None and slot.grant.node == node)

    def hosts(self) -> frozenset[str]:
        """Return the nodes that hold an instance."""
        held = (slot for slot in self.values() if slot.holds)
        return frozenset(slot.grant.node for slot in held if slot.grant is not None)


def fact(slot: InstanceSlot, waits_for: str) -> Fact:
    """Return what is so of one instance; *waits_for* is said while it is asked for."""
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
