"""The heartbeat with the ResourceManager: its thread, and the ledger that it fills."""

import logging
import threading
from collections.abc import Callable

import attrs

from tarn.domain import Fact, Pending, RuntimeWish
from tarn.errors import PluginError, ProviderError, Superseded, TimedOutError
from tarn.interfaces import Clock
from tarn_plugins.runtime.yarn.master.asks import refusal, silence
from tarn_plugins.runtime.yarn.master.ledger import Ledger
from tarn_plugins.runtime.yarn.master.node_pool import FailedCall, NodePool
from tarn_plugins.runtime.yarn.master.recovery import RecoveredRecords, Recovery
from tarn_plugins.runtime.yarn.master.slots import Job, Start, Stop
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Exchange,
    Registered,
    ResourceManager,
)

__all__ = ["Heartbeat"]

log = logging.getLogger(__name__)

# Between two heartbeats while an instance is requested, starts, stops or was seen gone; at first
# more often, since a node answers within a second or two.
SOON_S = 0.2
AT_FIRST_S, FIRST_S = 0.1, 10.0
# A restart of the ResourceManager takes less than this.
REGISTER_WITHIN_S = 600.0
# A wish waits this long for the exchange that shows its master is not superseded.
OBEY_WITHIN_S = 1.0


class Heartbeat:
    """Owns the ResourceManager (on its thread ``rm-heartbeat``) and the ledger (under its lock)."""

    # Other threads put their wishes and results of jobs into the ledger themselves. So a
    # ResourceManager that is away for a minute delays only grants, starts and stops.

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
        self._rest_s = rest_s
        self._pool: NodePool | None = None
        self._changed = threading.Condition()
        self._facts: tuple[Fact, ...] = ()
        self._heard_s = clock.now_s()
        # So the first heartbeat is due at once.
        self._spoke_s = float("-inf")
        self._failed = False
        # Why the last heartbeat was refused; a repetition is refused, too.
        self._refused = ""
        self._begun = self._done = 0
        self._superseded: Superseded | None = None
        # The bug that ended the thread, as text.
        self._broken = ""
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
            Superseded: A newer attempt is running.
            PluginError: A bug ended the thread.
        """
        self._check()
        return self._heard_s

    def mute(self) -> str:
        """Return why the ResourceManager does not hear this master; '' while it does.

        Raises:
            Superseded, PluginError: As `heard_s`.
        """
        self._check()
        return self._unheard()

    def facts(self) -> tuple[Fact, ...]:
        """Return the present facts; pending ones wait for an absent ResourceManager."""
        facts, why = self._facts, self._unheard()
        if not why:
            return facts
        return tuple(attrs.evolve(f, waits_for=why) if isinstance(f, Pending) else f for f in facts)

    def grant(self, instance_id: str) -> AllocatedContainer | None:
        """Return the container of an instance; None if it has none."""
        with self._changed:
            return self._ledger.grant(instance_id)

    def _unheard(self) -> str:
        return self._refused or silence(self._clock.now_s() - self._heard_s)

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        """Start the thread, and register on it.

        Raises:
            Superseded: A newer attempt is running.
            ProviderError: YARN refused the registration.
            TimedOutError: No answer in `REGISTER_WITHIN_S`.
        """

        def run() -> None:
            try:
                self._register(host, port, tracking_url)
                self._run()
            except Exception as error:  # noqa: BLE001 (logged and kept: the master ends by it)
                self._break(error)

        # A daemon, since Java may block it for longer than a master takes to leave.
        self._thread = threading.Thread(target=run, name="rm-heartbeat", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(
                lambda: self._registered is not None or self._closing, REGISTER_WITHIN_S
            )
            answer = self._registered
        if answer is None:
            raise TimedOutError(
                f"the ResourceManager did not register this master within {REGISTER_WITHIN_S:g} s",
                next_step="Check with `yarn application -list` that it answers",
            )
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin(self, recovery: Recovery, memory: RecoveredRecords, pool: NodePool) -> None:
        """Adopt the recovered containers, and start the heartbeats."""
        with self._changed:
            self._pool = pool
            self._ledger.adopt(recovery, memory, self._clock.now_s())
            self._beating = True
            self._publish()
            self._changed.notify_all()

    def apply_wish(self, wish: RuntimeWish) -> None:
        """Take *wish*; if YARN must be told, wait a moment for its answer.

        Raises:
            Superseded: A newer attempt is running; the wish was not and will not be obeyed.
            PluginError: A bug ended the thread.
        """
        with self._changed:
            since = self._begun
            if self._take(wish):
                # An answered exchange that began after the wish shows that this master may act.
                self._changed.wait_for(lambda: self._ended() or self._done > since, OBEY_WITHIN_S)
            self._check()

    def _take(self, wish: RuntimeWish) -> bool:
        """Take *wish*, without waiting for YARN, and return whether YARN must be told."""
        with self._changed:
            self._check()
            now_s = self._clock.now_s()
            self._ledger.wish(wish, now_s)
            self._work()
            self._changed.notify_all()
            return self._ledger.urgent(now_s)

    def calling(self, start: Start) -> bool:
        """Note that the node of *start* is about to be called; False forbids it."""
        with self._changed:
            container_id = start.grant.container_id
            return not self._ended() and self._ledger.calling(container_id, self._clock.now_s())

    def told(self, job: Job, failed: FailedCall | None) -> None:
        """Note the result of a job."""
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
            Superseded: A newer attempt is running.
            PluginError: A bug ended the thread.
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
        """End the thread, or leave it behind if it waits for YARN; it then does nothing."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(within_s)

    # -- rm-heartbeat ------------------------------------------------------------------------

    def beat(self) -> bool:
        """Exchange one heartbeat; return False if it failed, so that the next repeats it."""
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
            # A warning once for each outage, which may last for minutes of a heartbeat a second.
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
        """Wait until the next heartbeat is due; return False if there is none."""
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
            return self._rest_s
        now_s = self._clock.now_s()
        pause_s = self._rest_s
        # After a failure even urgent wishes wait: an RM that refuses at once would be called
        # without a pause.
        if not self._failed and self._ledger.urgent(now_s):
            pause_s = 0.0
        elif not self._failed and self._ledger.outstanding(now_s, FIRST_S):
            pause_s = min(AT_FIRST_S, self._rest_s)
        elif not self._failed and self._ledger.outstanding(now_s):
            pause_s = min(SOON_S, self._rest_s)
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
        # A newer attempt is running, so queued jobs must never begin.
        with self._changed:
            self._superseded = error
            pool = self._pool
            self._changed.notify_all()
        self._wake()
        if pool is not None:  # without the lock, which its threads need to report their jobs
            pool.close()

    def _break(self, error: Exception) -> None:
        # The ledger can no longer be trusted: the master ends, and the next one recovers.
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
