"""The ledger of requests to YARN, granted containers, and their ends.

Pure: no clock, no thread, no I/O. Wishes, answers and results of node calls go in; the next
exchange, jobs for the nodes, and facts come out. Only one thread at a time may use it.

It keeps these invariants, whatever YARN does:

- an instance has at most one request or one container, so both together never exceed the wish;
- a container without a wanted instance (a second or late grant, or one for a cancelled request) is
  never started, and is released with the next heartbeat;
- with ``spread: node`` no two instances share a node;
- nothing is started or stopped before YARN answered an exchange that began after the wish, so a
  master that was superseded meanwhile does neither;
- the end of an instance remains a fact until no wish names its id.
"""

import math
from collections.abc import Mapping

import attrs

from tarn.domain import Endpoint, ExitStatus, Fact, Launch, RuntimeWish
from tarn.domain.spec import PlacementSpec
from tarn_plugins.runtime.yarn.master.asks import (
    ForeignPorts,
    LaunchDeadline,
    Outlook,
    number_of,
    rejection,
    shape_of,
    too_large,
    unprepared,
    waits_for,
)
from tarn_plugins.runtime.yarn.master.exits import cancelled, explain, not_started, passing
from tarn_plugins.runtime.yarn.master.recovery import RecoveredRecords, Recovery
from tarn_plugins.runtime.yarn.master.slots import (
    BadNodes,
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
    Ask,
    Completed,
    ContainerRecord,
    Exchange,
    Rejected,
)

__all__ = ["Ledger"]

# An instance that ends sooner, without a stop request, counts as a failure of its node.
QUICK_S = 30.0
# YARN reports the end of a stopped container within a few heartbeats; later, the stop was lost.
END_HEARD_S = 15.0
# After this long, perhaps only an avoided node can meet a request.
STARVED_S = 30.0
# A restarted ResourceManager hears of all NodeManagers within this.
STALE_AFTER_S = 180.0


@attrs.define(eq=False)
class Outbox:
    """Makes the next exchange as the difference between two whole states."""

    # A failed heartbeat may have arrived or not. So there are two sets of each kind: ``tried`` is
    # what YARN may know, and ``said`` what it knows for certain. What is missing in ``said`` is
    # sent again, and what is superfluous in ``tried`` is cancelled.

    _tried: dict[int, Ask] = attrs.field(factory=dict)
    _said: dict[int, Ask] = attrs.field(factory=dict)
    _releases: set[str] = attrs.field(factory=set)
    _avoid_tried: frozenset[str] = frozenset()
    _avoid_said: frozenset[str] = frozenset()

    def may_avoid(self, hosts: frozenset[str]) -> None:
        """Note that YARN may still have *hosts* on its list from an earlier attempt."""
        self._avoid_tried |= hosts

    def difference(self, asks: Mapping[int, Ask], avoid: frozenset[str]) -> Exchange:
        """Return the exchange after which YARN knows exactly *asks* and *avoid*."""
        return Exchange(
            asks=tuple(asks[n] for n in sorted(asks) if n not in self._said),
            cancels=tuple(self._tried[n] for n in sorted(self._tried) if n not in asks),
            releases=tuple(sorted(self._releases)),
            avoid=tuple(sorted(avoid - self._avoid_said)),
            welcome=tuple(sorted(self._avoid_tried - avoid)),
        )

    def trying(self, said: Exchange) -> None:
        """Note that *said* is being sent, so YARN may know it from now on."""
        self._tried.update((ask.number, ask) for ask in said.asks)
        for ask in said.cancels:
            self._said.pop(ask.number, None)
        self._avoid_tried |= frozenset(said.avoid)
        self._avoid_said -= frozenset(said.welcome)

    def arrived(self, said: Exchange) -> None:
        """Note that YARN answered *said*."""
        self._said.update((ask.number, ask) for ask in said.asks)
        for ask in said.cancels:
            self._tried.pop(ask.number, None)
        self._releases.difference_update(said.releases)
        self._avoid_said |= frozenset(said.avoid)
        self._avoid_tried -= frozenset(said.welcome)

    def dropped(self, number: int) -> None:
        """Note that YARN granted or rejected the request of this number."""
        self._tried.pop(number, None)
        self._said.pop(number, None)

    def release(self, container_id: str) -> None:
        """Release a container with the next exchange."""
        self._releases.add(container_id)

    def releasing(self, container_id: str) -> bool:
        """Return whether a container will be released with the next exchange."""
        return container_id in self._releases

    def over(self, container_id: str) -> None:
        """Note that a container has ended, and needs no release."""
        self._releases.discard(container_id)


