"""The book of what was asked of YARN, what it gave, and what became of it.

Pure: no clock, no thread, no I/O. Wishes, answers and results of node calls go in; the next
exchange, jobs for the nodes, and facts come out. One thread at a time may use it.

It holds these laws, whatever YARN does:

- asked and held together never exceed what is wanted: one ask, or one container, an instance;
- a container that is not for a wanted instance is never started, and goes back with the next
  heartbeat: a second grant, a late one, one for an id that was cancelled;
- with ``spread: node`` no two instances share a node;
- nothing is started or stopped before an exchange that began after the wish went well, so a
  master that was superseded meanwhile does neither;
- an end is told until no wish names the id.
"""

import math
from collections.abc import Mapping

import attrs

from tarn.domain import Endpoint, ExitStatus, Fact, Launch, RuntimeWish
from tarn.domain.spec import PlacementSpec
from tarn_plugins.runtime.yarn.master import deadlines, waiting
from tarn_plugins.runtime.yarn.master.bad_nodes import BadNodes
from tarn_plugins.runtime.yarn.master.exits import cancelled, explain, not_started, passing
from tarn_plugins.runtime.yarn.master.foreign_ports import ForeignPorts
from tarn_plugins.runtime.yarn.master.outbox import Outbox
from tarn_plugins.runtime.yarn.master.recovery import RecoveredRecords, Recovery
from tarn_plugins.runtime.yarn.master.shapes import number_of, shape_of, too_large
from tarn_plugins.runtime.yarn.master.slots import (
    Forget,
    InstanceSlot,
    InstanceSlots,
    Job,
    Phase,
    Start,
    Stop,
    fact,
)
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Completed,
    ContainerRecord,
    Exchange,
    Rejected,
)

__all__ = ["Ledger"]


