"""Look at one instance: its health, models and metrics, together as one `Reading`."""

import asyncio
import contextlib
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote

import attrs

from tarn.control.affinity import KnownTraits
from tarn.control.control_caller import ControlCaller, Unloading
from tarn.control.http1 import MalformedReply, Reply, request
from tarn.control.look_queue import Pace
from tarn.control.look_runner import LookRunner
from tarn.control.model_readiness import ReadinessAsker, answers_for_models
from tarn.control.port_watcher import PortWatcher, ProbeFailure
from tarn.control.totals import Totals
from tarn.control.warmup import WarmupRequest, try_out, warm_up
from tarn.domain import Endpoint, Known, ModelState, Reading, Sample, StubEnded, Unknown
from tarn.domain.affinity import traits_of
from tarn.domain.control_calls import NO_CALLS, NO_PROGRESS, CallKind, CallProgress, WantedCalls
from tarn.domain.counters import COUNTERS, OPTIONAL_COUNTERS, CounterSet, InstanceCounters, summed
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn.domain.reading import NOT_READY, Silence
from tarn.interfaces import Clock
from tarn.triton import exits
from tarn.triton.activity import Activity, observe
from tarn.triton.control import MOST_BYTES, first, parse_index, stubs_ended
from tarn.triton.metrics import PIECE, MetricsParser, TritonMetrics, gpu_signals
from tarn.triton.model_counters import Rows, outcomes, parse_statistics, rows
from tarn.triton.restricted import NO_KEYS, Keys
from tarn.triton.test_requests import TestRequest
from tarn.triton.test_sources import KnownTests

__all__ = ["Families", "Probe", "ProbeContext", "ProbeTarget"]

# Models whose configuration one look asks for; a quarter of the look's time limit counts, too.
KINDS_A_LOOK = 50
# The configuration of a model is asked for again after this time, if there was no answer.
KIND_AGAIN_S = 60.0
# After this many failed looks at the metrics in a row, the statistics are read.
UNMEASURED_AFTER = 5
# Looks over one HTTP connection: a Triton that closes new ones is noticed after at most this many.
RENEW_AFTER = 5

# Most bytes of the answers about health and metadata.
_MOST_WORD = 1 << 16
# Parsed indexes that are kept: equal instances answer with the same bytes at every look.
_INDEXES = 16
_AN_ID = re.compile(r".+-[0-9]{4,}")
_SIGNALS = tuple(TritonMetrics({}).signals())
_COUNTED = {**COUNTERS, **OPTIONAL_COUNTERS}
_LEAVING = Unknown("not asked any more: the instance is leaving")


@attrs.frozen
class ProbeTarget:
    """An instance to look at, and the requests to send to it."""

    endpoint: Endpoint
    warmup: tuple[WarmupRequest, ...] = ()
    unload: bool = False
    """Unload every model, to prove that its last request has ended."""
    leaving: bool = False
    """Its stop was posted: look at its metrics port only, and close the connection to the other."""
    # A Triton that got SIGTERM waits for each open HTTP connection, idle ones too, until its exit
    # timeout (seen on 2.51: 30 s with our connection open, 3 s without). It does not wait for the
    # metrics port, which shows when the process has ended.
    keys: Keys = NO_KEYS
    """Keys of the restricted parts of its API."""
    fresh: bool = True
    """It was started under this master, so that all its counts are new."""
    calls: WantedCalls = NO_CALLS
    """The control calls that it must have had; none while it leaves."""
    had: CallProgress = attrs.field(default=NO_PROGRESS, eq=False)
    """The calls that it had had when this target was made."""
    load_within_s: float = 900.0
    """Time limit of one load."""
    test: TestRequest | None = None
    """A test request to send once; None: the instance is not suspected."""
    pace: Pace = Pace.USUAL
    """How often to look at it."""


