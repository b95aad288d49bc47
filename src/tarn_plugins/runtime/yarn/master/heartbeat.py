"""The word with the ResourceManager: one thread, and the ledger that it fills."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

import attrs

from tarn.domain import Fact, Pending, RuntimeWish
from tarn.errors import PluginError, ProviderError, Superseded, TimedOutError
from tarn.interfaces import Clock
from tarn_plugins.runtime.yarn.master.ledger import Ledger
from tarn_plugins.runtime.yarn.master.node_pool import FailedCall
from tarn_plugins.runtime.yarn.master.recovery import RecoveredRecords, Recovery
from tarn_plugins.runtime.yarn.master.slots import Job, Start, Stop
from tarn_plugins.runtime.yarn.master.waiting import refusal, silence
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Exchange,
    Registered,
    ResourceManager,
)

__all__ = ["Heartbeat", "Pool"]

log = logging.getLogger(__name__)

SOON_S = 0.2
"""Between two words while something is asked for, starts or stops."""
REGISTER_WITHIN_S = 600.0
"""A ResourceManager that restarts is back within this."""
OBEY_WITHIN_S = 1.0
"""A wish waits this long for the exchange that proves its master to be the present one."""


class Pool(Protocol):
    """Who does the jobs."""

    def post(self, jobs: tuple[Job, ...]) -> None:
        """Take *jobs* over; returns at once."""
        ...

    def close(self) -> None:
        """Drop what has not begun."""
        ...


@attrs.frozen
class HeartbeatInterval:
    """How often the ResourceManager is spoken to."""

    rest_s: float
    """While nothing happens."""

    def until_next_s(self, *, failed: bool, urgent: bool, outstanding: bool) -> float:
        """Return the seconds between the last exchange and the next one."""
        if failed:
            return self.rest_s
        if urgent:
            return 0.0
        return min(SOON_S, self.rest_s) if outstanding else self.rest_s


class Heartbeat:
    """Owns the ResourceManager (on its thread ``rm-heartbeat``) and the ledger (under its lock).

    Wishes and results of jobs are taken in by the thread that brings them, so that a
    ResourceManager that is away for a minute holds up nothing but grants, starts and stops.
    """

    def __init__(
        self,
        rm: ResourceManager,
        ledger: Ledger,
        clock: Clock,
        wake: Callable[[], None],
        rest_s: float,
    ) -> None:
        self._rm = rm
        self._ledger = ledger
        self._clock = clock
        self._wake = wake
        self._pace = HeartbeatInterval(rest_s)
        self._pool: Pool | None = None
        self._changed = threading.Condition()
        self._facts: tuple[Fact, ...] = ()
        self._heard_s = clock.now_s()
        self._spoke_s = float("-inf")
        self._failed = False
        self._refused = ""
        """Why the last message was refused; sent again, it is refused again."""
        self._begun = self._done = 0
        self._superseded: Superseded | None = None
        self._broken = ""
        """The error of ours that ended the thread, in words."""
        self._registered: Registered | Exception | None = None
        self._beating = self._closing = False
        self._farewell: str | None = None
        self._over: Exception | bool = False
        self._thread: threading.Thread | None = None

    # -- any thread --------------------------------------------------------------------------

    @property
    def heard_s(self) -> float:
        """The monotonic second of the last answer.

        Raises:
            Superseded: A newer attempt is at work: there will be no other word.
            PluginError: Nor after an error of ours.
        """
        self._check()
        return self._heard_s

    def mute(self) -> str:
        """Return why no word comes through to the ResourceManager; '' while one does.

        Raises:
            Superseded, PluginError: As `heard_s`.
        """
        self._check()
        return self._mute()

    def facts(self) -> tuple[Fact, ...]:
        """Return what is known now; while no word comes through, asks wait for that."""
        facts, mute = self._facts, self._mute()
        if not mute:
            return facts
        return tuple(
            attrs.evolve(f, waits_for=mute) if isinstance(f, Pending) else f for f in facts
        )

    def grant(self, instance_id: str) -> AllocatedContainer | None:
        """Return the container of an instance; None: it has none."""
        with self._changed:
            return self._ledger.grant(instance_id)

    def _mute(self) -> str:
        return self._refused or silence(self._clock.now_s() - self._heard_s)

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        """Start the thread, and register on it.

        Raises:
            Superseded: A newer attempt is at work.
            ProviderError: YARN refused the registration.
            TimedOutError: No answer in `REGISTER_WITHIN_S`.
        """

        def run() -> None:
            try:
                self._register(host, port, tracking_url)
                self._run()
            except Exception as error:  # noqa: BLE001 (logged and kept: the master ends by it)
                self._break(error)

        self._thread = threading.Thread(target=run, name="rm-heartbeat", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(self._is_registered, REGISTER_WITHIN_S)
            answer = self._registered
        if answer is None:
            raise TimedOutError(
                f"the ResourceManager did not answer the registration in {REGISTER_WITHIN_S:g} s",
                next_step="Check that it runs: `yarn application -list`",
            )
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin(self, recovery: Recovery, memory: RecoveredRecords, pool: Pool) -> None:
        """Take over what was recovered, and begin to beat."""
        with self._changed:
            self._pool = pool
            self._ledger.adopt(recovery, memory, self._clock.now_s())
            self._beating = True
            self._publish()
            self._changed.notify_all()

    def apply_wish(self, wish: RuntimeWish) -> None:
        """Take *wish* in; where YARN must be told, wait a moment for its answer.

        Raises:
            Superseded: A newer attempt is at work; the wish was not and will not be obeyed.
            PluginError: Nor after an error of ours.
        """
        with self._changed:
            since = self._begun
            if self._take(wish):
                self._changed.wait_for(lambda: self._is_proven(since), OBEY_WITHIN_S)
            self._check()

    def _take(self, wish: RuntimeWish) -> bool:
        """Take *wish* in, and say whether YARN must be told; never waits for YARN.

        Raises:
            Superseded: A newer attempt is at work.
        """
        with self._changed:
            self._check()
            now_s = self._clock.now_s()
            self._ledger.wish(wish, now_s)
            self._work()
            self._changed.notify_all()
            return self._ledger.urgent(now_s)

    def calling(self, start: Start) -> bool:
        """Take in that the node of *start* is about to be called; False: it must not be."""
        with self._changed:
            container_id = start.grant.container_id
            return not self._ended() and self._ledger.calling(container_id, self._clock.now_s())

    def told(self, job: Job, failed: FailedCall | None) -> None:
        """Take in how a job ended."""
        try:
            self._told(job, failed)
        except Exception as error:  # noqa: BLE001 (as on the thread of the heartbeat)
            self._break(error)

    def _told(self, job: Job, failed: FailedCall | None) -> None:
        with self._changed:
            now_s = self._clock.now_s()
            match job:
                case Start(grant=grant) if failed is None:
                    self._ledger.started(grant.container_id, now_s)
                case Start(grant=grant) if failed is not None:
                    self._ledger.start_failed(
                        grant.container_id, failed.error, now_s, at_node=failed.at_node
                    )
                case Stop(grant=grant) if failed is not None:
                    log.warning("%s does not accept a stop: %s", grant.node, failed.error)
                    self._ledger.stop_failed(grant.container_id)
                case _ if failed is not None:
                    log.warning("a file of the cluster was not changed: %s", failed.error)
            self._work()
            self._changed.notify_all()

    def finish(self, diagnostics: str, within_s: float) -> None:
        """End the application, on the thread that talks to YARN.

        Raises:
            Superseded: A newer attempt is at work.
            PluginError: An error of ours ended the thread.
            ProviderError: YARN refused.
            TimedOutError: No answer in *within_s*.
        """
        with self._changed:
            self._check()
            self._farewell = diagnostics
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over is not False or self._ended(), within_s)
            over = self._over
            if over is False:
                self._check()
        if isinstance(over, Exception):
            raise over
        if not over:
            raise TimedOutError(f"no answer to the end of the application in {within_s:g} s")

    def close(self, within_s: float) -> None:
        """End the thread; one that waits for YARN is left behind and does nothing more."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(within_s)

    # -- rm-heartbeat ------------------------------------------------------------------------

    def beat(self) -> bool:
        """Exchange one word with YARN; False: it failed, and is said again with the next one."""
        with self._changed:
            self._begun += 1
            said = self._ledger.say(self._clock.now_s())
            self._work()
        try:
            answer = self._rm.exchange(said)
        except Superseded as error:
            self._leave(error)
            return False
        except ProviderError as error:
            # Once for each outage: it may last for minutes, at a word a second.
            level = logging.DEBUG if self._failed else logging.WARNING
            log.log(level, "no answer from the ResourceManager: %s", error)
            return self._spoke(None, said, refusal(error) if error.retry_after_s is None else "")
        return self._spoke(answer, said)

    def _register(self, host: str, port: int, tracking_url: str) -> None:
        found: Registered | Exception
        try:
            found = self._rm.register(host, port, tracking_url)
        except Exception as error:  # noqa: BLE001 (raised again by the thread that waits for it)
            found = error
        with self._changed:
            if isinstance(found, Registered):
                self._ledger.maximum = found.maximum
                self._heard_s = self._clock.now_s()
            else:
                self._closing = True
            self._registered = found
            self._changed.notify_all()

    def _run(self) -> None:
        while self._rest():
            if self._farewell is not None:
                self._unregister(self._farewell)
                return
            self.beat()

    def _rest(self) -> bool:
        """Wait until the next word is due; False when there will be none."""
        with self._changed:
            while not self._ended():
                left_s = self._left_s()
                if left_s <= 0:
                    return True
                self._changed.wait(left_s)
        return False

    def _left_s(self) -> float:
        if self._farewell is not None:
            return 0.0
        if not self._beating:
            return self._pace.rest_s
        now_s = self._clock.now_s()
        pause_s = self._pace.until_next_s(
            failed=self._failed,
            urgent=self._ledger.urgent(now_s),
            outstanding=self._ledger.outstanding(now_s),
        )
        return self._spoke_s + pause_s - now_s

    def _spoke(self, answer: AllocateResponse | None, said: Exchange, refused: str = "") -> bool:
        with self._changed:
            if refused != self._refused:
                self._refused = refused
                self._wake()
            self._spoke_s = self._clock.now_s()
            self._failed = answer is None
            if answer is not None and not self._ended():
                self._heard_s = self._spoke_s
                self._done = self._begun
                self._ledger.heard(said, answer, self._spoke_s, self._clock.at())
                self._work()
            self._changed.notify_all()
        return answer is not None

    def _leave(self, error: Superseded) -> None:
        """A newer attempt is at work: what has not begun never does."""
        with self._changed:
            self._superseded = error
            pool = self._pool
            self._changed.notify_all()
        self._wake()
        if pool is not None:  # without the lock: its threads want it, to tell how a job ended
            pool.close()

    def _break(self, error: Exception) -> None:
        """Nothing can be said of what is known now: the master ends, and the next one looks."""
        log.error("the heartbeat with YARN ended because of a bug in TARN", exc_info=error)
        with self._changed:
            self._broken = self._broken or f"{type(error).__name__}: {error}"
            self._changed.notify_all()
        self._wake()

    def _unregister(self, diagnostics: str) -> None:
        over: Exception | bool = True
        try:
            self._rm.unregister(diagnostics)
        except Exception as error:  # noqa: BLE001 (raised again by the thread that waits for it)
            over = error
        with self._changed:
            self._over = over
            self._changed.notify_all()

    # -- under the lock ----------------------------------------------------------------------

    def _ended(self) -> bool:
        return self._closing or self._superseded is not None or bool(self._broken)

    def _is_proven(self, since: int) -> bool:
        """Say whether an exchange that began after number *since* was answered."""
        return self._ended() or self._done > since

    def _is_registered(self) -> bool:
        return self._registered is not None or self._closing

    def _check(self) -> None:
        if self._superseded is not None:
            raise Superseded(self._superseded.mine, self._superseded.theirs)
        if self._broken:
            found = f"the runtime ended because of a bug: {self._broken}"
            raise PluginError("yarn", found)

    def _work(self) -> None:
        jobs = self._ledger.jobs()
        if jobs and self._pool is not None and not self._ended():
            self._pool.post(jobs)
        self._publish()

    def _publish(self) -> None:
        facts = self._ledger.facts(self._clock.now_s())
        if facts != self._facts:
            self._facts = facts
            self._wake()
