"""Look at every instance again and again: its health, models and metrics.

One asyncio loop runs on one thread, the *scraper*. A queue says which port is looked at when. The
scraper keeps two connections to each instance, one
to its HTTP port and one to its metrics port. When a Triton is killed, the kernel closes both, and
the scraper notices that within milliseconds instead of at the next look.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from tarn.control.affinity import KnownTraits
from tarn.control.look_queue import LookStatus, Pace
from tarn.control.look_runner import LookRunner
from tarn.control.probe import Families, ModelRegistry, Probe, ProbeContext, ProbeTarget
from tarn.control.totals import Totals
from tarn.control.warmup import WarmupRequest
from tarn.domain import Instance, InstanceState, Launch, Reading, Unknown
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.domain.fleet import Fleet, HintCheck
from tarn.domain.hint_checks import answered_since, needed, peers_of
from tarn.domain.model_totals import ModelTotals
from tarn.domain.reading import Silence
from tarn.interfaces import Clock
from tarn.triton.restricted import keys
from tarn.triton.test_requests import MADE, TestRequest
from tarn.triton.test_sources import KnownTests

__all__ = [
    "Families",
    "ProbeTarget",
    "Scraper",
    "SentRequests",
    "Started",
    "WarmupRequest",
    "scrape_targets",
    "tests_now",
]

# Seconds for which `Scraper.close` waits for the thread.
CLOSE_S = 1.0


class Scraper:
    """Keeps the newest `Reading` of each target.

    The parts of a reading:

    - ``live`` comes from ``/v2/health/live``. It is Unknown with a reason after a time-out, a
      malformed answer, or without a route. ``gone`` is set only if it is certain that nothing
      serves there: the connection was refused, or a new one was closed without an answer, as by a
      Triton that got SIGTERM, or by one that still loads its models.
    - ``models`` is the repository index; Unknown if there was no answer.
    - ``warm`` is True once every warm-up request has succeeded. They are sent when at least one
      model is READY and none is LOADING. ``cold`` says why the newest one failed; it is sent again.
    - ``tested`` is the newest test request that had a result. The target's test request is sent
      once, and never two at the same time.
    - ``metrics``: see `tarn.triton.metrics.TritonMetrics.signals`. ``executing`` is an estimate of
      `tarn.triton.activity`, as is ``pending`` if Triton has no gauge for it. Every family of
      *families* is there under its name, and some of them line by line, too.

    Args:
        clock: The time of the readings.
        interval_s: The time between two looks at one port, unless the fleet is very large.
        timeout_s: Time limit of one look; the next one begins only when it has ended.
        wake: Called on the scraper's thread when ``live``, ``models``, ``gone``, ``warm`` or
            ``tested`` of some instance changed; must not block.
        families: Metric families to keep besides the usual ones.
        tests: The test requests of the user; what is learned about them is kept there.
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
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._families = families or Families()
        self.tests = tests or KnownTests()
        """The test requests, and what is known about them."""
        self._loop = asyncio.new_event_loop()
        self._looks = LookRunner(self._loop, interval_s, self._count_error)
        self._thread = threading.Thread(target=self._run, name="scraper", daemon=True)
        self._lock = threading.Lock()
        self._wanted: Mapping[str, ProbeTarget] = {}
        self._closing = False
        self._end: asyncio.Event | None = None
        self._probes: dict[str, Probe] = {}
        self._totals = Totals()
        self._kinds = ModelRegistry()
        self._stale: set[str] = set()
        self._publish_soon = False
        # Changed on the loop's thread only; a copy is one step of the interpreter.
        self._readings: dict[str, Reading] = {}
        self.crashes = 0
        """Number of unexpected errors; a reading's reason shows each of them, too."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def watch(self, targets: Mapping[str, ProbeTarget]) -> None:
        """Look at exactly these instances from now on; any thread, never blocks.

        An instance whose endpoint or warm-up changed is begun again.
        """
        with self._lock:
            self._wanted = dict(targets)
            if not self._closing:
                self._loop.call_soon_threadsafe(self._reconcile)

    def measure(self, families: Families) -> None:
        """Keep these families from now on; any thread, never blocks."""
        with self._lock:
            self._families = families
            if not self._closing:
                self._loop.call_soon_threadsafe(self._measure, families)

    def readings(self) -> Mapping[str, Reading]:
        """Return the newest reading of each instance, by id; any thread, never blocks.

        The mapping never changes.
        """
        return MappingProxyType(self._readings.copy())

    def looks(self) -> LookStatus:
        """Return how often it looks at each instance; any thread."""
        return self._looks.status()

    def model_totals(self) -> tuple[Mapping[str, ModelTotals], int]:
        """Return the totals of each model, and how many models ``_other`` has; any thread."""
        return self._totals.picture()

    def traits(self) -> KnownTraits:
        """Return the traits of the models whose configurations were read; any thread."""
        return self._kinds.traits

    def close(self) -> None:
        """Close the connections and end the thread; idempotent, returns within a second."""
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
        self._loop.set_exception_handler(self._count_error)
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
        await asyncio.sleep(0)  # for the last callbacks of the transports

    def _finish(self) -> None:
        assert self._end is not None
        self._end.set()

    def _measure(self, families: Families) -> None:
        for probe in self._probes.values():
            probe.families = families

    def _reconcile(self) -> None:
        with self._lock:
            wanted = self._wanted
        for instance_id, probe in tuple(self._probes.items()):
            target = wanted.get(instance_id)
            if target is None or not _same_place(target, probe.target):
                probe.close()
                del self._probes[instance_id]
                # A new process at another place begins its counters again, which shows in them.
                if target is None:
                    self._totals.forget(instance_id)
                self._changed(instance_id)
            elif target != probe.target:
                probe.set_target(target)
        for instance_id, target in wanted.items():
            if instance_id not in self._probes:
                self._probes[instance_id] = probe = Probe(instance_id, target, self._around())
                probe.start()
                self._changed(instance_id)

    def _around(self) -> ProbeContext:
        return ProbeContext(
            clock=self._clock,
            looks=self._looks,
            interval_s=self._interval_s,
            timeout_s=self._timeout_s,
            families=self._families,
            changed=self._changed,
            wake=self._wake_soon,
            crashed=self._count_error,
            totals=self._totals,
            kinds=self._kinds,
            tests=self.tests,
        )

    def _changed(self, instance_id: str) -> None:
        """Publish the new reading; once for all that change in one turn of the loop."""
        self._stale.add(instance_id)
        if not self._publish_soon:
            self._publish_soon = True
            self._loop.call_soon(self._publish)

    def _publish(self) -> None:
        for instance_id in self._stale:
            probe = self._probes.get(instance_id)
            if probe is None:
                self._readings.pop(instance_id, None)
            else:
                self._readings[instance_id] = probe.reading()
        self._stale.clear()
        self._publish_soon = False

    def _wake_soon(self) -> None:
        """Wake the control thread after the readings were published."""
        self._loop.call_soon(self._wake)

    def _count_error(self, *_: object) -> None:
        self.crashes += 1

    def _say_that_it_ended(self) -> None:
        """Say in every reading that the loop has failed, so that nothing is looked at any more."""
        self.crashes += 1
        ended, now_s = Unknown("the scraper has ended with an error"), self._clock.now_s()
        unasked = Silence(now_s, now_s)
        self._readings = {
            instance_id: Reading(instance_id, now_s, live=ended, models=ended, silence=unasked)
            for instance_id in self._probes
        }
        self._wake()


def _same_place(one: ProbeTarget, other: ProbeTarget) -> bool:
    return (one.endpoint, one.warmup) == (other.endpoint, other.warmup)


@attrs.frozen
class Started:
    """How instances with one spec hash were started, and what they must answer to be ready."""

    launch: Launch
    warmup: tuple[WarmupRequest, ...] = ()


@attrs.frozen
class SentRequests:
    """The requests that are sent to instances, apart from the looks at them."""

    control: WantedCalls = NO_CALLS
    """The control calls that each serving instance must have had."""
    tests: Mapping[str, TestRequest] = MappingProxyType({})
    """Instance id to the test request that it gets."""


def scrape_targets(
    instances: Iterable[Instance],
    before: Mapping[str, ProbeTarget],
    started: Mapping[str, Started],
    sent: SentRequests,
) -> dict[str, ProbeTarget]:
    """Return what to scrape, by instance id; unchanged targets are the same objects.

    *before* is the last result. *started* maps the spec hash of instances to how they were started;
    the entry of the key '' counts for hashes that are not there, of a master before.
    """
    aimed: dict[str, ProbeTarget] = {}
    for i in instances:
        if i.endpoint is None:
            continue
        old = before.get(i.id)
        calls = (
            sent.control if i.state in (InstanceState.STARTING, InstanceState.READY) else NO_CALLS
        )
        test, pace = sent.tests.get(i.id), _pace(i)
        new = (i.endpoint, i.unloading, i.stop_posted, test, pace)
        own = started.get(i.spec_hash) or started[""]
        if old is None or old.calls is not calls or _of_instance(old) != new:
            old = ProbeTarget(
                i.endpoint,
                own.warmup,
                unload=i.unloading,
                leaving=i.stop_posted,
                keys=keys(own.launch, i.id) if old is None else old.keys,
                fresh=not i.adopted,
                calls=calls,
                had=i.calls,
                load_within_s=own.launch.instance.start_timeout_s,
                test=test,
                pace=pace,
            )
        aimed[i.id] = old
    return aimed


def _of_instance(target: ProbeTarget) -> tuple[object, ...]:
    return (target.endpoint, target.unload, target.leaving, target.test, target.pace)


def _pace(instance: Instance) -> Pace:
    if instance.state is InstanceState.STARTING:
        return Pace.STARTING
    doubted = instance.suspect or instance.unwell is not None or instance.silent_s is not None
    return Pace.SOON if doubted or instance.state is InstanceState.DRAINING else Pace.USUAL


def tests_now(
    fleet: Fleet,
    readings: Mapping[str, Reading],
    known: KnownTests,
    now_s: float,
    each_s: float,
) -> dict[str, TestRequest]:
    """Return the test request that instances get now, by instance id.

    A suspected instance gets one after the other, at least *each_s* apart, each with its own
    number. An instance that a hint is about is tested, too.
    """
    tests: dict[str, TestRequest] = {}
    for suspect in fleet.instances:
        if not suspect.wants_test or suspect.unwell is None:
            continue
        model = suspect.unwell.model
        number = _number(readings.get(suspect.id), now_s, each_s)
        peer = next((i.id for i in peers_of(suspect.id, model, fleet.instances)), "")
        tests.update(known.tests_for(suspect.id, model, number, peer=peer))
    for check in fleet.hint_checks:
        test = None if check.over else known.test_for(check.model)
        if test is None:
            continue
        for id_ in _asked_for(check, test, fleet, readings, known):
            number = _number(readings.get(id_), now_s, each_s)
            tests.setdefault(id_, attrs.evolve(test, number=number))
    return tests


def _asked_for(
    check: HintCheck,
    test: TestRequest,
    fleet: Fleet,
    readings: Mapping[str, Reading],
    known: KnownTests,
) -> Iterator[str]:
    """Yield the ids of those that get *test*: the instance, and once another one to compare."""
    if check.failed < needed(check):
        yield check.instance_id
    if check.failed or check.noticed or (test.source == MADE and not known.is_proven(test)):
        peers = [i.id for i in peers_of(check.instance_id, check.model, fleet.instances)]
        if not any(answered_since(readings.get(id_), check) for id_ in peers):
            yield from peers[:1]


def _number(reading: Reading | None, now_s: float, each_s: float) -> int:
    """Return the number of the present test request; it rises *each_s* after the last one."""
    tested = None if reading is None else reading.tested
    if tested is None:
        return 1
    return tested.number + (now_s - tested.asked_s >= each_s)
