"""Looks at every instance, every second: health, models, metrics, and the moment of its death.

One asyncio loop on one thread (*scraper*). Each instance has two kept connections, one to its HTTP
port and one to its metrics port: when a Triton is killed, the kernel closes both, and that is
noticed within milliseconds instead of at the next look.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs

from tarn.control.port_watcher import ProbeSchedule
from tarn.control.probe import EnsembleRegistry, Families, Probe, ProbeContext, ProbeTarget
from tarn.control.totals import Totals
from tarn.control.warmup import WarmupRequest
from tarn.domain import Reading, Unknown
from tarn.domain.model_totals import ModelTotals
from tarn.interfaces import Clock
from tarn.triton.test_sources import KnownTests

__all__ = ["Families", "ProbeTarget", "Scraper", "WarmupRequest"]

CLOSE_S = 1.0
"""The longest that `Scraper.close` waits for its thread."""

_GOLDEN = 0.6180339887
"""Multiples of it, modulo one, fill the interval evenly for any number of instances."""


class Scraper:
    """Keeps the newest `Reading` of each target.

    What a reading says, and when:

    - ``live``: Known from ``/v2/health/live``; Unknown with a reason by time-out, garbage, or no
      route. ``gone`` is set only when that is certain: refused, or a new connection was closed
      without an answer (so does a Triton that got SIGTERM; and so does one that still starts, for
      it listens only after its models are loaded).
    - ``models``: the repository index; Unknown when it did not answer.
    - ``warm``: True once every warm-up request succeeded; they are sent when at least one model is
      READY and none is LOADING. ``cold`` says why the newest one failed; it is sent again.
    - ``tested``: the newest test request that said something. One is sent when the target asks for
      it by one that was not sent yet; two never at once.
    - ``metrics``: see `tarn.triton.metrics.TritonMetrics.signals`, and ``executing`` from
      `tarn.triton.activity`, an estimate; so is ``pending`` where Triton has no gauge for it.
      Every family of *families* stands there by its name, some of them line by line too.

    Args:
        clock: Stamps the readings.
        interval_s: Between two looks at one port.
        timeout_s: For one look; a slow instance is asked again when its look ended, never before.
        wake: Called on the scraper's thread when ``live``, ``models``, ``gone``, ``warm`` or
            ``tested`` of some instance changed; must not block.
        families: Metric families to keep besides the usual ones.
        tests: The test requests that the user wrote; what is learned of them is kept there.
    """

    def __init__(  # noqa: PLR0913 (what it needs, and two that it may do without)
        self,
        clock: Clock,
        interval_s: float,
        timeout_s: float,
        wake: Callable[[], None],
        *,
        families: Families | None = None,
        tests: KnownTests | None = None,
    ) -> None:
        self._clock, self._wake = clock, wake
        self._pace = ProbeSchedule(interval_s, timeout_s)
        self._families = families or Families()
        self.tests = tests or KnownTests()
        """Which test requests there are, and what is known of them."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scraper", daemon=True)
        self._lock = threading.Lock()
        self._wanted: Mapping[str, ProbeTarget] = {}
        self._closing = False
        self._end: asyncio.Event | None = None
        self._probes: dict[str, Probe] = {}
        self._count = 0
        self._totals = Totals()
        self._kinds = EnsembleRegistry()
        self._stale: set[str] = set()
        self._publish_soon = False
        self._readings: Mapping[str, Reading] = MappingProxyType({})
        self.crashes = 0
        """Errors of our own so far; each is shown in a reading's reason, too."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def watch(self, targets: Mapping[str, ProbeTarget]) -> None:
        """Look at exactly these from now on, by instance id; any thread, never blocks.

        One whose endpoint or warm-up changed is begun again; one that is not named is let go.
        """
        with self._lock:
            self._wanted = dict(targets)
            if not self._closing:
                self._loop.call_soon_threadsafe(self._reconcile)

    def readings(self) -> Mapping[str, Reading]:
        """Return the newest reading of each instance, by id; any thread, never blocks.

        The mapping is a picture of one moment and never changes.
        """
        return self._readings

    def model_totals(self) -> tuple[Mapping[str, ModelTotals], int]:
        """Return what each model did, and how many stand in ``_other``; any thread, at once."""
        return self._totals.picture()

    def close(self) -> None:
        """End the connections and the thread; idempotent, returns within a second."""
        with self._lock:
            first, self._closing = not self._closing, True
            if first and self._thread.ident is not None:
                self._loop.call_soon_threadsafe(self._finish)
        if self._thread.ident is None:
            self._loop.close()
        else:
            self._thread.join(CLOSE_S)

    # -- on the scraper's thread -------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(self._loop_error)
        self._end = asyncio.Event()
        try:
            self._loop.run_until_complete(self._end.wait())
        finally:
            with self._lock:
                ended_by_error, self._closing = not self._closing, True
            if ended_by_error:
                self._say_that_it_ended()
            self._loop.run_until_complete(self._let_go())
            self._loop.close()

    async def _let_go(self) -> None:
        """End every connection and every task."""
        for probe in self._probes.values():
            probe.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' last callbacks

    def _finish(self) -> None:
        assert self._end is not None
        self._end.set()

    def _reconcile(self) -> None:
        with self._lock:
            wanted = self._wanted
        for instance_id, probe in tuple(self._probes.items()):
            target = wanted.get(instance_id)
            if target is None or not _same_place(target, probe.target):
                probe.close()
                del self._probes[instance_id]
                self._changed(instance_id)
            elif target != probe.target:
                probe.set_target(target)
        for instance_id, target in wanted.items():
            if instance_id not in self._probes:
                self._probes[instance_id] = probe = Probe(instance_id, target, self._around())
                probe.start()
                self._changed(instance_id)

    def _around(self) -> ProbeContext:
        self._count += 1
        phase_s = self._count * _GOLDEN % 1.0 * self._pace.interval_s
        return ProbeContext(
            clock=self._clock,
            pace=attrs.evolve(self._pace, phase_s=phase_s),
            families=self._families,
            changed=self._changed,
            wake=self._wake_soon,
            crashed=self._crashed,
            totals=self._totals,
            kinds=self._kinds,
            tests=self.tests,
        )

    def _changed(self, instance_id: str) -> None:
        """Publish once for everything that changes in one turn of the loop."""
        self._stale.add(instance_id)
        if not self._publish_soon:
            self._publish_soon = True
            self._loop.call_soon(self._publish)

    def _publish(self) -> None:
        readings = dict(self._readings)
        for instance_id in self._stale:
            probe = self._probes.get(instance_id)
            if probe is None:
                readings.pop(instance_id, None)
            else:
                readings[instance_id] = probe.reading()
        self._stale.clear()
        self._publish_soon = False
        self._readings = MappingProxyType(readings)

    def _wake_soon(self) -> None:
        """Wake the control thread after the readings were published, never before."""
        self._loop.call_soon(self._wake)

    def _crashed(self, _error: BaseException) -> None:
        self.crashes += 1

    def _loop_error(self, _loop: asyncio.AbstractEventLoop, _context: dict[str, object]) -> None:
        self.crashes += 1

    def _say_that_it_ended(self) -> None:
        """The loop itself failed: nobody looks any more, and every reading says so."""
        self.crashes += 1
        ended = Unknown("the scraper has ended with an error")
        self._readings = MappingProxyType(
            {
                instance_id: Reading(instance_id, self._clock.now_s(), live=ended, models=ended)
                for instance_id in self._probes
            }
        )
        self._wake()


def _same_place(one: ProbeTarget, other: ProbeTarget) -> bool:
    return (one.endpoint, one.warmup) == (other.endpoint, other.warmup)