@attrs.define(eq=False)
class Ledger:
    """The state of one cluster's containers. Seconds are monotonic."""

    placement: PlacementSpec
    plain: bool = False
    """YARN accepts no constraints; hosts with an instance are blacklisted instead."""
    closing: LaunchDeadline = attrs.field(factory=LaunchDeadline)
    maximum: Mapping[str, int] = attrs.field(factory=dict)
    """The largest container, from the answer to the registration."""
    _slots: InstanceSlots = attrs.field(factory=InstanceSlots)
    # By container id, while the slot exists.
    _places: dict[str, InstanceSlot] = attrs.field(factory=dict)
    _outbox: Outbox = attrs.field(factory=Outbox)
    _bad: BadNodes = attrs.field(init=False)
    _ports: ForeignPorts = attrs.field(factory=ForeignPorts)
    _jobs: list[Job] = attrs.field(factory=list)
    _outlook: Outlook = attrs.field(factory=Outlook)
    _memory: RecoveredRecords = attrs.field(factory=RecoveredRecords)
    _stale: dict[str, ContainerRecord] = attrs.field(factory=dict)
    _stale_until_s: float = 0.0
    _forgave_s: float = 0.0
    # Instance id -> the second since which its ports refuse connections.
    _gone: dict[str, float] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._bad = BadNodes(self.placement.avoid_after_failures)

    # -- what goes in ------------------------------------------------------------------------

    def adopt(self, recovery: Recovery, memory: RecoveredRecords, now_s: float) -> None:
        """Adopt the containers of earlier masters. Called once, before all else."""
        self._outbox.may_avoid(recovery.hosts | memory.avoided)
        self._bad.remember(memory.avoided, now_s)
        for grant, record in recovery.running:
            self._adopt(grant, record, now_s)
        for grant in recovery.lost:
            self._outbox.release(grant.container_id)
        self._memory = memory
        self._stale = {record.container_id: record for record in recovery.stale}
        self._stale_until_s = now_s + STALE_AFTER_S

    def wish(self, wish: RuntimeWish, now_s: float) -> None:
        """Take the wish of what should run. Idempotent."""
        named = {instance_id for instance_id, _ in wish.want} | wish.stop
        # A copy, since `forget` changes the slots.
        for slot in [s for s in self._slots.values() if s.phase is Phase.ENDED]:
            if slot.instance_id not in named:
                self._slots.forget(slot)
                if slot.grant is not None:
                    del self._places[slot.grant.container_id]
        for instance_id in sorted(wish.stop):
            self._stop(instance_id, now_s)
        for instance_id, spec_hash in sorted(wish.want):
            if instance_id not in self._slots:
                launch = next((w for w in wish.launches if w.spec_hash == spec_hash), None)
                self._ask(instance_id, spec_hash, launch, now_s)
        self._gone = {id_: self._gone.get(id_, now_s) for id_ in wish.gone}

    def heard(self, said: Exchange, answer: AllocateResponse, now_s: float, at: float) -> None:
        """Take the answer to *said*; *at* is the wall time of grants in it."""
        self._outbox.arrived(said)
        self._jobs.extend(self._bad.notes(said))
        self._releases_arrived(said, now_s)
        # One answer may report both that a container was granted and that it has ended. Nothing
        # must start in it.
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
        """Note that a node is about to be called; False if its container was given up."""
        slot = self._starting(container_id)
        if slot is not None:
            slot.called_s = now_s
        return slot is not None

    def started(self, container_id: str, now_s: float) -> None:
        """Note that the process of a container was started."""
        slot = self._starting(container_id)
        if slot is not None:
            slot.phase, slot.running_s = Phase.RUNNING, now_s
            slot.refusals, slot.again = 0, ""

    def start_failed(
        self, container_id: str, error: Exception, now_s: float, *, at_node: bool
    ) -> None:
        """Note that a process was not started; *at_node* if its NodeManager refused."""
        slot = self._starting(container_id)
        if slot is None:
            return
        self._outbox.release(container_id)
        if slot.stop_asked:
            self._end(slot, cancelled(), now_s)
        elif not at_node and passing(error):
            # The instance is not at fault that this container cannot be used: request another.
            self._jobs.append(Forget(slot.let_go()))
            del self._places[container_id]
            slot.ask_again(now_s, unprepared(error))
        else:
            self._end(slot, not_started(error, at_node=at_node), now_s)

    def stop_failed(self, container_id: str) -> None:
        """Note that a node did not accept a stop, and release the container instead."""
        slot = self._places.get(container_id)
        if slot is not None and slot.holds:
            self._release(slot)

    # -- what comes out ----------------------------------------------------------------------

    def say(self, now_s: float) -> Exchange:
        """Return the content of the next heartbeat, whose answer goes to `heard`."""
        exchange = self._difference(now_s)
        self._outbox.trying(exchange)
        for slot in self._slots.values():
            slot.stop_said = slot.stop_asked
        return exchange

    def urgent(self, now_s: float) -> bool:
        """Return whether there is something that YARN does not know yet."""
        stops = any(s.stop_asked and not s.stop_said and s.holds for s in self._slots.values())
        return stops or self._difference(now_s) != Exchange()

    def outstanding(self, now_s: float, within_s: float = STARVED_S) -> bool:
        """Return whether YARN may soon say something new of an instance.

        It starts or stops; or within the last *within_s* it was requested, or seen gone.
        """
        since_s = math.inf if self.closing.why(now_s) else now_s - within_s
        if any(slot.moves(since_s) for slot in self._slots.values()):
            return True
        gone = (
            self._slots.get(id_) for id_, gone_s in self._gone.items() if gone_s > now_s - within_s
        )
        return any(slot is not None and slot.holds for slot in gone)

    def jobs(self) -> tuple[Job, ...]:
        """Return the new jobs for nodes and files, each once."""
        jobs, self._jobs = tuple(self._jobs), []
        return jobs

    def grant(self, instance_id: str) -> AllocatedContainer | None:
        """Return the container of an instance, also after its end; None if unknown."""
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
            # It belonged to another spec, and is gone; only instances of the present one can start.
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
            return  # YARN reported it twice
        # A request that was cancelled may still be granted, since the two cross on their way.
        slot = self._asked(grant.number)
        if slot is None:
            self._outbox.release(grant.container_id)
            return
        self._outbox.dropped(slot.number)
        endpoint = None if over or self.closing.why(now_s) else self._endpoint(slot, grant)
        if endpoint is None:
            self._outbox.release(grant.container_id)
            slot.ask_again(now_s)
            return
        assert slot.launch is not None
        record = slot.hold(grant, endpoint, now_s, at)
        self._places[grant.container_id] = slot
        self._jobs.append(Start(grant, record, slot.launch))

    def _endpoint(self, slot: InstanceSlot, grant: AllocatedContainer) -> Endpoint | None:
        """Return where *slot* would listen; None if it cannot run on the node."""
        assert slot.launch is not None
        held = [s.record.endpoint for s in self._slots.on(grant.node) if s.record is not None]
        if self._spread:
            # With plain requests, YARN may grant a container on a node before it hears that the
            # node is avoided.
            if held:
                return None
        else:  # containers that a late NodeManager may report still listen there
            held += [r.endpoint for r in self._stale.values() if r.node == grant.node]
        return self._ports.choose(grant.node, slot.number, slot.launch.triton, held)

    def _waits_for(self, slot: InstanceSlot, outlook: Outlook, now_s: float) -> str:
        if slot.phase is not Phase.ASKED or slot.shape is None:
            return ""
        why = self.closing.why(now_s)
        return why or waits_for(slot.shape, outlook, now_s - slot.asked_s, slot.again)

    def _rejected(self, rejected: Rejected, now_s: float) -> None:
        self._outbox.dropped(rejected.number)
        slot = self._asked(rejected.number)
        if slot is not None:
            slot.ask_again(now_s, rejection(rejected.reason))

    # -- ending ------------------------------------------------------------------------------

    def _stop(self, instance_id: str, now_s: float) -> None:
        slot = self._slots.get(instance_id)
        if slot is None:
            # An unknown instance gets a slot, too: its fact tells the caller that it has ended.
            slot = InstanceSlot(instance_id, number_of(instance_id), "", now_s)
            self._slots[instance_id] = slot
        if slot.phase is Phase.ASKED:
            self._end(slot, cancelled(), now_s)
        slot.stop_asked = True

    def _post_stops(self, now_s: float) -> None:
        for slot in self._slots.values():
            # A node obeys a superseded master, too. So a stop is posted only after the RM answered
            # a heartbeat that began later, which shows that this master is not superseded.
            if slot.holds and slot.stop_said and slot.stop_posted_s is None:
                assert slot.grant is not None
                slot.stop_posted_s = now_s
                self._jobs.append(Stop(slot.grant))

    def _release(self, slot: InstanceSlot) -> None:
        assert slot.grant is not None
        if not slot.releasing:
            slot.releasing = True
            self._outbox.release(slot.grant.container_id)

    def _releases_arrived(self, said: Exchange, now_s: float) -> None:
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
        if status.node_fault or (ran and now_s - slot.running_s < QUICK_S):
            self._bad.failed(slot.grant.node, now_s)

    # -- time --------------------------------------------------------------------------------

    def _look(self, now_s: float) -> None:
        # Only after an answer: without one, a missing report is not late.
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
        elif slot.released_s is not None and now_s - slot.released_s > END_HEARD_S:
            self._end(
                slot, ExitStatus("stopped; YARN never reported its end", expected=True), now_s
            )
        elif slot.stop_posted_s is not None and now_s - slot.stop_posted_s > END_HEARD_S:
            self._release(slot)
        elif slot.phase is Phase.RUNNING and not slot.proven:
            slot.proven = now_s - slot.running_s >= QUICK_S
            if slot.proven:
                self._bad.succeeded(slot.grant.node)

    def _starving(self, now_s: float) -> bool:
        """Return whether perhaps only an avoided node can meet a request."""
        asked_s = [s.asked_s for s in self._slots.asked()]
        avoided = self._bad.avoided(self._outlook.nodes)
        if not asked_s or not avoided:
            return False
        # All other nodes have an instance already, so waiting longer cannot help.
        if self._spread and len(self._slots.hosts() | avoided) >= self._outlook.nodes:
            return True
        return now_s - max(min(asked_s), self._forgave_s) >= STARVED_S

    # -- recovery ----------------------------------------------------------------------------

    def _recovered(self, grant: AllocatedContainer, now_s: float) -> None:
        """Adopt or release a container of an earlier master that YARN reports late."""
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

    def _asked(self, number: int) -> InstanceSlot | None:
        return next((slot for slot in self._slots.asked() if slot.number == number), None)

    def _starting(self, container_id: str) -> InstanceSlot | None:
        slot = self._places.get(container_id)
        return slot if slot is not None and slot.phase is Phase.STARTING else None

    @property
    def _spread(self) -> bool:
        return self.placement.spread == "node"