@attrs.frozen
class Families:
    """Families of Triton's metrics to keep besides the usual ones."""

    sums: tuple[str, ...] = ()
    """Families whose sum is kept."""
    lines: tuple[str, ...] = ()
    """Families whose every line is kept, under the names of `TritonMetrics.each`."""

    @property
    def every(self) -> tuple[str, ...]:
        """All families."""
        return (*self.sums, *self.lines)


class ModelRegistry:
    """What the configurations of models say; one instance is asked for all."""

    def __init__(self) -> None:
        self.ensembles: set[str] = set()
        self.pythons: set[str] = set()
        """Models of the Python back end, which may say themselves whether they are ready."""
        self.traits = KnownTraits()
        """For affinity; replaced as a whole, so that any thread may read it."""
        self._known: set[str] = set()
        self._asked_s: dict[str, float] = {}

    def unknown(self, models: Iterable[ModelState], now_s: float) -> Iterator[str]:
        """Yield each READY model to ask about now, and note that it is asked about."""
        for name in (model.name for model in models if model.state == "READY"):
            asked_s = self._asked_s.get(name)
            if name in self._known or (asked_s is not None and now_s - asked_s < KIND_AGAIN_S):
                continue
            self._asked_s[name] = now_s
            yield name

    def add(self, name: str, reply: Reply) -> dict[str, object]:
        """Take the configuration of the model *name*, and return it; empty if there is none."""
        if reply.status != 200:  # noqa: PLR2004
            return {}
        self._known.add(name)
        self._asked_s.pop(name, None)
        try:
            said = json.loads(reply.body)
        except (ValueError, RecursionError):
            return {}
        config: dict[str, object] = said if isinstance(said, dict) else {}
        if config.get("platform") == "ensemble":
            self.ensembles.add(name)
        if config.get("backend") == "python":
            self.pythons.add(name)
        models, traits = self.traits.models, traits_of(name, config)
        if models.get(name) != traits:
            models = {**models, name: traits}
        self.traits = KnownTraits(models, frozenset(self._known))
        return config

    def forget(self, name: str) -> None:
        """Ask about the model *name* again, since its configuration may have changed."""
        self._known.discard(name)
        self.traits = attrs.evolve(self.traits, current=frozenset(self._known))


@attrs.frozen
class ProbeContext:
    """The objects that all probes of one scraper share."""

    clock: Clock
    looks: LookRunner
    """Runs the looks."""
    interval_s: float
    """The usual time between two looks, and that until something is tried again."""
    timeout_s: float
    """Time limit of one look."""
    families: Families
    changed: Callable[[str], None]
    """Called with the id of an instance whose reading is new."""
    wake: Callable[[], None]
    """Called when something changed that the control thread should see at once."""
    crashed: Callable[[BaseException], None]
    """Called when a task ended with an unexpected error."""
    kinds: ModelRegistry = attrs.field(factory=ModelRegistry)
    totals: Totals = attrs.field(factory=Totals)
    """The totals of each model over all instances."""
    tests: KnownTests = attrs.field(factory=KnownTests)
    """The test requests, and what is known about them."""


