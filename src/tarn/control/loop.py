"""The control thread: fold facts, decide, post wishes, publish a snapshot. No I/O of its own."""

import enum
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import InvalidStateError
from typing import TypeVar

import attrs

from tarn.control.announcer import Announcer
from tarn.control.inbox import Inbox, Request
from tarn.control.mailbox import Worker
from tarn.control.picture import Surroundings, picture
from tarn.control.policy import PolicyDesk
from tarn.control.probe import Target
from tarn.control.scrape import Scraper
from tarn.control.snapshot import Board
from tarn.control.state import Saver
from tarn.control.warmup import WarmupRequest
from tarn.domain import (
    DiscoveryView,
    Done,
    FleetView,
    Launch,
    Reading,
    Resume,
    RuntimeWish,
    Unknown,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import saved
from tarn.domain.obey import obey
from tarn.domain.tick import Seen, tick
from tarn.domain.wishes import runtime_wish
from tarn.errors import RefusedError, TarnError
from tarn.interfaces import Clock, Discovery, Runtime

__all__ = ["Control", "Neighbours", "Outcome"]

log = logging.getLogger(__name__)
T = TypeVar("T")

LATE_S = 5.0
"""A tick this much after it was due means that this process was stopped or starved."""
BLOCKED_S = 10.0
"""An item in work for longer is shown in ``/health``."""


class Outcome(enum.StrEnum):
    """How the work of a control thread ended."""

    LEFT = "left"
    """Asked to leave: the fleet stays."""
    ENDED = "ended"
    """The cluster was ended, and nothing of it runs."""
    SUPERSEDED = "superseded"
    """A newer master is at work: nothing was touched."""


@attrs.frozen
class Neighbours:
    """The objects that the control thread posts to and reads from."""

    clock: Clock
    runtime: Runtime
    discoveries: Mapping[str, Discovery]
    scraper: Scraper
    policy: PolicyDesk
    saver: Saver
    announcer: Announcer
    inbox: Inbox
    board: Board
    wake: threading.Event
    over: Callable[[], None]
    """Told, on the control thread, that its work has ended."""


class Control:
    """Owns the control thread, the runtime's worker and the discoveries' workers."""

    def __init__(
        self,
        fleet: Fleet,
        rules: Rules,
        launch: Launch,
        warmup: tuple[WarmupRequest, ...],
        neighbours: Neighbours,
    ) -> None:
        self._fleet = fleet
        self._rules = rules
        self._launch = launch
        self._warmup = warmup
        self._targets: dict[str, Target] = {}
        self._near = neighbours
        wake = neighbours.wake.set
        clock = neighbours.clock
        self._past_s = clock.at() - clock.now_s()
        self._runtime: Worker[RuntimeWish] = Worker(
            "runtime", neighbours.runtime.apply, clock, wake
        )
        self._discoveries: dict[str, Worker[DiscoveryView]] = {
            name: Worker(f"discovery {name}", discovery.sync, clock, wake)
            for name, discovery in neighbours.discoveries.items()
        }
        self._wish: RuntimeWish | None = None
        self._view: DiscoveryView | None = None
        self._asked_s = float("-inf")
        self._ticked_s = clock.now_s()
        self._errors = 0
        self._policy_failed = ""
        self._leaving = threading.Event()
        self.outcome = Outcome.LEFT
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def leave(self) -> None:
        """Ask the thread to leave the fleet as it is; any thread, returns at once."""
        self._leaving.set()
        self._near.wake.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the work; True when it ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        interval_s = self._rules.spec.scaling.interval_s
        while not self._leaving.is_set():
            self._near.wake.clear()
            outcome = self._guarded_step()
            if outcome is not None:
                self.outcome = outcome
                break
            due_s = self._asked_s + interval_s - self._near.clock.now_s()
            self._near.wake.wait(min(interval_s, max(0.005, due_s)))
        self._close()
        self._near.over()

    def _guarded_step(self) -> Outcome | None:
        """One step; the one place where an unforeseen error is counted and survived."""
        try:
            return self._step()
        except Exception as error:
            self._errors += 1
            log.exception("a tick raised")
            at = self._near.clock.at()
            found = f"{type(error).__name__}: {error}"
            self._fleet = self._fleet.note(at, "TARN-1013", self._fleet.name, found)
            return None

    def _step(self) -> Outcome | None:
        if any(w.superseded for w in (self._runtime, self._near.saver)):
            return Outcome.SUPERSEDED
        clock = self._near.clock
        now_s, at = clock.now_s(), clock.at()
        late = now_s - self._ticked_s > LATE_S + self._rules.spec.scaling.interval_s
        self._ticked_s = now_s
        heard_s = self._near.runtime.heard_s()
        fenced = now_s - heard_s > self._rules.spec.master.fence_after_s
        before = self._fleet
        readings = self._near.scraper.readings()
        answers = self._obey(self._near.inbox.drain(), now_s, at, fenced=fenced)
        if not fenced:
            self._fleet = tick(self._fleet, self._look(readings, now_s, at, late=late), self._rules)
            self._post(now_s)
        self._judge(at)
        self._publish(readings, now_s, at, fenced=fenced)
        self._announce(before, self._fleet)
        for request, answer in answers:
            _reply(request, answer)
        if self._fleet.ending and not self._fleet.instances:
            return Outcome.ENDED
        return None

    def _obey(
        self, requests: tuple[Request, ...], now_s: float, at: float, *, fenced: bool
    ) -> list[tuple[Request, Done | TarnError]]:
        answers: list[tuple[Request, Done | TarnError]] = []
        for request in requests:
            answer: Done | TarnError
            try:
                if fenced:
                    raise RefusedError(
                        "the master has lost its runtime, so it does not act",
                        code="TARN-1008",
                        next_step="Try again when the runtime answers",
                    )
                self._fleet, answer = obey(
                    self._fleet,
                    request.command,
                    self._rules,
                    now_s=now_s,
                    at=at,
                    if_match=request.if_match,
                )
                if isinstance(request.command, Resume):
                    self._near.policy.revive()
            except TarnError as error:
                answer = error
            answers.append((request, answer))
        return answers

    def _look(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, late: bool
    ) -> Seen:
        words = (d.applied() for d in self._near.discoveries.values())
        return Seen(
            now_s,
            at,
            self._near.runtime.facts(),
            readings,
            tuple(word for word in words if word is not None),
            self._near.policy.answer(),
            late,
        )

    def _post(self, now_s: float) -> None:
        fleet, near = self._fleet, self._near
        if now_s - self._asked_s >= self._rules.spec.scaling.interval_s:
            self._asked_s = now_s
            near.policy.ask(_fleet_view(fleet, self._rules, now_s))
        near.saver.save(saved(fleet, self._past_s))
        self._post_wish(fleet)
        if fleet.view is not self._view:
            self._view = fleet.view
            for worker in self._discoveries.values():
                worker.post(fleet.view)
        targets = {
            i.id: Target(i.endpoint, self._warmup, leaving=i.stop_posted)
            for i in fleet.instances
            if i.endpoint
        }
        if targets != self._targets:
            self._targets = targets
            near.scraper.watch(targets)

    def _post_wish(self, fleet: Fleet) -> None:
        wish = runtime_wish(fleet, (self._launch,), self._near.saver.below)
        old = self._wish
        if old is not None and (wish.want, wish.stop) == (old.want, old.stop):
            return
        self._fleet = attrs.evolve(fleet, wish_revision=fleet.wish_revision + 1)
        self._wish = attrs.evolve(wish, revision=self._fleet.wish_revision)
        self._runtime.post(self._wish)

    def _publish(
        self, readings: Mapping[str, Reading], now_s: float, at: float, *, fenced: bool
    ) -> None:
        around = Surroundings(
            now_s=now_s,
            at=at,
            stale=fenced,
            readings=readings,
            faults=tuple(self._faults(fenced=fenced)),
            warnings=tuple(self._warnings()),
        )
        old = self._near.board.current
        self._near.board.publish(picture(self._fleet, self._rules, around, old))

    def _workers(self) -> "tuple[Worker[RuntimeWish] | Worker[DiscoveryView], ...]":
        return (self._runtime, *self._discoveries.values())

    def _faults(self, *, fenced: bool) -> list[str]:
        """List what is wrong; open to all, so no name of a model, a user or a host stands here."""
        lost = self._near.announcer.lost
        found = (
            (fenced, "the master has lost its runtime and does not act"),
            (self._policy_failed, "the scaling policy has no answer; the size is kept"),
            (self._near.saver.trouble, "the state cannot be saved"),
            (self._fleet.frozen_s is not None, "replacements are frozen: most fell silent at once"),
            (self._errors, f"{self._errors} ticks raised; see the master's log"),
            (lost, f"{lost} announcements to plugins were lost"),
        )
        blocked = [line for worker in self._workers() if (line := _blocked(worker))]
        return [line for true, line in found if true] + blocked

    def _warnings(self) -> list[str]:
        warnings = list(self._near.runtime.warnings())
        if self._policy_failed:
            warnings.append(f"the scaling policy has no answer: {self._policy_failed}")
        if self._near.saver.trouble:
            warnings.append(f"the state is not saved: {self._near.saver.trouble}")
        warnings.extend(f"{w.name}: {w.error}" for w in self._workers() if w.error)
        return warnings

    def _judge(self, at: float) -> None:
        """Note when the policy begins to fail; until it was asked once there is nothing to say."""
        answer = self._near.policy.answer()
        failed = answer.reason if isinstance(answer, Unknown) and self._near.policy.judged else ""
        if failed and not self._policy_failed:
            self._fleet = self._fleet.note(at, "TARN-1012", self._fleet.name, failed)
        self._policy_failed = failed

    def _announce(self, before: Fleet, after: Fleet) -> None:
        announcer = self._near.announcer
        for event in _new(before.events, after.events):
            announcer.event(event)
        for decision in _new(before.decisions, after.decisions):
            announcer.decision(decision)
        old = {i.id: i for i in before.instances}
        gone = _new(before.ended, after.ended)
        for instance in (*after.instances, *gone):
            was = old.get(instance.id)
            if was is None or was.state is not instance.state:
                announcer.instance_changed(was, instance)

    def _close(self) -> None:
        """Leave: the last state is saved, nothing is stopped; ended: nothing stays."""
        near = self._near
        ended = self.outcome is Outcome.ENDED
        if self.outcome is Outcome.LEFT:
            near.saver.save(saved(self._fleet, self._past_s))
        for request in near.inbox.drain():
            _reply(request, RefusedError("the master is leaving", next_step="Try again"))
        near.saver.close(0.15)
        self._runtime.close(5.0 if ended else 0.05)
        for name, discovery in near.discoveries.items():
            self._discoveries[name].close(1.0 if ended else 0.05)
            if self.outcome is not Outcome.SUPERSEDED:
                discovery.close(withdraw=ended)


def _blocked(worker: "Worker[RuntimeWish] | Worker[DiscoveryView]") -> str:
    if worker.working_s() > BLOCKED_S:
        return f"{worker.name} has been at work for {worker.working_s():.0f} s"
    return f"{worker.name} failed and is tried again" if worker.error else ""


def _reply(request: Request, answer: Done | TarnError) -> None:
    """Answer once; the asker may have given up meanwhile."""
    try:
        if isinstance(answer, Done):
            request.answer.set_result(answer)
        else:
            request.answer.set_exception(answer)
    except InvalidStateError:
        log.debug("an answer came too late for its asker")


def _new(before: tuple[T, ...], after: tuple[T, ...]) -> list[T]:
    known = {id(item) for item in before}
    return [item for item in after if id(item) not in known]


def _fleet_view(fleet: Fleet, rules: Rules, now_s: float) -> FleetView:
    """Return what a policy sees. The signals' history comes with the part SCALING."""
    limits = fleet.limits(rules)
    return FleetView(now_s, fleet.desired, limits, fleet.instances, {}, fleet.decisions)
