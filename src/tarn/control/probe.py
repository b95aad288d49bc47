"""Everything that is looked at on one instance, put together as one `Reading`."""

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

from tarn.control.control_caller import ControlCaller
from tarn.control.http1 import MalformedReply, Reply, request
from tarn.control.port_watcher import PortWatcher, ProbeFailure, ProbeSchedule
from tarn.control.totals import Totals
from tarn.control.unloading import Unloading
from tarn.control.warmup import WarmupRequest, try_out, warm_up
from tarn.domain import Endpoint, Known, ModelState, Reading, Sample, StubEnded, Unknown
from tarn.domain.control_calls import NO_CALLS, NO_PROGRESS, CallProgress, WantedCalls
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn.interfaces import Clock
from tarn.triton import exits
from tarn.triton.activity import Activity, observe
from tarn.triton.index import MOST_BYTES, parse_index, stubs_ended
from tarn.triton.metrics import PIECE, MetricsParser, TritonMetrics, gpu_signals
from tarn.triton.model_counters import Rows, rows
from tarn.triton.restricted import NO_KEYS, Keys
from tarn.triton.statistics import parse_statistics
from tarn.triton.test_requests import TestRequest
from tarn.triton.test_sources import KnownTests
from tarn.triton.unload import first

__all__ = ["Families", "Probe", "ProbeContext", "ProbeTarget"]

KINDS_A_LOOK = 5
"""Models of which one look asks what they are, so that health is not held up."""
KIND_AGAIN_S = 60.0
"""After this a model is asked again what it is, where no answer told it."""
UNMEASURED_AFTER = 5
"""Looks at the metrics in a row that bring nothing, until the statistics are asked for."""
RENEW_AFTER = 5
"""Looks over one HTTP connection: what keeps new clients out is seen within so many intervals."""

_MOST_WORD = 1 << 16
"""Bytes of what a server says of itself."""
_INDEXES = 16
"""Indexes whose models are kept: equal instances answer the same bytes, second after second."""
_AN_ID = re.compile(r".+-[0-9]{4,}")
_SIGNALS = tuple(TritonMetrics({}).signals())
_LEAVING = Unknown("not asked any more: the instance is leaving")


@attrs.frozen
class ProbeTarget:
    """What to look at, and what to do there."""

    endpoint: Endpoint
    warmup: tuple[WarmupRequest, ...] = ()
    unload: bool = False
    """True from the moment its last request is to be proven: every model is unloaded."""
    leaving: bool = False
    """True from the moment its stop is posted: its HTTP port is let go. A Triton that got SIGTERM
    waits for each open HTTP connection, idle ones too, until its exit timeout (seen on 2.51: 30 s
    with our connection held, 3 s without). The metrics port does not count, so it goes on being
    watched, and tells when the process has ended."""
    keys: Keys = NO_KEYS
    """What opens the restricted parts of its API."""
    fresh: bool = True
    """It was started under this master: all that its counters say is new."""
    calls: WantedCalls = NO_CALLS
    """The control calls that it must have had; none while it leaves."""
    had: CallProgress = attrs.field(default=NO_PROGRESS, eq=False)
    """Which of them it had when this target was made."""
    load_within_s: float = 900.0
    """How long one load may take."""
    test: TestRequest | None = None
    """What tries out whether it really fails its users; sent once. None: it is not suspected."""


@attrs.frozen
class Families:
    """Families of Triton's metrics to keep besides the usual ones."""

    sums: tuple[str, ...] = ()
    """Those of which the sum is enough."""
    lines: tuple[str, ...] = ()
    """Those of which every line is kept, as `TritonMetrics.each` names it."""

    @property
    def every(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.sums, *self.lines)


class EnsembleRegistry:
    """Which models are ensembles: equal instances are asked once, until one of them says it."""

    def __init__(self) -> None:
        self.ensembles: set[str] = set()
        self._known: set[str] = set()
        self._asked_s: dict[str, float] = {}

    def unknown(self, models: Iterable[ModelState], now_s: float) -> Iterator[str]:
        """Yield each READY model that is to be asked now, and note that it is."""
        for name in (model.name for model in models if model.state == "READY"):
            asked_s = self._asked_s.get(name)
            if name in self._known or (asked_s is not None and now_s - asked_s < KIND_AGAIN_S):
                continue
            self._asked_s[name] = now_s
            yield name

    def add(self, name: str, reply: Reply) -> dict[str, object]:
        """Take the configuration of the model *name*, and return it; empty where there is none."""
        if reply.status != 200:  # noqa: PLR2004
            return {}
        self._known.add(name)
        self._asked_s.pop(name, None)
        config = _config(reply)
        if config.get("platform") == "ensemble":
            self.ensembles.add(name)
        return config

    def forget(self, name: str) -> None:
        """Ask about the model *name* again: it may have another configuration by now."""
        self._known.discard(name)


