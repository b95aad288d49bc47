"""The control thread: fold facts, decide, post wishes, publish a snapshot. No I/O of its own."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping

import attrs

from tarn.control.announcer import Announcer
from tarn.control.build_snapshot import SnapshotInputs, build_snapshot
from tarn.control.inbox import Inbox, Request
from tarn.control.issues import (
    Issue,
    of_calls,
    of_fleet,
    of_journal,
    of_policy,
    of_readings,
    of_saver,
    of_worker,
)
from tarn.control.journal import Journal
from tarn.control.mailbox import Worker
from tarn.control.measures import Measures
from tarn.control.policy import PolicyRunner
from tarn.control.probe import ProbeTarget
from tarn.control.publishers import Publishers
from tarn.control.pulse import Pulse, WallClock
from tarn.control.result import ControlResult
from tarn.control.scrape import Scraper
from tarn.control.scrape_targets import SentRequests, scrape_targets, tests_now
from tarn.control.signal_status import signal_status
from tarn.control.snapshot import Board
from tarn.control.state import Saver
from tarn.control.warmup import WarmupRequest
from tarn.domain import (
    Acknowledge,
    Demand,
    DiscoveryView,
    Done,
    InstanceState,
    Launch,
    Reading,
    Resume,
    RuntimeWish,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import saved
from tarn.domain.signals import Signals, SignalSelection, fleet_view
from tarn.domain.tick import Observation, tick
from tarn.domain.wishes import runtime_wish
from tarn.errors import PluginError, RefusedError, Superseded, TarnError
from tarn.interfaces import Clock, Discovery, Runtime
from tarn.log import RepeatCounter, place_of

__all__ = ["LATE_S", "STALE_LOOKS", "Control", "ControlDependencies", "ControlResult"]

log = logging.getLogger(__name__)

LATE_S = 5.0
"""A tick this much after it was due means that this process was stopped or starved."""
STALE_LOOKS = 2
"""A signal is unknown when an instance missed so many looks, and `LATE_S` more."""
LEAST_REST_S = 0.005
"""Between two ticks, when nobody wakes the thread."""
RAISED_REST_S = 0.25
"""After a tick that raised, whoever wakes the thread: the next one will mostly raise, too."""
REPEAT_S = 10.0
"""An unchanged wish is posted again after this: what was asked may have been lost."""


@attrs.frozen
class ControlDependencies:
    """The objects that the control thread posts to and reads from."""

    clock: Clock
    runtime: Runtime
    discoveries: Mapping[str, Discovery]
    scraper: Scraper
    policy: PolicyRunner
    saver: Saver
    announcer: Announcer
    inbox: Inbox
    board: Board
    wake: threading.Event
    over: Callable[[], None]
    """Told, on the control thread, that its work has ended."""
    kept: SignalSelection = attrs.field(factory=SignalSelection)
    """What the policy reads besides the signals that are always there."""
    journal: Journal | None = None
    """Writes down what happens; None: nobody does."""
    pulse: Pulse = attrs.field(factory=Pulse)
    """Beats with each tick that went through."""
    lasting: tuple[Issue, ...] = ()
    """What was wrong from the beginning, and stays so."""


class Control:
    """Owns the control thread, the runtime's worker and the discoveries' workers."""

    def __init__(
        self,
        fleet: Fleet,
        rules: Rules,
        launch: Launch,
        warmup: tuple[WarmupRequest, ...],
        dependencies: ControlDependencies,
    ) -> None:
        self._fleet = fleet
        former = tuple(e for e in fleet.events if e.epoch != str(fleet.epoch))
        self._told = attrs.evolve(fleet, events=former, instances=())
        """As plugins know it: they are told of what was recovered, too."""
        self._rules = rules
        self._launch = launch
        self._warmup = warmup
        self._targets: dict[str, ProbeTarget] = {}
        self._dependencies = dependencies
        wake = dependencies.wake.set
        clock = dependencies.clock
        self._past_s = clock.at() - clock.now_s()
        self._wall = WallClock(clock.now_s(), clock.at())
        self._runtime: Worker[RuntimeWish] = Worker(
            "runtime", dependencies.runtime.apply, clock, wake
        )
        self._publishers = Publishers(dependencies.discoveries, clock, wake)
        self._wish: RuntimeWish | None = None
        self._wished_s = float("-inf")
        self._view: DiscoveryView | None = None
        self._due_s = float("-inf")
        self._acted_s = clock.now_s()
        self._signals = Signals(kept=dependencies.kept)
        self._measures = Measures(fleet, dependencies.scraper, clock)
        self._errors = 0
        self._repeats = RepeatCounter()
        self._troubles: frozenset[tuple[str, str]] = frozenset()
        self._leaving = threading.Event()
        self.outcome = ControlResult.LEFT
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def leave(self) -> None:
        """Ask the thread to leave the fleet as it is; any thread, returns at once."""
        self._leaving.set()
        self._dependencies.wake.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the work; True when it ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        interval_s = self._rules.spec.scaling.interval_s
        self._dependencies.pulse.beat()
        try:
            while not self._leaving.is_set():
                self._dependencies.wake.clear()
                errors = self._errors
                outcome = self._guarded_step()
                if outcome is not None:
                    self.outcome = outcome
                    break
                if self._errors > errors:
                    self._leaving.wait(RAISED_REST_S)
                else:
                    self._dependencies.pulse.beat()
                rest_s = self._due_s - self._dependencies.clock.now_s()
                self._dependencies.wake.wait(min(interval_s, max(LEAST_REST_S, rest_s)))
            self._close()
        finally:
            self._dependencies.over()

    def _guarded_step(self) -> ControlResult | None:
        """One step; whatever it raises is counted, and survived."""
        try:
            return self._step()
        except Superseded:
            return ControlResult.SUPERSEDED
        except Exception as error:  # noqa: BLE001 (the thread must go on)
            self._survive(error)
            return None

    def _survive(self, error: Exception) -> None:
        """Count *error*; an event tells of it once a minute, and so does the log by itself."""
        self._errors += 1
        log.error("a tick raised", exc_info=error)
        now_s, at = self._dependencies.clock.now_s(), self._dependencies.clock.at()
        if self._repeats.again(place_of(error), now_s) is not None:
            found = f"{type(error).__name__}: {error}"
            self._fleet = self._fleet.note(at, "TARN-1013", self._fleet.name, found)

    def _step(self) -> ControlResult | None:
        near = self._dependencies
        if any(worker.superseded for worker in (*self._workers(), near.saver.worker)):
            return ControlResult.SUPERSEDED
        try:
            heard_s = near.runtime.heard_s()
        except PluginError as error:
            self._survive(error)
            return ControlResult.FAILED
        now_s, at = near.clock.now_s(), near.clock.at()
        if jumped := self._wall.jumped(now_s, at):
            self._fleet = self._fleet.note(at, "TARN-1051", self._fleet.name, jumped)
        asking = now_s >= self._due_s
        if asking:
            self._due_s = now_s + self._rules.spec.scaling.interval_s
        fenced = now_s - heard_s > self._rules.spec.master.fence_after_s
        readings = near.scraper.readings()
        answers = self._obey(near.inbox.drain(), now_s, at, fenced=fenced)
        try:
            if not fenced:
                self._act(readings, now_s, at, asking=asking)
            self._publish(readings, now_s, at, fenced=fenced)
            self._announce()
        finally:
            for request, answer in answers:
                request.reply(answer)
            self._measures.ticked(now_s)
        return ControlResult.ENDED if self._fleet.ending and not self._fleet.instances else None

    def _obey(
        self, requests: tuple[Request, ...], now_s: float, at: float, *, fenced: bool
    ) -> list[tuple[Request, Done | Exception]]:
        answers: list[tuple[Request, Done | Exception]] = []
        for request in requests:
            answer: Done | Exception
            try:
                answer = self._obey_one(request, now_s, at, fenced=fenced)
            except TarnError as error:
                answer = error
            except Exception as error:  # noqa: BLE001 (its asker is told, the others go on)
                self._survive(error)
                answer = error
            answers.append((request, answer))
        return answers

    def _obey_one(self, request: Request, now_s: float, at: float, *, fenced: bool) -> Done:
        if fenced and not isinstance(request.command, Acknowledge | Demand):
            raise RefusedError(
                "the master has lost contact with its runtime, so it does not act",
                code="TARN-1008",
                next_step="Try again when the runtime answers",
            )
        self._fleet, done = apply_command(
            self._fleet,
            request.command,
            self._rules,
            now_s=now_s,
            at=at,
            if_match=request.if_match,
            asker=request.asker,
        )
        if isinstance(request.command, Resume):
            self._dependencies.policy.revive()
        return done

    def _act(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, asking: bool
    ) -> None:
        """Decide and post. After a fence the silences are our own, as after a late tick."""
        late = now_s - self._acted_s > LATE_S + self._rules.spec.scaling.interval_s
        self._acted_s = now_s
        try:
            seen = self._look(readings, now_s, at, late=late)
            self._fleet = tick(self._fleet, seen, self._rules)
            self._measures.count(self._fleet, seen.facts, now_s, late=late)
            if asking:
                self._ask(readings, now_s, at)
            self._post(readings, now_s)
        except Superseded:
            raise
        except Exception as error:  # noqa: BLE001 (shown in the very next snapshot)
            self._survive(error)

    def _ask(self, readings: Mapping[str, Reading], now_s: float, at: float) -> None:
        interval_s = self._rules.spec.scaling.interval_s
        oldest_s = LATE_S + STALE_LOOKS * interval_s
        self._signals = self._signals.looked(self._fleet.instances, readings, now_s, oldest_s)
        view = fleet_view(self._fleet, self._rules, self._signals, now_s, at)
        self._dependencies.policy.ask(view, self._signals.samples)

    def _look(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, late: bool
    ) -> Observation:
        return Observation(
            now_s,
            at,
            self._dependencies.runtime.facts(),
            readings,
            self._publishers.words(),
            self._dependencies.policy.answer(),
            late,
        )

    def _post(self, readings: Mapping[str, Reading], now_s: float) -> None:
        near = self._dependencies
        near.saver.save(saved(self._fleet, self._past_s))
        self._post_wish(now_s)
        view = self._fleet.view
        if view is not self._view:
            self._view = view
            self._publishers.post(view)
        fleet, each_s = self._fleet, self._rules.spec.scaling.interval_s
        tests = tests_now(fleet, readings, near.scraper.tests, now_s, each_s)
        sent = SentRequests(self._warmup, fleet.control, tests)
        targets = scrape_targets(fleet.instances, self._targets, self._launch, sent)
        if targets != self._targets:
            self._targets = targets
            near.scraper.watch(targets)

    def _post_wish(self, now_s: float) -> None:
        """Post what should run when it changed, and again after a while: an ask may be lost."""
        fleet, old = self._fleet, self._wish
        wish = runtime_wish(fleet, (self._launch,), self._dependencies.saver.below)
        if old is not None and (wish.want, wish.stop) == (old.want, old.stop):
            if now_s - self._wished_s < REPEAT_S:
                return
            wish = old
        else:
            self._fleet = attrs.evolve(fleet, wish_revision=fleet.wish_revision + 1)
            wish = attrs.evolve(wish, revision=self._fleet.wish_revision)
        self._wish, self._wished_s = wish, now_s
        self._runtime.post(wish)

    def _publish(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, fenced: bool
    ) -> None:
        self._measures.look(now_s)
        troubles = tuple(self._find_troubles(readings, now_s, at, fenced=fenced))
        self._note(troubles, at)
        around = SnapshotInputs(
            now_s=now_s,
            at=at,
            stale=fenced,
            readings=readings,
            faults=tuple(t.fault for t in troubles if t.fault),
            warnings=(
                *self._dependencies.runtime.warnings(),
                *(t.warning for t in troubles if t.warning),
            ),
            troubles=tuple((t.code, t.subject, t.said) for t in troubles),
            tally=self._measures.tally,
            models=self._measures.models,
            failing=self._publishers.failing(),
            wish=self._dependencies.policy.answer(),
            signals=signal_status(
                self._signals.history,
                self._dependencies.policy.signals(),
                self._dependencies.kept,
                len(self._fleet.of(InstanceState.READY)),
            ),
        )
        old = self._dependencies.board.current
        self._dependencies.board.publish(build_snapshot(self._fleet, self._rules, around, old))

    def _workers(self) -> "tuple[Worker[RuntimeWish] | Worker[DiscoveryView], ...]":
        return (self._runtime, *self._publishers.workers)

    def _find_troubles(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, fenced: bool
    ) -> Iterator[Issue]:
        near, name = self._dependencies, self._fleet.name
        if fenced:
            fault = "the master has lost contact with its runtime and does not act"
            yield Issue(fault, "", "TARN-1008", name)
        yield from near.lasting
        yield from of_policy(near.policy.failure(), name)
        yield from of_saver(near.saver, name)
        if self._errors:
            fault = f"{self._errors} ticks raised; see the master's log"
            yield Issue(fault, "", "TARN-1013", name, noted=True)
        if near.announcer.lost:
            yield Issue(f"{near.announcer.lost} announcements to plugins were lost")
        if near.journal is not None:
            yield from of_journal(near.journal, name)
        yield from of_worker(self._runtime, "TARN-3000")
        yield from self._publishers.troubles()
        yield from of_fleet(self._fleet, self._rules, now_s)
        yield from of_readings(self._fleet, readings)
        yield from of_calls(self._fleet, at)

    def _note(self, troubles: tuple[Issue, ...], at: float) -> None:
        """Note each trouble when it begins, and not while it lasts."""
        ours = [t for t in troubles if t.code and not t.noted]
        fresh = [t for t in ours if (t.code, t.subject) not in self._troubles]
        self._troubles = frozenset((t.code, t.subject) for t in ours)
        entries = [(t.code, t.subject, t.said) for t in fresh]
        self._fleet = self._fleet.notes(at, entries)

    def _announce(self) -> None:
        """Tell plugins and the journal what is new since they were told last."""
        before, self._told = self._told, self._fleet
        self._dependencies.announcer.tell(before, self._fleet)
        if self._dependencies.journal is not None:
            self._dependencies.journal.tell(before.events, self._fleet.events)

    def _close(self) -> None:
        """Leave: the last state is saved, nothing is stopped; ended: nothing stays."""
        near = self._dependencies
        left = self.outcome in {ControlResult.LEFT, ControlResult.FAILED}
        ended = self.outcome is ControlResult.ENDED
        if left:
            entry = ("TARN-1003", self._fleet.name, "the fleet stays")
            self._fleet = self._fleet.notes(near.clock.at(), [entry])
            self._announce()
            near.saver.save(saved(self._fleet, self._past_s), at_once=True)
        for request in near.inbox.drain():
            request.reply(RefusedError("the master is leaving", next_step="Try again"))
        near.saver.close(0.15, finish=left)
        self._runtime.close(5.0 if ended else 0.05)
        self._publishers.close(ended=ended, superseded=self.outcome is ControlResult.SUPERSEDED)
