"""The control thread: fold facts, decide, post wishes, publish a snapshot. It does no I/O."""

import enum
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from tarn.control.affinity import AffinityRunner
from tarn.control.discoveries import Publishers
from tarn.control.editions import Editions
from tarn.control.issues import (
    of_calls,
    of_fleet,
    of_journal,
    of_looks,
    of_policy,
    of_readings,
    of_saver,
    of_worker,
)
from tarn.control.journal import Announcer, Journal
from tarn.control.mailbox import Inbox, Request, Worker
from tarn.control.policy import PolicyRunner
from tarn.control.probe import ProbeTarget
from tarn.control.pulse import Pulse, WallClock
from tarn.control.scrape import Scraper, SentRequests, Started, scrape_targets, tests_now
from tarn.control.state import Saver
from tarn.domain import (
    Acknowledge,
    Demand,
    DiscoveryView,
    Done,
    Fact,
    InstanceState,
    Issue,
    Reading,
    Resume,
    RuntimeWish,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.events import EventNote
from tarn.domain.fleet import Fleet
from tarn.domain.memory import saved
from tarn.domain.model_totals import ModelTotalsHistory
from tarn.domain.signals import Signals, fleet_view
from tarn.domain.tally import Tally
from tarn.domain.tick import Observation, runtime_wish, tick
from tarn.errors import PluginError, RefusedError, Superseded, TarnError
from tarn.interfaces import Clock, Discovery, Runtime
from tarn.log import RepeatCounter, place_of
from tarn.read.snapshot import Board, SnapshotInputs, build_snapshot, signal_status

__all__ = ["LATE_S", "STALE_LOOKS", "Control", "ControlDependencies", "ControlResult"]


log = logging.getLogger(__name__)

LATE_S = 5.0
"""A tick that is this late means that the process was stopped or starved."""
STALE_LOOKS = 2
"""A signal is unknown when an instance missed this many looks, and `LATE_S` more."""
# The least time between two ticks, unless the thread is woken.
LEAST_REST_S = 0.005
# The pause after a tick is as long as the tick took, but not longer than this, even if the thread
# is woken: each start in a large fleet wakes it, and the other threads need the CPU, too.
MOST_REST_S = 0.1
# The pause after a tick that raised, even if the thread is woken: the next one may raise, too.
RAISED_REST_S = 0.25
# An unchanged wish is posted again after this time: the runtime may have lost a request.
REPEAT_S = 10.0
# An answer waits so long for the state that it promises to be saved: less than the API waits for
# the answer.
CONFIRM_WITHIN_S = 2.0


class ControlResult(enum.StrEnum):
    """How the work of a control thread ended."""

    LEFT = "left"
    """Asked to leave: the fleet stays."""
    ENDED = "ended"
    """The cluster was ended, and none of its instances run."""
    SUPERSEDED = "superseded"
    """A newer master runs: this one changed nothing."""
    FAILED = "failed"
    """The runtime ended with an error: the fleet stays for the next master."""


@attrs.frozen
class ControlDependencies:
    """The objects that the control thread posts to and reads from."""

    clock: Clock
    runtime: Runtime
    discoveries: Mapping[str, Discovery]
    scraper: Scraper
    policy: PolicyRunner
    affinity: AffinityRunner
    saver: Saver
    announcer: Announcer
    inbox: Inbox
    board: Board
    wake: threading.Event
    over: Callable[[], None]
    """Called on the control thread when its work has ended."""
    journal: Journal | None = None
    """Writes events down; None: they are not written."""
    pulse: Pulse = attrs.field(factory=Pulse)
    """Beats with each tick that succeeded."""
    lasting: tuple[Issue, ...] = ()
    """Issues that existed when the master started, and stay."""


class Measures:
    """Keeps the tally and the totals of models between steps. Control thread only."""

    def __init__(self, fleet: Fleet, scraper: Scraper, clock: Clock) -> None:
        self._counted = fleet
        self._scraper, self._clock = scraper, clock
        self.tally = Tally(clock.at())
        self.models = ModelTotalsHistory()

    def count(self, fleet: Fleet, facts: tuple[Fact, ...], now_s: float, *, late: bool) -> None:
        """Count what changed since the last fleet; *facts* say how instances ended."""
        before, self._counted = self._counted, fleet
        self.tally = self.tally.counted(before, fleet, facts, now_s)
        if late:
            self.tally = self.tally.was_late()

    def look(self, now_s: float) -> None:
        """Take the totals of models, once a second."""
        if self.models.due(now_s):
            self.models = self.models.looked(now_s, *self._scraper.model_totals())

    def ticked(self, began_s: float) -> None:
        """Count the duration of the step that began at *began_s*."""
        self.tally = self.tally.ticked(self._clock.now_s() - began_s)


@attrs.frozen
class _Unconfirmed:
    """A command that was carried out, and whose state is not saved yet."""

    request: Request
    done: Done
    until_s: float

    def reply(self, *, saved: bool) -> None:
        """Answer; *saved* says whether a new master would know the command."""
        done = self.done
        if not saved:
            lost = "not saved yet: a master that starts now does not know it"
            done = attrs.evolve(done, message=f"{done.message} ({lost})")
        self.request.reply(done)


class Control:
    """Owns the control thread, the runtime's worker and the discoveries' workers."""

    def __init__(
        self,
        fleet: Fleet,
        editions: Editions,
        dependencies: ControlDependencies,
    ) -> None:
        self._fleet = fleet
        self._editions = editions
        self._edition = editions.keep_to(fleet.edition)
        self._rules = self._edition.rules
        former = tuple(e for e in fleet.events if e.epoch != str(fleet.epoch))
        # The fleet as plugins know it; recovered instances are announced to them, too.
        self._told = attrs.evolve(fleet, events=former, instances=())
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
        self._signals = Signals(kept=self._edition.scaling.kept)
        self._measures = Measures(fleet, dependencies.scraper, clock)
        self._errors = 0
        self._repeats = RepeatCounter()
        # Code and subject of each issue to the wall second at which it began.
        self._since: Mapping[tuple[str, str], float] = {}
        self._unconfirmed: list[_Unconfirmed] = []
        self._leaving = threading.Event()
        self.outcome = ControlResult.LEFT
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def leave(self) -> None:
        """Ask the thread to end and leave the fleet as it is; any thread, returns at once."""
        self._leaving.set()
        self._dependencies.wake.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread to end; return whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        interval_s = self._rules.spec.scaling.interval_s
        self._dependencies.pulse.beat()
        try:
            while not self._leaving.is_set():
                self._dependencies.wake.clear()
                errors, began_s = self._errors, self._dependencies.clock.now_s()
                outcome = self._guarded_step()
                if outcome is not None:
                    self.outcome = outcome
                    break
                if self._errors > errors:
                    self._leaving.wait(RAISED_REST_S)
                else:
                    self._dependencies.pulse.beat()
                    took_s = self._dependencies.clock.now_s() - began_s
                    self._leaving.wait(min(took_s, MOST_REST_S))
                due_s = min([self._due_s, *(one.until_s for one in self._unconfirmed)])
                rest_s = due_s - self._dependencies.clock.now_s()
                self._dependencies.wake.wait(min(interval_s, max(LEAST_REST_S, rest_s)))
            self._close()
        finally:
            self._dependencies.over()

    def _guarded_step(self) -> ControlResult | None:
        """Do one step; an exception is counted, and the thread goes on."""
        try:
            return self._step()
        except Superseded:
            return ControlResult.SUPERSEDED
        except Exception as error:  # noqa: BLE001 (the thread must go on)
            self._survive(error)
            return None

    def _survive(self, error: Exception) -> None:
        """Count *error*, log it, and make an event of it at most once a minute."""
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
        self._keep_to_edition()
        try:
            if not fenced:
                self._act(readings, now_s, at, asking=asking)
                # also when deciding raised: commands are kept whatever becomes of this tick
                near.saver.save(saved(self._fleet, self._past_s))
            self._publish(readings, now_s, at, fenced=fenced)
            self._announce()
        finally:
            self._reply(answers, now_s)
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

    def _reply(self, answers: list[tuple[Request, Done | Exception]], now_s: float) -> None:
        """Answer, but keep what is confirmed until it is saved."""
        # A master can be killed right after its answer: its successor must know the command.
        for request, answer in answers:
            lasts = not isinstance(request.command, Acknowledge | Demand)
            if isinstance(answer, Done) and lasts:
                until_s = now_s + CONFIRM_WITHIN_S
                self._unconfirmed.append(_Unconfirmed(request, answer, until_s))
            else:
                request.reply(answer)
        waiting, self._unconfirmed = self._unconfirmed, []
        for one in waiting:
            saved = self._dependencies.saver.has(one.done.spec_revision)
            if saved or now_s >= one.until_s:
                one.reply(saved=saved)
            else:
                self._unconfirmed.append(one)

    def _act(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, asking: bool
    ) -> None:
        """Decide, and post what follows."""
        # After a fence the silences are the master's own, as after a late tick.
        late = now_s - self._acted_s > LATE_S + self._rules.spec.scaling.interval_s
        self._acted_s = now_s
        try:
            seen = Observation(
                now_s,
                at,
                self._dependencies.runtime.facts(),
                readings,
                self._publishers.words(),
                self._dependencies.policy.answer(),
                late,
                self._dependencies.scraper.looks().interval_s,
            )
            self._fleet = tick(self._fleet, seen, self._rules)
            self._keep_to_edition()
            self._measures.count(self._fleet, seen.facts, now_s, late=late)
            if asking:
                self._ask(readings, now_s, at)
            self._post(readings, now_s)
        except Superseded:
            raise
        except Exception as error:  # noqa: BLE001 (shown in the very next snapshot)
            self._survive(error)

    def _keep_to_edition(self) -> None:
        """Take the rules, the policy and the tests of the edition that the fleet goes to now."""
        files = self._fleet.edition
        if files.digest == self._edition.files.digest:
            return
        near, edition = self._dependencies, self._editions.keep_to(files)
        self._editions.forget_others(self._fleet.editions)
        self._edition, self._rules = edition, edition.rules
        near.scraper.tests.take(edition.tests)
        near.scraper.measure(edition.scaling.families)
        near.policy.replace(edition.scaling.policy, edition.scaling.signals)
        self._signals = Signals(kept=edition.scaling.kept)

    def _started(self) -> dict[str, Started]:
        """Return how instances were started, by their spec hash; '' stands for all others."""
        editions = [self._editions.of(one) for one in self._fleet.editions]
        each = {one.files.spec_hash: Started(one.launch, one.warmup) for one in editions}
        return {**each, "": Started(self._edition.launch, self._edition.warmup)}

    def _ask(self, readings: Mapping[str, Reading], now_s: float, at: float) -> None:
        interval_s = self._dependencies.scraper.looks().interval_s
        oldest_s = LATE_S + STALE_LOOKS * interval_s
        self._signals = self._signals.looked(self._fleet.instances, readings, now_s, oldest_s)
        view = fleet_view(self._fleet, self._rules, self._signals, now_s, at)
        self._dependencies.policy.ask(view, self._signals.samples)

    def _post(self, readings: Mapping[str, Reading], now_s: float) -> None:
        near = self._dependencies
        self._post_wish(now_s)
        view = self._fleet.view
        if view is not self._view:
            self._view = view
            self._publishers.post(view)
        fleet, each_s = self._fleet, self._rules.spec.scaling.interval_s
        tests = tests_now(fleet, readings, near.scraper.tests, now_s, each_s)
        sent = SentRequests(fleet.control, tests)
        targets = scrape_targets(fleet.instances, self._targets, self._started(), sent)
        if targets != self._targets:
            self._targets = targets
            near.scraper.watch(targets)

    def _post_wish(self, now_s: float) -> None:
        """Post which instances should run: when that changed, and every `REPEAT_S`."""
        fleet, old = self._fleet, self._wish
        launches = tuple(self._editions.of(one).launch for one in fleet.editions)
        wish = runtime_wish(fleet, launches, self._dependencies.saver.below)
        if old is not None and wish == attrs.evolve(old, revision=wish.revision):
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
        near = self._dependencies
        told = map(self._of_runtime, near.runtime.warnings())
        issues = (*self._begun(self._find_issues(readings, now_s, at, fenced=fenced), at), *told)
        around = SnapshotInputs(
            now_s=now_s,
            at=at,
            stale=fenced,
            readings=readings,
            issues=issues,
            tally=self._measures.tally,
            models=self._measures.models,
            failing=self._publishers.failing(),
            wish=near.policy.answer(),
            look_interval_s=near.scraper.looks().interval_s,
            affinity=near.affinity.status(near.scraper.traits(), readings),
            signals=signal_status(
                self._signals.history,
                near.policy.signals(),
                self._edition.scaling.kept,
                len(self._fleet.of(InstanceState.READY)),
            ),
        )
        old = near.board.current
        near.board.publish(build_snapshot(self._fleet, self._rules, around, old))

    def _workers(self) -> "tuple[Worker[RuntimeWish] | Worker[DiscoveryView], ...]":
        return (self._runtime, *self._publishers.workers)

    def _find_issues(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, fenced: bool
    ) -> Iterator[Issue]:
        near, name = self._dependencies, self._fleet.name
        if fenced:
            found = "the master has lost contact with its runtime and does not act"
            yield Issue(name, found, code="TARN-1008", public=found)
        yield from near.lasting
        yield from of_policy(near.policy.failure(), name)
        yield from of_saver(near.saver, name)
        if self._errors:
            found = f"{self._errors} ticks raised; see the master's log"
            yield Issue(name, found, code="TARN-1013", public=found, noted=True)
        if near.announcer.lost:
            found = f"{near.announcer.lost} announcements to plugins were lost"
            yield Issue(name, found, public=found)
        if near.journal is not None:
            yield from of_journal(near.journal, name)
        yield from of_worker(self._runtime, "TARN-3000")
        yield from of_worker(near.affinity.worker, "TARN-1304")
        yield from self._publishers.issues()
        yield from of_fleet(self._fleet, self._rules, now_s)
        yield from of_readings(self._fleet, readings)
        yield from of_looks(near.scraper.looks(), name)
        yield from of_calls(self._fleet, at)

    def _begun(self, found: Iterable[Issue], at: float) -> tuple[Issue, ...]:
        """Return the issues with their beginning, and make an event of each new one."""
        before, issues = self._since, tuple(found)
        self._since = {(i.code, i.subject): before.get((i.code, i.subject), at) for i in issues}
        fresh = [
            EventNote(i.code, i.subject, i.found, i.models)
            for i in issues
            if i.code and not i.noted and (i.code, i.subject) not in before
        ]
        self._fleet = self._fleet.notes(at, fresh)
        return tuple(attrs.evolve(i, since=self._since[i.code, i.subject]) for i in issues)

    def _of_runtime(self, told: Issue | str) -> Issue:
        use = self._rules.spec.runtime.use
        if isinstance(told, str):
            return Issue(use, told, source=use)
        return attrs.evolve(told, subject=told.subject or use, source=use)

    def _announce(self) -> None:
        """Pass what is new to plugins and the journal."""
        before, self._told = self._told, self._fleet
        self._dependencies.announcer.tell(before, self._fleet)
        if self._dependencies.journal is not None:
            self._dependencies.journal.tell(before.events, self._fleet.events)

    def _close(self) -> None:
        """End the workers; if the fleet stays, save the last state first."""
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
        for one in self._unconfirmed:
            # the end of a cluster is not saved, and needs no successor
            one.reply(saved=ended or near.saver.has(one.done.spec_revision))
        self._runtime.close(5.0 if ended else 0.05)
        self._publishers.close(ended=ended, superseded=self.outcome is ControlResult.SUPERSEDED)