class Probe:
    """Looks at one instance with a port watcher for each port; on the loop's thread only.

    The ports are independent: if one of them hangs, that does not delay the other.
    """

    _had_calls: CallProgress | None = None
    _sent: TestRequest | None = None
    _tested: TestResult | None = None

    def __init__(self, instance_id: str, target: ProbeTarget, around: ProbeContext) -> None:
        self._id, self._target, self._around = instance_id, target, around
        self.families = around.families
        self._live: Sample[bool] = Unknown("not probed yet")
        self._models: Sample[tuple[ModelState, ...]] = Unknown("not probed yet")
        self._gone = ""
        self._stub_ended: StubEnded | None = None
        self._warm, self._cold, self._wrong = not target.warmup, "", ""
        self._unloaded: Sample[bool] | None = None
        self._metrics: dict[str, Sample[float]] = {}
        self._activity: Activity | None = None
        self._rows: Rows | None = None
        self._counted = InstanceCounters()
        self._as_read: CounterSet | None = None
        self._outcomes: Mapping[str, RequestCounts] = {}
        # Looks in a row at the metrics that brought nothing while the instance was live.
        self._unread = 0
        # Why its metrics are not read, and its statistics are asked for instead.
        self._unmeasured = ""
        self._answered_live = False
        # The server there gave this instance's id, since it was last lost.
        self._itself = False
        self._asked_s = self._http_s = self._metrics_s = around.clock.now_s()
        self._silence: Silence | None = Silence(self._asked_s, self._asked_s)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._restarts: dict[str, asyncio.TimerHandle] = {}
        self._calling = self._caller()
        self._readiness, self._asks_models = self._asker(), False
        self._lacks: dict[str, str] = {}  # by line: what we lacked at its newest look
        self._http, self._scrape = self._lines()

    def _lines(self) -> tuple[PortWatcher, PortWatcher]:
        """Return the watcher of the HTTP port, and that of the metrics port."""
        endpoint, timeout_s = self._target.endpoint, self._around.timeout_s
        http = PortWatcher(
            host=endpoint.host,
            port=endpoint.http_port,
            timeout_s=timeout_s,
            look=self._look_http,
            failed=self._http_failed,
            lost=self._lost,
            renew_after=RENEW_AFTER,
        )
        scrape = PortWatcher(
            host=endpoint.host,
            port=endpoint.metrics_port,
            timeout_s=timeout_s,
            look=self._look_metrics,
            failed=self._metrics_failed,
            lost=self._lost,
        )
        return http, scrape

    @property
    def target(self) -> ProbeTarget:
        """The instance that it looks at."""
        return self._target

    def start(self) -> None:
        """Begin to look."""
        self._around.looks.add(self._scrape, self._metrics_pace())
        if not self._target.leaving:
            self._around.looks.add(self._http, self._http_pace())
        self.set_target(self._target)

    def set_target(self, target: ProbeTarget) -> None:
        """Use *target* from now on; its place is the same."""
        left = target.leaving is not self._target.leaving
        self._target = target
        if left:
            self._leave(leaving=target.leaving)
        self._set_paces()
        self._calling.want(target.calls)
        if target.calls.number:
            self._begin("calls")
        if target.unload and not target.leaving and self._unloaded is None:
            self._begin("unload")
        if target.test is not None and target.test != self._sent:
            self._begin("test")

    def _leave(self, *, leaving: bool) -> None:
        """Stop looking at the HTTP port, or begin again."""
        if not leaving:
            self._around.looks.add(self._http, self._http_pace())
            return
        for name in ("warm", "calls", "unload", "test", "ready"):
            task = self._tasks.pop(name, None)
            if task is not None:
                task.cancel()
        self._around.looks.remove(self._http)
        self._http.lack = ""
        self._lacks.pop("http", None)
        self._live, self._models = _LEAVING, _LEAVING
        self._around.changed(self._id)

    def _set_paces(self) -> None:
        self._around.looks.set_pace(self._http, self._http_pace())
        self._around.looks.set_pace(self._scrape, self._metrics_pace())

    def _http_pace(self) -> Pace:
        """Return how often to look at its health: sooner while it does not answer well."""
        pace = self._target.pace
        return Pace.SOON if pace is Pace.USUAL and self._silence is not None else pace

    def _metrics_pace(self) -> Pace:
        """Return how often to look at its metrics, of which a start needs none."""
        return Pace.USUAL if self._target.pace is Pace.STARTING else self._target.pace

    def close(self) -> None:
        """Stop looking, and close the connections at once."""
        tasks, self._tasks = tuple(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        for timer in self._restarts.values():
            timer.cancel()
        self._around.looks.remove(self._http)
        self._around.looks.remove(self._scrape)

    def reading(self) -> Reading:
        """Return what is known now; the ages are those at the newest answer."""
        taken_s = max(self._http_s, self._metrics_s)
        http_age_s, metrics_age_s = taken_s - self._http_s, taken_s - self._metrics_s
        return Reading(
            self._id,
            taken_s,
            live=_aged(self._live, http_age_s),
            gone=self._gone,
            silence=self._silence,
            blind=next(iter(self._lacks.values()), "") or self._http.lack,
            models=_aged(_said_ready(self._models, self._readiness.not_ready), http_age_s),
            warm=self._warm,
            cold=self._cold,
            wrong=self._wrong,
            unloaded=self._unloaded,
            metrics={name: _aged(s, metrics_age_s) for name, s in self._metrics.items()},
            outcomes=self._outcomes,
            resets=self._counted.resets,
            as_read=self._as_read,
            unmeasured=self._unmeasured,
            calls=self._had_calls,
            stub_ended=self._stub_ended,
            tested=self._tested,
        )

    # -- health, models, warm-up -------------------------------------------------------------

    async def _look_http(self, line: PortWatcher) -> None:
        self._answered_live, self._asked_s = False, self._around.clock.now_s()
        reply = await line.ask(self._ask("GET", "/v2/health/live", "health"), _MOST_WORD)
        self._answered_live = True
        live = Known(reply.status == 200)  # noqa: PLR2004
        if not self._itself:
            reply = await line.ask(self._ask("GET", "/v2", "metadata"), _MOST_WORD)
            other = _other(reply, self._id)
            if other:
                stranger = Unknown(f"another instance, '{other}', answers at its port")
                self._set_http(stranger, stranger, gone="")
                return
            self._itself, self._asks_models = True, answers_for_models(reply)
        index = self._ask("POST", "/v2/repository/index", "model-repository")
        reply = await line.ask(index, MOST_BYTES)
        models = _models(reply)
        if isinstance(models, Known) and self._stub_ended != (told := _stub_ended(self._id, reply)):
            self._stub_ended = told
            self._around.wake()
        # Before the instance counts as ready: who sends it requests must know what they need.
        await self._ask_kinds(line, models)
        self._set_http(live, models, gone="")
        if isinstance(models, Known):
            self._calling.seen(models.value)
        if self._unmeasured:
            await self._look_statistics(line)
        if self._asks_models:
            self._begin("ready")
        if not self._warm and "warm" not in self._tasks and _may_warm(self._models):
            self._begin("warm")

    async def _ask_kinds(self, line: PortWatcher, models: Sample[tuple[ModelState, ...]]) -> None:
        """Ask for configurations, a few in each look; a missing answer is not an error."""
        kinds, now_s = self._around.kinds, self._around.clock.now_s()
        unknown = kinds.unknown(models.value if isinstance(models, Known) else (), now_s)
        with contextlib.suppress(OSError, MalformedReply):  # a TimeoutError is an OSError
            async with asyncio.timeout(self._around.timeout_s / 4):
                for name in itertools.islice(unknown, KINDS_A_LOOK):
                    path = f"/v2/models/{quote(name, safe='')}/config"
                    reply = await line.ask(self._ask("GET", path, "model-config"))
                    if config := kinds.add(name, reply):
                        self._around.tests.learn(name, config)

    def _ask(self, method: str, path: str, part: str) -> bytes:
        """Return the request with the key of *part*, if that part is restricted."""
        target = self._target
        return _question(method, path, target.endpoint.http, target.keys.of(part))

    def _http_failed(self, failure: ProbeFailure) -> None:
        if failure.own:  # nothing new is known, so its last answers stay
            self._lack("http", failure.reason)
            return
        unknown = Unknown(failure.reason)
        self._calling.lost()
        live = self._live if self._answered_live else unknown
        self._answered_live = self._itself = False
        self._set_http(live, unknown, gone=failure.reason if failure.gone else "")

    def _set_http(
        self, live: Sample[bool], models: Sample[tuple[ModelState, ...]], gone: str
    ) -> None:
        self._lacks.pop("http", None)
        before = (self._live, self._models, self._gone)
        self._live, self._models, self._gone = live, models, gone
        self._http_s = self._around.clock.now_s()
        if isinstance(live, Known) and live.value and isinstance(models, Known):
            self._silence = None
        else:
            asked_s = self._asked_s
            # Longer than its limit is a look only while the loop stands still.
            until_s = min(self._http_s, asked_s + self._around.timeout_s)
            silence = self._silence or Silence(asked_s, asked_s)
            self._silence = silence.longer(asked_s, until_s, self._around.interval_s)
        self._around.looks.set_pace(self._http, self._http_pace())
        self._around.changed(self._id)
        if before != (live, models, gone):
            self._around.wake()

    def _lack(self, line: str, reason: str) -> None:
        self._lacks[line] = reason
        self._around.changed(self._id)

    async def _warm_up(self) -> None:
        target = self._target
        headers = target.keys.of("inference")
        await warm_up(target.endpoint, target.warmup, self._stay_cold, headers=headers)
        self._warm, self._cold, self._wrong = True, "", ""
        self._around.changed(self._id)
        self._around.wake()

    def _stay_cold(self, reason: str, *, wrong: bool = False) -> None:
        self._cold, self._wrong = reason, reason if wrong else ""
        self._around.changed(self._id)
        if wrong:
            self._around.wake()

    async def _unload(self) -> None:
        target, said = self._target, self._set_unloaded
        headers = target.keys.of("model-repository")
        await Unloading(target.endpoint, headers, self._first, said).run()

    def _first(self, ready: Iterable[str]) -> str:
        return first(ready, None if self._activity is None else self._activity.seen)

    def _set_unloaded(self, unloaded: Sample[bool]) -> None:
        self._unloaded = unloaded
        self._around.changed(self._id)
        self._around.wake()

    def _caller(self) -> ControlCaller:
        """Return the caller that sends it the control calls that it lacks."""
        target = self._target
        return ControlCaller(
            endpoint=target.endpoint,
            keys=target.keys,
            load_within_s=target.load_within_s,
            clock=self._around.clock,
            progress=target.had,
            told=self._had,
        )

    def _asker(self) -> ReadinessAsker:
        """Return what asks its models whether they are ready."""
        headers = self._target.keys.of("health")
        return ReadinessAsker(self._target.endpoint, headers, self._askable, self._told_ready)

    def _askable(self) -> list[str]:
        """Return its READY Python models."""
        listed = self._models.value if isinstance(self._models, Known) else ()
        pythons = self._around.kinds.pythons
        return [one.name for one in listed if one.state == "READY" and one.name in pythons]

    def _told_ready(self) -> None:
        self._around.changed(self._id)
        self._around.wake()

    async def _ask_models(self) -> None:
        await self._readiness.run(self._around.interval_s)

    def _had(self, progress: CallProgress) -> None:
        """Take the control calls that it has had."""
        self._had_calls = progress
        for call in self._target.calls.calls:
            if call.kind is CallKind.LOAD:
                self._around.kinds.forget(call.model)  # its configuration may have changed
        self._around.looks.hasten(self._http)  # a load changes the index
        self._around.changed(self._id)
        self._around.wake()

    async def _test(self) -> None:
        """Send the present test request, then a newer one if there is one: one at a time."""
        again_s = self._around.interval_s
        while (test := self._target.test) is not None and test != self._sent:
            target, known, asked_s = self._target, self._around.tests, self._around.clock.now_s()
            headers = target.keys.of("inference")
            found = await try_out(target.endpoint, test, known, headers, again_s)
            if found is None and not known.is_unfit(test):
                await asyncio.sleep(again_s)  # the master lacked something, so it was not sent
                continue
            self._sent = test
            if found is None:
                self._around.kinds.forget(test.model)  # its configuration may have changed
                continue
            late = not found.ok and self._around.clock.now_s() - asked_s >= test.timeout_s
            self._tested = TestResult(
                asked_s, found.ok, found.said, test.number, test.model, late, found.proven
            )
            self._around.changed(self._id)
            self._around.wake()

    # -- metrics -----------------------------------------------------------------------------

    async def _look_metrics(self, line: PortWatcher) -> None:
        reply = await line.ask(_question("GET", "/metrics", self._target.endpoint.metrics))
        if reply.status != 200:  # noqa: PLR2004
            self._metrics_failed(ProbeFailure(f"/metrics answered {reply.status}"))
            return
        parser = MetricsParser(self.families.every)
        for start in range(0, len(reply.body), PIECE):
            parser.feed(reply.body[start : start + PIECE])
            if start:
                await asyncio.sleep(0)  # other instances answer meanwhile
        self._unread, self._unmeasured = 0, ""
        self._take(parser.close())

    def _take(self, seen: TritonMetrics) -> None:
        """Compute the signals from the metrics in *seen*."""
        families, now_s = self.families, self._around.clock.now_s()
        before, self._rows = self._rows, rows(seen, self._rows)
        self._activity = observe(
            self._activity, seen, self._rows, now_s, self._around.kinds.ensembles
        )
        signals = seen.signals()
        self._count(signals, before)
        signals["pending"], signals["executing"] = self._activity.pending, self._activity.executing
        signals |= {family: seen.total(family) for family in families.sums}
        for family in families.lines:
            signals |= seen.each(family)
        signals |= gpu_signals(seen)
        self._set_metrics(signals, now_s)

    def _count(self, signals: dict[str, Sample[float]], before: Rows | None) -> None:
        """Replace the known counters in *signals* by totals that never fall."""
        known = [name for name in _COUNTED if isinstance(signals[name], Known)]
        if self._rows is None:  # one counter cannot be read, and sums would be too small
            self._outcomes = {}
            unread = Unknown("another counter of this Triton cannot be read")
            signals |= dict.fromkeys(known, unread)
            return
        self._counted = self._around.totals.add(self._id, self._rows, fresh=self._target.fresh)
        if self._rows is not before or not self._outcomes:
            self._outcomes = outcomes(self._counted.models, self._rows.pending)
            self._as_read = summed(self._rows.of.values())
        total = self._counted.total
        signals |= {name: Known(getattr(total, _COUNTED[name])) for name in known}

    async def _look_statistics(self, line: PortWatcher) -> None:
        """Read the counters over the HTTP port, since the metrics cannot be read."""
        reply = await line.ask(self._ask("GET", "/v2/models/stats", "statistics"))
        try:
            if reply.status == 200:  # noqa: PLR2004
                self._take(parse_statistics(reply.body))
        except ValueError:
            return  # they stay unknown, like the metrics

    def _metrics_failed(self, failure: ProbeFailure) -> None:
        live = isinstance(self._live, Known) and self._live.value
        if not failure.own:  # a lack of the master's own proves nothing about the metrics
            self._unread = self._unread + 1 if live else 0
            if self._unmeasured and live:
                return  # the statistics replace them; if those fail too, the values grow old
            if self._unread >= UNMEASURED_AFTER:
                self._unmeasured = failure.reason
        unknown = Unknown(failure.reason)
        names = (*_SIGNALS, "executing", *self.families.every)
        self._around.totals.silent(self._id)
        self._outcomes = {}
        self._set_metrics(dict.fromkeys(names, unknown), self._around.clock.now_s())
        if failure.own:
            self._lack("metrics", failure.reason)
        if failure.gone and self._target.leaving and not self._gone:
            self._gone = failure.reason
            self._around.wake()

    def _set_metrics(self, signals: dict[str, Sample[float]], now_s: float) -> None:
        self._lacks.pop("metrics", None)
        self._metrics, self._metrics_s = signals, now_s
        self._around.changed(self._id)

    # -- tasks -------------------------------------------------------------------------------

    def _lost(self) -> None:
        """Look at both ports now, since an idle connection ended."""
        self._itself = False
        self._around.looks.hasten(self._http)
        self._around.looks.hasten(self._scrape)

    def _begin(self, name: str) -> None:
        if name in self._tasks or self._target.leaving:
            return
        work = {
            "warm": self._warm_up,
            "calls": self._calling.run,
            "unload": self._unload,
            "test": self._test,
            "ready": self._ask_models,
        }
        task = asyncio.get_running_loop().create_task(work[name](), name=f"{self._id} {name}")
        self._tasks[name] = task
        task.add_done_callback(functools.partial(self._ended, name))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Show an unexpected error as such, and begin the task again after an interval."""
        error = None if task.cancelled() else task.exception()
        if self._tasks.get(name) is not task:
            return
        if error is None:
            if name == "test":  # so that the next test request can be sent
                del self._tasks[name]
            return
        if name not in ("test", "ready"):  # they must not count against the instance
            self._stay_cold(f"error in the scraper: {error!r}")
        self._around.crashed(error)
        del self._tasks[name]
        loop = asyncio.get_running_loop()
        self._restarts[name] = loop.call_later(self._around.interval_s, self._begin, name)


@functools.lru_cache(maxsize=16384)
def _question(
    method: str, path: str, host: str, headers: tuple[tuple[str, str], ...] = ()
) -> bytes:
    return request(method, path, host, headers=headers)


def _other(reply: Reply, instance_id: str) -> str:
    """Return the id of another instance that answers in place of *instance_id*; '' for none."""
    # Two clusters that share a node may want the same port. Until the later Triton finds that it is
    # taken and ends, the other one's answers would pass for its own. TARN's runtimes start each
    # with its id as ``--id``. A name of another form is accepted, since other runtimes, or the
    # user's own ``id``, may give one.
    try:
        said = json.loads(reply.body)
    except ValueError:
        return ""
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(name, str) or name == instance_id or not _AN_ID.fullmatch(name):
        return ""
    return name


def _models(reply: Reply) -> Sample[tuple[ModelState, ...]]:
    if reply.status != 200:  # noqa: PLR2004
        return Unknown(f"the repository index answered {reply.status}")
    try:
        return Known(_index(reply.body))
    except ValueError as error:
        return Unknown(f"cannot read the repository index: {error}")


def _said_ready(
    models: Sample[tuple[ModelState, ...]], not_ready: frozenset[str]
) -> Sample[tuple[ModelState, ...]]:
    """Return *models* without those that say that they are *not_ready*."""
    if not not_ready or isinstance(models, Unknown):
        return models
    return attrs.evolve(models, value=_without_ready(models.value, not_ready))


@functools.lru_cache(maxsize=_INDEXES)
def _without_ready(
    models: tuple[ModelState, ...], not_ready: frozenset[str]
) -> tuple[ModelState, ...]:
    return tuple(
        attrs.evolve(one, state="UNAVAILABLE", reason=NOT_READY, versions=())
        if one.name in not_ready and one.state == "READY"
        else one
        for one in models
    )


def _stub_ended(instance_id: str, reply: Reply) -> StubEnded | None:
    ends = stubs_ended(reply.body)
    if not ends:
        return None
    last = exits.newest(ends)
    return StubEnded(instance_id, exits.stubs_ended(ends), last.at, last.model)


@functools.lru_cache(maxsize=_INDEXES)
def _index(body: bytes) -> tuple[ModelState, ...]:
    return parse_index(body)


def _may_warm(models: Sample[tuple[ModelState, ...]]) -> bool:
    """Say whether at least one model is READY and none is LOADING."""
    if isinstance(models, Unknown):
        return False
    states = {model.state for model in models.value}
    return "READY" in states and "LOADING" not in states


S = TypeVar("S")


def _aged(sample: Sample[S], age_s: float) -> Sample[S]:
    if age_s == 0 or isinstance(sample, Unknown):
        return sample
    return Known(sample.value, sample.age_s + age_s)