@attrs.frozen
class ProbeContext:
    """What all probes of one scraper share."""

    clock: Clock
    pace: ProbeSchedule
    families: Families
    changed: Callable[[str], None]
    """The reading of the instance with this id is new."""
    wake: Callable[[], None]
    """Something changed that the control thread should not wait for."""
    crashed: Callable[[BaseException], None]
    """A task ended by an error of ours."""
    kinds: EnsembleRegistry = attrs.field(factory=EnsembleRegistry)
    totals: Totals = attrs.field(factory=Totals)
    """What each model did, over all of them."""
    tests: KnownTests = attrs.field(factory=KnownTests)
    """Which test requests there are, and what is known of them."""


class Probe:
    """Looks at one instance with two port watchers, one for each port; on the loop's thread only.

    The parts stand for themselves: a metrics port that hangs delays no health, and the other way.
    """

    _had_calls: CallProgress | None = None
    _sent: TestRequest | None = None
    _tested: TestResult | None = None

    def __init__(self, instance_id: str, target: ProbeTarget, around: ProbeContext) -> None:
        self._id, self._target, self._around = instance_id, target, around
        self._live: Sample[bool] = Unknown("not probed yet")
        self._models: Sample[tuple[ModelState, ...]] = Unknown("not probed yet")
        self._gone = ""
        self._stub_ended: StubEnded | None = None
        self._warm, self._cold = not target.warmup, ""
        self._unloaded: Sample[bool] | None = None
        self._metrics: dict[str, Sample[float]] = {}
        self._activity: Activity | None = None
        self._rows: Rows | None = None
        self._outcomes: Mapping[str, RequestCounts] = {}
        self._unread = 0
        """Looks in a row at the metrics that brought nothing while the instance was live."""
        self._unmeasured = ""
        """Why its metrics are not read, and its statistics are asked for instead."""
        self._answered_live = False
        self._itself = False
        """The server there gave this instance's id, since it was last lost."""
        self._http_s = self._metrics_s = around.clock.now_s()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._restarts: dict[str, asyncio.TimerHandle] = {}
        self._calling = self._caller()
        self._lacks: dict[str, str] = {}  # by line: what we lacked at its newest look
        self._http, self._scrape = self._lines()

    def _lines(self) -> tuple[PortWatcher, PortWatcher]:
        """Return one for health, models and what is sent, and one for metrics."""
        endpoint, pace = self._target.endpoint, self._around.pace
        http = PortWatcher(
            host=endpoint.host,
            port=endpoint.http_port,
            pace=pace,
            look=self._look_http,
            failed=self._http_failed,
            lost=self._lost,
            renew_after=RENEW_AFTER,
        )
        scrape = PortWatcher(
            host=endpoint.host,
            port=endpoint.metrics_port,
            pace=attrs.evolve(pace, phase_s=pace.phase_s + pace.interval_s / 2),
            look=self._look_metrics,
            failed=self._metrics_failed,
            lost=self._lost,
        )
        return http, scrape

    @property
    def target(self) -> ProbeTarget:
        """What it looks at."""
        return self._target

    def start(self) -> None:
        """Begin to look."""
        self._begin("metrics")
        self._begin("http")
        self.set_target(self._target)

    def set_target(self, target: ProbeTarget) -> None:
        """Look at the same place for what *target* says from now on."""
        left = target.leaving is not self._target.leaving
        self._target = target
        if left:
            self._leave(leaving=target.leaving)
        self._calling.want(target.calls)
        if target.calls.number:
            self._begin("calls")
        if target.unload and not target.leaving and self._unloaded is None:
            self._begin("unload")
        if target.test is not None and target.test != self._sent:
            self._begin("test")

    def _leave(self, *, leaving: bool) -> None:
        """Let the HTTP port go, or take it up again."""
        if not leaving:
            self._begin("http")
            return
        for name in ("http", "warm", "calls", "unload", "test"):
            task = self._tasks.pop(name, None)
            if task is not None:
                task.cancel()
        self._http.close()
        self._http.lack = ""
        self._lacks.pop("http", None)
        self._live, self._models = _LEAVING, _LEAVING
        self._around.changed(self._id)

    def close(self) -> None:
        """Stop looking; the connections end at once."""
        tasks, self._tasks = tuple(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        for timer in self._restarts.values():
            timer.cancel()
        self._http.close()
        self._scrape.close()
        self._around.totals.forget(self._id)

    def reading(self) -> Reading:
        """Return what is known now; the older part is aged to the newer one's moment."""
        taken_s = max(self._http_s, self._metrics_s)
        http_age_s, metrics_age_s = taken_s - self._http_s, taken_s - self._metrics_s
        return Reading(
            self._id,
            taken_s,
            live=_aged(self._live, http_age_s),
            gone=self._gone,
            blind=next(iter(self._lacks.values()), "") or self._http.lack,
            models=_aged(self._models, http_age_s),
            warm=self._warm,
            cold=self._cold,
            unloaded=self._unloaded,
            metrics={name: _aged(s, metrics_age_s) for name, s in self._metrics.items()},
            outcomes=self._outcomes,
            unmeasured=self._unmeasured,
            calls=self._had_calls,
            stub_ended=self._stub_ended,
            tested=self._tested,
        )

    # -- health, models, warm-up -------------------------------------------------------------

    async def _look_http(self, line: PortWatcher) -> None:
        self._answered_live = False
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
            self._itself = True
        index = self._ask("POST", "/v2/repository/index", "model-repository")
        reply = await line.ask(index, MOST_BYTES)
        models = _models(reply)
        if isinstance(models, Known) and self._stub_ended != (told := _stub_ended(self._id, reply)):
            self._stub_ended = told
            self._around.wake()
        self._set_http(live, models, gone="")
        if isinstance(models, Known):
            self._calling.seen(models.value)
        await self._ask_kinds(line, models)
        if self._unmeasured:
            await self._look_statistics(line)
        if not self._warm and "warm" not in self._tasks and _may_warm(self._models):
            self._begin("warm")

    async def _ask_kinds(self, line: PortWatcher, models: Sample[tuple[ModelState, ...]]) -> None:
        """Ask which models are ensembles, some in each look; a missing answer is not an error."""
        kinds, now_s = self._around.kinds, self._around.clock.now_s()
        unknown = kinds.unknown(models.value if isinstance(models, Known) else (), now_s)
        with contextlib.suppress(OSError, MalformedReply):  # a TimeoutError is an OSError
            async with asyncio.timeout(self._around.pace.timeout_s / 4):
                for name in itertools.islice(unknown, KINDS_A_LOOK):
                    path = f"/v2/models/{quote(name, safe='')}/config"
                    reply = await line.ask(self._ask("GET", path, "model-config"))
                    if config := kinds.add(name, reply):
                        self._around.tests.learn(name, config)

    def _ask(self, method: str, path: str, part: str) -> bytes:
        """Return the question with the key of *part*, which goes nowhere that needs none."""
        target = self._target
        return _question(method, path, target.endpoint.http, target.keys.of(part))

    def _http_failed(self, failure: ProbeFailure) -> None:
        if failure.own:  # what it said last stands, for nothing else is known
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
        self._warm, self._cold = True, ""
        self._around.changed(self._id)
        self._around.wake()

    def _stay_cold(self, reason: str) -> None:
        self._cold = reason
        self._around.changed(self._id)

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
        """Return what sends it the control calls that it has not had."""
        target = self._target
        return ControlCaller(
            endpoint=target.endpoint,
            keys=target.keys,
            load_within_s=target.load_within_s,
            clock=self._around.clock,
            progress=target.had,
            told=self._had,
        )

    def _had(self, progress: CallProgress) -> None:
        """Tell which control calls it has had; the index has changed with a load."""
        self._had_calls = progress
        self._http.alarm.ring()
        self._around.changed(self._id)
        self._around.wake()

    async def _test(self) -> None:
        """Send the test request of now, then the one that has come meanwhile: one at a time."""
        again_s = self._around.pace.interval_s
        while (test := self._target.test) is not None and test != self._sent:
            target, known, asked_s = self._target, self._around.tests, self._around.clock.now_s()
            headers = target.keys.of("inference")
            found = await try_out(target.endpoint, test, known, headers, again_s)
            if found is None and not known.is_unfit(test):
                await asyncio.sleep(again_s)  # for a lack of our own, so it was not asked
                continue
            self._sent = test
            if found is None:
                self._around.kinds.forget(test.model)  # its configuration may be another one
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
        parser = MetricsParser(self._around.families.every)
        for start in range(0, len(reply.body), PIECE):
            parser.feed(reply.body[start : start + PIECE])
            if start:
                await asyncio.sleep(0)  # other instances answer meanwhile
        self._unread, self._unmeasured = 0, ""
        self._take(parser.close())

    def _take(self, seen: TritonMetrics) -> None:
        """Make the signals of what was *seen*."""
        families, now_s = self._around.families, self._around.clock.now_s()
        self._activity = observe(self._activity, seen, now_s, self._around.kinds.ensembles)
        signals = seen.signals()
        signals["pending"], signals["executing"] = self._activity.pending, self._activity.executing
        signals |= {family: seen.total(family) for family in families.sums}
        for family in families.lines:
            signals |= seen.each(family)
        signals |= gpu_signals(seen)
        self._rows = rows(seen, self._rows)
        if self._rows is not None:
            self._around.totals.add(self._id, self._rows.of, fresh=self._target.fresh)
        self._outcomes = {} if self._rows is None else self._rows.outcomes
        self._set_metrics(signals, now_s)

    async def _look_statistics(self, line: PortWatcher) -> None:
        """Read the counters over the HTTP port, where the metrics are not to be had."""
        reply = await line.ask(self._ask("GET", "/v2/models/stats", "statistics"))
        try:
            if reply.status == 200:  # noqa: PLR2004
                self._take(parse_statistics(reply.body))
        except ValueError:
            return  # they stay unknown, as the metrics are

    def _metrics_failed(self, failure: ProbeFailure) -> None:
        live = isinstance(self._live, Known) and self._live.value
        if not failure.own:  # what the master lacks says nothing about its metrics
            self._unread = self._unread + 1 if live else 0
            if self._unmeasured and live:
                return  # the statistics stand for them; where those fail too, they grow old
            if self._unread >= UNMEASURED_AFTER:
                self._unmeasured = failure.reason
        unknown = Unknown(failure.reason)
        names = (*_SIGNALS, "executing", *self._around.families.every)
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
        """An idle connection ended: look at both ports now."""
        self._itself = False
        self._http.alarm.ring()
        self._scrape.alarm.ring()

    def _begin(self, name: str) -> None:
        if name in self._tasks or (self._target.leaving and name != "metrics"):
            return
        work = {
            "http": self._http.run,
            "metrics": self._scrape.run,
            "warm": self._warm_up,
            "calls": self._calling.run,
            "unload": self._unload,
            "test": self._test,
        }
        task = asyncio.get_running_loop().create_task(work[name](), name=f"{self._id} {name}")
        self._tasks[name] = task
        task.add_done_callback(functools.partial(self._ended, name))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Show an error of ours as what it is, and begin again after an interval."""
        error = None if task.cancelled() else task.exception()
        if self._tasks.get(name) is not task:
            return
        if error is None:
            if name == "test":  # the next one may come
                del self._tasks[name]
            return
        failure = ProbeFailure(f"error in the scraper: {error!r}")
        failed = {"http": self._http_failed, "metrics": self._metrics_failed}
        if name in failed:
            failed[name](failure)
        elif name != "test":  # of that nothing is said, so nothing is done to the instance
            self._stay_cold(failure.reason)
        self._around.crashed(error)
        del self._tasks[name]
        loop = asyncio.get_running_loop()
        self._restarts[name] = loop.call_later(self._around.pace.interval_s, self._begin, name)


@functools.lru_cache(maxsize=16384)
def _question(
    method: str, path: str, host: str, headers: tuple[tuple[str, str], ...] = ()
) -> bytes:
    return request(method, path, host, headers=headers)


def _other(reply: Reply, instance_id: str) -> str:
    """Return the id of another instance that answers in place of *instance_id*; '' for none.

    Two clusters that share a node may want one port; until the later Triton finds it taken and
    ends, the other one would pass for it. Our runtimes start each with its id as ``--id``; who is
    called otherwise is not doubted: a runtime, or a user's own ``id``, may do without.
    """
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


def _stub_ended(instance_id: str, reply: Reply) -> StubEnded | None:
    ends = stubs_ended(reply.body)
    if not ends:
        return None
    last = exits.newest(ends)
    return StubEnded(instance_id, exits.stubs_ended(ends), last.at, last.model)


@functools.lru_cache(maxsize=_INDEXES)
def _index(body: bytes) -> tuple[ModelState, ...]:
    return parse_index(body)


def _config(reply: Reply) -> dict[str, object]:
    """Return a model's configuration; empty where it is not given."""
    try:
        said = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


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