@attrs.define(eq=False)
class Ledger:
    """Everything that is known of one cluster's containers. Seconds are monotonic."""

    placement: PlacementSpec
    plain: bool = False
    """YARN takes no constraints: hosts that hold an instance are blacklisted instead."""
    closing: waiting.LaunchDeadline = attrs.field(factory=waiting.LaunchDeadline)
    maximum: Mapping[str, int] = attrs.field(factory=dict)
    """The largest container, as told at registration."""
    _slots: InstanceSlots = attrs.field(factory=InstanceSlots)
    _places: dict[str, InstanceSlot] = attrs.field(factory=dict)
    """By container id, as long as the slot exists."""
    _outbox: Outbox = attrs.field(factory=Outbox)
    _bad: BadNodes = attrs.field(init=False)
    _ports: ForeignPorts = attrs.field(factory=ForeignPorts)
    _jobs: list[Job] = attrs.field(factory=list)
    _outlook: waiting.Outlook = attrs.field(factory=waiting.Outlook)
    _memory: RecoveredRecords = attrs.field(factory=RecoveredRecords)
    _stale: dict[str, ContainerRecord] = attrs.field(factory=dict)
    _stale_until_s: float = 0.0
    _forgave_s: float = 0.0

    def __attrs_post_init__(self) -> None:
        self._bad = BadNodes(self.placement.avoid_after_failures)

    # -- what goes in ------------------------------------------------------------------------

    def adopt(self, recovery: Recovery, memory: RecoveredRecords, now_s: float) -> None:
        """Take over what earlier masters left running; called once, before everything else."""
        self._outbox.may_avoid(recovery.hosts | memory.avoided)
        self._bad.remember(memory.avoided, now_s)
        for grant, record in recovery.running:
            self._adopt(grant, record, now_s)
        for grant in recovery.lost:
            self._outbox.release(grant.container_id)
        self._memory = memory
        self._stale = {record.container_id: record for record in recovery.stale}
        self._stale_until_s = now_s + deadlines.STALE_AFTER_S

    def wish(self, wish: RuntimeWish, now_s: float) -> None:
        """Take in what should run; a wish that was taken in before changes nothing."""
        named = {instance_id for instance_id, _ in wish.want} | wish.stop
        for slot in [s for s in self._slots.values() if s.phase is Phase.ENDED]:
            if slot.instance_id not in named:
                self._remove(slot)
        for instance_id in sorted(wish.stop):
            self._stop(instance_id, now_s)
        for instance_id, spec_hash in sorted(wish.want):
            if instance_id not in self._slots:
                launch = next((w for w in wish.launches if w.spec_hash == spec_hash), None)
                self._ask(instance_id, spec_hash, launch, now_s)

    def heard(self, said: Exchange, answer: AllocateResponse, now_s: float, at: float) -> None:
        """Take in the answer to *said*. *at* is wall time: the start of what was granted."""
        self._outbox.arrived(said)
        self._jobs.extend(self._bad.notes(said))
        self._release_arrived(said, now_s)
        over = {completed.container_id for completed in answer.completed}
        for completed in answer.completed:
            self._completed(completed, now_s)
        for grant in answer.recovered:
            if grant.container_id not in over:
                self._recovered(grant, now_s)
        for grant in answer.granted:
            self._granted(grant, now_s, at, over=grant.container_id in over)
        for rejected in answer.rejected:
            self._rejected(rejected, now_s)
        for container_id, why in answer.leaving.items():
            slot = self._places.get(container_id)
            if slot is not None:
                slot.leaving = slot.leaving or why
        self._outlook = attrs.evolve(
            self._outlook, nodes=answer.nodes, heard=True, free_mib=answer.free_mib
        )
        self._look(now_s)
        self._post_stops(now_s)

    def calling(self, container_id: str, now_s: float) -> bool:
        """Take in that a node is about to be called; False: its container was given up."""
        slot = self._starting(container_id)
        if slot is not None:
            slot.called_s = now_s
        return slot is not None

    def started(self, container_id: str, now_s: float) -> None:
        """Take in that a process exists."""
        slot = self._starting(container_id)
        if slot is not None:
            slot.phase, slot.running_s = Phase.RUNNING, now_s
            slot.refusals, slot.again = 0, ""

    def start_failed(
        self, container_id: str, error: Exception, now_s: float, *, at_node: bool
    ) -> None:
        """Take in that a process was not started; *at_node*: its NodeManager would not."""
        slot = self._starting(container_id)
        if slot is None:
            return
        self._outbox.release(container_id)
        if slot.stop_asked:
            self._end(slot, cancelled(), now_s)
        elif not at_node and passing(error):
            self._give_back(slot, waiting.unprepared(error), now_s)
        else:
            self._end(slot, not_started(error, at_node=at_node), now_s)

    def stop_failed(self, container_id: str) -> None:
        """Take in that a node does not take a stop: YARN takes the container back."""
        slot = self._places.get(container_id)
        if slot is not None and slot.holds:
            self._release(slot)

    # -- what comes out ----------------------------------------------------------------------

    def say(self, now_s: float) -> Exchange:
        """Return what the next heartbeat says; answer it with `heard`, or not at all."""
        exchange = self._difference(now_s)
        self._outbox.trying(exchange)
        for slot in self._slots.values():
            slot.stop_said = slot.stop_asked
        return exchange

    def urgent(self, now_s: float) -> bool:
        """Say whether something is to be said that YARN does not know."""
        stops = any(s.stop_asked and not s.stop_said and s.holds for s in self._slots.values())
        return stops or self._difference(now_s) != Exchange()

    def outstanding(self, now_s: float) -> bool:
        """Say whether something may change soon: just asked, starting, or stopping."""
        since_s = math.inf if self.closing.why(now_s) else now_s - deadlines.STARVED_S
        return any(slot.moves(since_s) for slot in self._slots.values())

    def jobs(self) -> tuple[Job, ...]:
        """Return what is to be done at nodes and with files, each job once."""
        jobs, self._jobs = tuple(self._jobs), []
        return jobs

    def grant(self, instance_id: str) -> AllocatedContainer | None:
        """Return the container of an instance, also after its end; None: none is known."""
        return self._slots.grant(instance_id)

    def facts(self, now_s: float) -> tuple[Fact, ...]:
        """Return one fact for each instance, by id."""
        hosts = self._slots.hosts()
        avoided = self._bad.avoided(self._outlook.nodes) - hosts
        outlook = attrs.evolve(self._outlook, holding=len(hosts), avoided=len(avoided))
        return tuple(
            fact(slot, self._waits_for(slot, outlook, now_s))
            for _, slot in sorted(self._slots.items())
        )

    # -- asking ------------------------------------------------------------------------------

    def _ask(self, instance_id: str, spec_hash: str, launch: Launch | None, now_s: float) -> None:
        number = number_of(instance_id)
        slot = InstanceSlot(instance_id, number, spec_hash, now_s, launch=launch)
        self._slots[instance_id] = slot
        if launch is None:
            # It was another spec's, and is gone: only an instance of the present one can follow.
            self._end(slot, ExitStatus("neither it nor its spec exists any more"), now_s)
            return
        slot.shape = shape_of(launch, self.placement)
        never = too_large(slot.shape, self.maximum) if number else "its id has no number above 0"
        if never:
            self._end(slot, ExitStatus(never, permanent=True), now_s)
        if any(record.instance_id == instance_id for record in self._stale.values()):
            slot.retry_s = self._stale_until_s  # its first container may still come back

    def _difference(self, now_s: float) -> Exchange:
        closed = self.closing.why(now_s)
        asks = {s.number: s.ask for s in self._slots.asked() if not closed and s.retry_s <= now_s}
        avoid = self._bad.avoided(self._outlook.nodes)
        if self.plain and self._spread:
            avoid |= self._slots.hosts()
        return self._outbox.difference(asks, avoid)

    def _granted(self, grant: AllocatedContainer, now_s: float, at: float, *, over: bool) -> None:
        known = self._places.get(grant.container_id)
        if (known is not None and known.holds) or self._outbox.releasing(grant.container_id):
            return  # told twice
        slot = next((s for s in self._slots.asked() if s.number == grant.number), None)
        if slot is None:
            self._outbox.release(grant.container_id)
            return
        self._outbox.dropped(slot.number)
        endpoint = None if over or self.closing.why(now_s) else self._endpoint(slot, grant)
        if endpoint is None:
            self._outbox.release(grant.container_id)
            slot.ask_again(now_s)
            return
        self._take(slot, grant, endpoint, now_s, at)

    def _endpoint(self, slot: InstanceSlot, grant: AllocatedContainer) -> Endpoint | None:
        """Return where it would listen; None where its node has no place for it."""
        assert slot.launch is not None
        held = [s.record.endpoint for s in self._slots.on(grant.node) if s.record is not None]
        if self._spread:
            if held:
                return None
        else:  # what a late NodeManager may bring back listens there all the while
            held += [r.endpoint for r in self._stale.values() if r.node == grant.node]
        return self._ports.choose(grant.node, slot.number, slot.launch.triton, held)

    def _take(
        self,
        slot: InstanceSlot,
        grant: AllocatedContainer,
        endpoint: Endpoint,
        now_s: float,
        at: float,
    ) -> None:
        assert slot.launch is not None
        record = slot.hold(grant, endpoint, now_s, at)
        self._places[grant.container_id] = slot
        self._jobs.append(Start(grant, record, slot.launch))

    def _rejected(self, rejected: Rejected, now_s: float) -> None:
        slot = next((s for s in self._slots.asked() if s.number == rejected.number), None)
        self._outbox.dropped(rejected.number)
        if slot is not None:
            slot.ask_again(now_s, waiting.rejection(rejected.reason))

    def _give_back(self, slot: InstanceSlot, why: str, now_s: float) -> None:
        """Ask again: it is not a fault of the instance that this container could not be used."""
        grant, record = slot.let_go()
        self._jobs.append(Forget(record))
        del self._places[grant.container_id]
        slot.ask_again(now_s, why)

    def _waits_for(self, slot: InstanceSlot, outlook: waiting.Outlook, now_s: float) -> str:
        if slot.phase is not Phase.ASKED or slot.shape is None:
            return ""
        why = self.closing.why(now_s)
        return why or waiting.waits_for(slot.shape, outlook, now_s - slot.asked_s, slot.again)

    # -- ending ------------------------------------------------------------------------------

    def _stop(self, instance_id: str, now_s: float) -> None:
        slot = self._slots.get(instance_id)
        if slot is None:
            slot = InstanceSlot(instance_id, number_of(instance_id), "", now_s)
            self._slots[instance_id] = slot
        if slot.phase is Phase.ASKED:
            self._end(slot, cancelled(), now_s)
        slot.stop_asked = True

    def _post_stops(self, now_s: float) -> None:
        for slot in self._slots.values():
            if slot.holds and slot.stop_said and slot.stop_posted_s is None:
                assert slot.grant is not None
                slot.stop_posted_s = now_s
                self._jobs.append(Stop(slot.grant))

    def _release(self, slot: InstanceSlot) -> None:
        assert slot.grant is not None
        if not slot.releasing:
            slot.releasing = True
            self._outbox.release(slot.grant.container_id)

    def _release_arrived(self, said: Exchange, now_s: float) -> None:
        for container_id in said.releases:
            slot = self._places.get(container_id)
            if slot is not None and slot.releasing and slot.released_s is None:
                slot.released_s = now_s

    def _completed(self, completed: Completed, now_s: float) -> None:
        self._outbox.over(completed.container_id)
        slot = self._places.get(completed.container_id)
        if slot is not None and slot.holds:
            asked = slot.stop_asked or slot.releasing
            launch = slot.launch
            mib = None if launch is None else launch.instance.resources.memory_mib
            status = explain(completed, asked=asked, memory_mib=mib)
            self._end(slot, status, now_s, completed.diagnostics)

    def _end(
        self, slot: InstanceSlot, status: ExitStatus, now_s: float, diagnostics: str = ""
    ) -> None:
        ran = slot.phase is Phase.RUNNING
        slot.exit, slot.phase = status, Phase.ENDED
        if slot.record is not None:
            self._jobs.append(Forget(slot.record, diagnostics))
            self._ports.ended(slot.record.endpoint, status.last_error)
        if slot.grant is None or status.expected or status.permanent:
            return
        if status.node_fault or (ran and now_s - slot.running_s < deadlines.QUICK_S):
            self._bad.failed(slot.grant.node, now_s)

    def _remove(self, slot: InstanceSlot) -> None:
        self._slots.forget(slot)
        if slot.grant is not None:
            del self._places[slot.grant.container_id]

    # -- time --------------------------------------------------------------------------------

    def _look(self, now_s: float) -> None:
        """See what is overdue; only when YARN answered, for what it did not hear is not late."""
        for slot in [s for s in self._slots.values() if s.holds]:
            self._look_at(slot, now_s)
        if self._stale and now_s >= self._stale_until_s:
            self._jobs.extend(Forget(record) for record in self._stale.values())
            self._stale.clear()
        starving = self._starving(now_s)
        if starving:
            self._forgave_s = now_s
        self._bad.forgive(now_s, starving=starving)

    def _look_at(self, slot: InstanceSlot, now_s: float) -> None:
        assert slot.grant is not None
        if slot.phase is Phase.STARTING:
            if late := slot.late(now_s):
                called = slot.called_s is not None
                self.start_failed(slot.grant.container_id, late, now_s, at_node=called)
        elif slot.released_s is not None and now_s - slot.released_s > deadlines.END_HEARD_S:
            self._end(
                slot, ExitStatus("stopped; YARN never reported its end", expected=True), now_s
            )
        elif slot.stop_posted_s is not None and now_s - slot.stop_posted_s > deadlines.END_HEARD_S:
            self._release(slot)
        elif slot.phase is Phase.RUNNING and not slot.proven:
            slot.proven = now_s - slot.running_s >= deadlines.QUICK_S
            if slot.proven:
                self._bad.succeeded(slot.grant.node)

    def _starving(self, now_s: float) -> bool:
        """Say whether an ask can be met by an avoided node only, as far as is known."""
        asked_s = [s.asked_s for s in self._slots.asked()]
        avoided = self._bad.avoided(self._outlook.nodes)
        if not asked_s or not avoided:
            return False
        if self._spread and len(self._slots.hosts() | avoided) >= self._outlook.nodes:
            return True
        return now_s - max(min(asked_s), self._forgave_s) >= deadlines.STARVED_S

    # -- recovery ----------------------------------------------------------------------------

    def _recovered(self, grant: AllocatedContainer, now_s: float) -> None:
        """Take in a container of an earlier master that YARN learned of late."""
        if grant.container_id in self._places:
            return
        record = self._memory.of(grant)
        slot = self._slots.get(record.instance_id) if record is not None else None
        if record is None or (slot is not None and slot.phase is not Phase.ASKED):
            self._outbox.release(grant.container_id)
        else:
            self._adopt(grant, record, now_s)

    def _adopt(self, grant: AllocatedContainer, record: ContainerRecord, now_s: float) -> None:
        self._stale.pop(grant.container_id, None)
        slot = InstanceSlot(record.instance_id, record.number, record.spec_hash, now_s)
        slot.grant, slot.record = grant, record
        slot.phase, slot.running_s, slot.adopted = Phase.RUNNING, now_s, True
        self._slots[record.instance_id] = slot
        self._places[grant.container_id] = slot

    # -- looking -----------------------------------------------------------------------------

    def _starting(self, container_id: str) -> InstanceSlot | None:
        slot = self._places.get(container_id)
        return slot if slot is not None and slot.phase is Phase.STARTING else None

    @property
    def _spread(self) -> bool:
        return self.placement.spread == "node"
