"""A small world in which instances say that they are well and fail their users.

A second is a step. Requests come for each model at its rate and go to the view in equal parts;
each instance answers them as its `Fault` lets it: those of short models within the second, those of
long ones from a queue. Test requests are answered after a second or a little more, or not at all.
The runtime grants at once, a start takes three seconds and a stop one.

What is checked is read from the world and from what the master publishes (the view, the wish, the
events), never from the marks that the judgement itself makes.
"""

import heapq
import math
import random
from collections.abc import Mapping

import attrs

from tarn.control.scrape import tests_now
from tarn.domain import (
    Demand,
    Ended,
    Endpoint,
    Epoch,
    ExitStatus,
    Fact,
    Instance,
    Known,
    ModelState,
    Pending,
    Reading,
    Recovered,
    Running,
    Unknown,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.counters import CounterSet
from tarn.domain.events import Requester
from tarn.domain.facts import StubEnded
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import begin
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn.domain.spec import (
    ClusterSpec,
    DrainSpec,
    InstanceSpec,
    ModelsSpec,
    ReplicasSpec,
    ScalingSpec,
    UnwellSpec,
)
from tarn.domain.tick import Observation, runtime_wish, tick
from tarn.triton.test_requests import TestRequest
from tarn.triton.test_sources import KnownTests

MODEL = "echo"
STARTS_S, HANGS_S = 3.0, 6.0
LIVE = Known(value=True)
SAID = {
    "stalled": "no answer for 6 s",
    "busy": "no answer for 6 s",
    "failing": "Stub process is not healthy.",
    "dead": "Stub process is not healthy.",
    "reset": "connection reset",
}
WORST = ("slow", "busy", "failing", "dead", "reset", "stalled")


@attrs.define
class Fault:
    """What is wrong with an instance from one moment to another."""

    kind: str
    """``failing``; ``stalled``; ``dead``: its stub was killed, so it fails one request a second;
    ``slow``: ten times as slow; ``busy``: test requests wait too long in its queue; ``reset``: it
    cuts connections, and counts nothing."""
    from_s: float = 0.0
    until_s: float = float("inf")
    share: float = 1.0
    """Of the requests that fail."""
    model: str = ""
    """The only one that it touches; empty: all of them."""
    luck: bool = False
    """Test requests fail as often as others do; else all of them do."""

    def at(self, now_s: float, model: str) -> bool:
        return self.from_s <= now_s < self.until_s and self.model in ("", model)


@attrs.frozen
class Load:
    """Who asks for one model."""

    rate: float
    """Requests per second, of the whole fleet."""
    mean_s: float = 0.05
    sigma: float = 1.0
    """Of the lognormal time that one of more than a second takes."""
    batch: int = 1
    calls: str = ""
    """The model that an ensemble calls, once for each request: it fails where that one does."""


@attrs.define
class Counted:
    """One model in one instance."""

    completed: float = 0.0
    failed: float = 0.0
    compute_us: float = 0.0
    pending: int = 0
    ends: list[tuple[float, float]] = attrs.field(factory=list)
    """When those that execute end, and how long they took."""


@attrs.define
class Triton:
    """One instance as it really is."""

    id: str
    serves_s: float
    fault: Fault | None = None
    counted: dict[str, Counted] = attrs.field(factory=dict)
    tested: TestResult | None = None
    asked_s: float | None = None
    read: Reading | None = None
    """What was read last."""
    unread: tuple[float, str] = (0.0, "")
    """Until when it cannot be scraped, and how: ``old``, ``no metrics`` or ``silent``."""
    was_in_view: bool = False
    began_s: float = 0.0
    mib: tuple[float, float] = (100.0, 0.0)
    """What it takes from the beginning, and what it leaks each second."""

    @property
    def pending(self) -> int:
        return sum(one.pending for one in self.counted.values())

    def faults(self, now_s: float, world: "GrayWorld", model: str) -> Fault | None:
        """Return the worst that is wrong now."""
        called = world.loads[model].calls or model
        found = (f for f in (self.fault, world.everywhere) if f)
        some = [f for f in found if f.at(now_s, model) or f.at(now_s, called)]
        return max(some, key=lambda f: WORST.index(f.kind), default=None)

    def live(self, model: str, arrived: int, now_s: float, world: "GrayWorld") -> None:
        """Answer what came in the last second."""
        one = self.counted.setdefault(model, Counted())
        load, fault = world.loads[model], self.faults(now_s, world, model)
        came, one.pending = arrived + one.pending, 0
        kind = fault.kind if fault else ""
        if kind == "reset":
            return
        if kind == "stalled":
            one.pending = min(came, 500)
            one.ends = [(end_s + 1.0, took_s) for end_s, took_s in one.ends]
        elif kind == "dead":
            one.failed += min(came, 1)
            one.pending = min(max(0, came - 1), 500)
        elif fault and kind == "failing":
            bad = int(came * fault.share + world.chance.random())
            one.failed += bad
            self._compute(one, load, came - bad, world)
        else:
            bad = sum(world.chance.random() < world.usual for _ in range(came))
            one.failed += bad
            slow = attrs.evolve(load, mean_s=10.0 * load.mean_s)
            self._compute(one, slow if kind == "slow" else load, came - bad, world)

    def _compute(self, one: Counted, load: Load, came: int, world: "GrayWorld") -> None:
        now_s = world.now_s
        if load.mean_s < 1.0:
            one.completed += came
            one.compute_us += came * load.mean_s * 1e6
            return
        while one.ends and one.ends[0][0] <= now_s:
            one.completed += 1
            one.compute_us += heapq.heappop(one.ends)[1] * 1e6
        slots = max(1, math.ceil(2 * load.rate * load.mean_s / world.size))
        starts = max(0, min(came, slots - len(one.ends)))
        for _ in range(starts):
            drawn = world.chance.lognormvariate(-(load.sigma**2) / 2, load.sigma)
            took_s = load.mean_s * min(drawn, 1000.0)
            heapq.heappush(one.ends, (now_s + took_s, took_s))
        one.pending = min(came - starts, 500)

    def answer(self, now_s: float, world: "GrayWorld", model: str) -> None:
        """Answer a test request for *model* that was sent, or let a new one come."""
        if not model or not world.tests:
            self.asked_s = None
            return
        if self.asked_s is None:
            self.asked_s = now_s
            return
        fault = self.faults(now_s, world, model)
        kind = fault.kind if fault else ""
        late = kind in ("stalled", "busy")
        if now_s - self.asked_s < (HANGS_S if late else 1.0):
            return
        said = SAID.get(kind, "")
        if fault and fault.luck and kind == "failing" and world.chance.random() >= fault.share:
            said = ""
        number = 1 if self.tested is None else self.tested.number + 1
        self.tested = TestResult(self.asked_s, not said, said, number, MODEL, late)
        world.tests_sent.append(self.asked_s)
        self.asked_s = now_s


class GrayWorld:
    """Its master is the very tick of the product; it counts what was replaced and ejected."""

    def __init__(
        self,
        seed: int,
        size: int,
        unwell: UnwellSpec | None = None,
        loads: Mapping[str, Load] | None = None,
    ) -> None:
        self.chance = random.Random(seed)
        self.size, self.usual = size, 0.01
        self.loads = dict(loads or {MODEL: Load(40.0 * size)})
        self.everywhere: Fault | None = None
        self.heirs: Fault | None = None
        """What is wrong with each instance that starts."""
        self.mib = (100.0, 0.0)
        self.tests = True
        self.tests_sent: list[float] = []
        """When each test request was sent that was answered since."""
        self.hints: list[tuple[str, tuple[str, ...]]] = []
        """(who, the instances that they say fail; none: all), said each second."""
        self.counted = True
        """Its counters can be read."""
        self.now_s = 1000.0
        spec = ClusterSpec(
            "w",
            ModelsSpec("/models"),
            replicas=ReplicasSpec(min=0, max=2 * size, initial=size),
            drain=DrainSpec(timeout_s=300.0, quiesce_s=1.0),
            instance=InstanceSpec(start_timeout_s=60.0, unwell=unwell or UnwellSpec()),
            scaling=ScalingSpec(cooldown_s=60.0),
        )
        self.rules = Rules(spec, "hash")
        self.fleet: Fleet = begin(
            Epoch(1, 1), None, Recovered(()), self.rules, now_s=self.now_s, at=self.now_s
        )
        self.tritons: dict[str, Triton] = {}
        self.ended: dict[str, Ended] = {}
        self.stubs: dict[str, str] = {}
        """What the runtime says of processes of models that ended."""
        self.lost = 0.0
        self.stopped: dict[str, float] = {}
        """Who was told to stop, and when: the size never changes here, so each was replaced."""
        self.log: list[tuple[float, str, str, str]] = []
        self.known = KnownTests([TestRequest(model, b"{}") for model in self.loads])
        self._models = Known(tuple(ModelState(model, "READY") for model in sorted(self.loads)))
        self._burst = 1.0

    @property
    def replaced(self) -> list[str]:
        """The ids that were replaced because they were unwell."""
        return sorted(
            {
                subject
                for _, code, subject, said in self.log
                if code == "TARN-1142" and "until a replacement" not in said
            }
        )

    def count(self, code: str) -> int:
        return self.fleet.event_totals.get(code, 0)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()
            self.check()

    def step(self) -> None:
        """Let a second pass."""
        self.now_s += 1.0
        members = [m.instance_id for m in self.fleet.view.members]
        self._hear()
        sent = tests_now(self.fleet, self._readings(), self.known, self.now_s, 1.0)
        wants = {id_: test.model for id_, test in sent.items()}
        self._burst = self.chance.choice((0.25, 0.5, 1.0, 1.0, 1.0, 4.0))
        self._pour(members)
        for triton in self.tritons.values():
            triton.answer(self.now_s, self, wants.get(triton.id, ""))
        before = self.fleet.event_totals
        seen = Observation(self.now_s, self.now_s, self.facts(), self._readings())
        self.fleet = tick(self.fleet, seen, self.rules)
        if self.fleet.event_totals is not before:
            for event in self.fleet.events[-10:]:
                if event.last == self.now_s and event.code > "TARN-1119":
                    self.log.append((self.now_s, event.code, event.subject, event.message))
        self._obey()

    def _hear(self) -> None:
        """Let clients say what they say."""
        for who, ids in self.hints:
            said = tuple((id_, MODEL, 1) for id_ in ids or tuple(self.tritons))
            asker = Requester("r", user=who)
            word = Demand("c", 0, 0, said)
            now_s = self.now_s
            some, _ = apply_command(
                self.fleet, word, self.rules, now_s=now_s, at=now_s, asker=asker
            )
            self.fleet = some

    def check(self) -> None:
        """Hold the bound of the view: of those that answer and do not leave, half at least."""
        members = {m.instance_id for m in self.fleet.view.members}
        for id_ in members & self.tritons.keys():
            self.tritons[id_].was_in_view = True
        leaving = {i.id for i in self.fleet.instances if i.state == "draining"}
        there = [t for t in self.tritons.values() if t.was_in_view and t.id not in leaving]
        answer = [t for t in there if not self._is_silent(t)]
        out = [t.id for t in answer if t.id not in members]
        assert len(out) <= len(there) // 2, (out, self.log[-5:])
        assert not answer or members, self.log[-5:]

    def _is_silent(self, triton: Triton) -> bool:
        """Say whether it does not answer, or did not a moment ago."""
        return triton.unread[1] == "silent" and self.now_s <= triton.unread[0] + 2.0

    def is_sick(self, triton: Triton) -> bool:
        """Say whether it fails its users now."""
        some = (triton.faults(self.now_s, self, model) for model in self.loads)
        return any(f is not None and f.kind != "slow" for f in some)

    def crash(self, id_: str) -> None:
        """Let the process end by itself: what it held is lost."""
        self.lost += self.tritons.pop(id_).pending
        self.ended[id_] = Ended(id_, "hash", ExitStatus("killed by signal 9", -9))

    def _pour(self, members: list[str]) -> None:
        """Let the requests of a second come, each member its part; mostly about the rate."""
        came = {model: self._came(load, members) for model, load in self.loads.items()}
        for model, load in self.loads.items():
            if load.calls:
                called = came[load.calls]
                came[load.calls] = {id_: called[id_] + more for id_, more in came[model].items()}
        for triton in self.tritons.values():
            if triton.serves_s <= self.now_s:
                for model, parts in came.items():
                    triton.live(model, parts.get(triton.id, 0), self.now_s, self)

    def _came(self, load: Load, members: list[str]) -> dict[str, int]:
        mean = load.rate * self._burst
        count = max(0, round(self.chance.gauss(mean, mean**0.5)))
        if mean < 1.0:
            count = int(self.chance.random() < mean)
        each, more = divmod(count, len(members)) if members else (0, 0)
        first = self.chance.randrange(len(members)) if members else 0
        parts = dict.fromkeys(members, each)
        for place in range(more):
            parts[members[(first + place) % len(members)]] += 1
        return parts

    def facts(self) -> tuple[Fact, ...]:
        """Return what the runtime says."""
        running = [
            Running(
                t.id,
                "hash",
                f"c{t.id}",
                "h",
                _endpoint(t.id),
                started_at=t.began_s,
                rss_mib=int(t.mib[0] + t.mib[1] * (self.now_s - t.began_s)) // 16 * 16,
            )
            for t in self.tritons.values()
        ]
        asked = [Pending(i.id, "hash") for i in self.fleet.instances if self._is_new(i)]
        stubs = [StubEnded(id_, said, self.now_s, MODEL) for id_, said in self.stubs.items()]
        return (*running, *asked, *self.ended.values(), *stubs)

    def _is_new(self, instance: Instance) -> bool:
        return instance.id not in self.tritons and instance.id not in self.ended

    def _readings(self) -> dict[str, Reading]:
        return {t.id: self._reading(t) for t in self.tritons.values()}

    def _reading(self, triton: Triton) -> Reading:
        if triton.serves_s > self.now_s:
            return Reading(triton.id, self.now_s, gone="connection refused")
        until_s, how = triton.unread
        if triton.read is not None and self.now_s < until_s:
            if how == "silent":
                late = Unknown("timed out")
                return attrs.evolve(triton.read, taken_s=self.now_s, live=late, models=late)
            if how == "no metrics":
                return attrs.evolve(
                    triton.read, taken_s=self.now_s, metrics={}, outcomes={}, tested=triton.tested
                )
            return attrs.evolve(triton.read, tested=triton.tested)
        triton.read = self._scraped(triton)
        return triton.read

    def _scraped(self, triton: Triton) -> Reading:
        outcomes = {
            model: RequestCounts(
                CounterSet(
                    one.completed, one.failed, compute_us=one.compute_us,
                    inferences=one.completed * self.loads[model].batch, executions=one.completed,
                ),
                one.pending,
            )
            for model, one in triton.counted.items()
        }  # fmt: skip
        pending = triton.pending
        metrics = {
            "pending": Known(float(pending)),
            "executing": Known(1.0 if pending else 0.0),
            "requests_total": Known(sum(one.completed for one in triton.counted.values())),
            "failures_total": Known(sum(one.failed for one in triton.counted.values())),
        }
        return Reading(
            triton.id, self.now_s, LIVE, "", self._models,
            metrics=metrics if self.counted else {}, tested=triton.tested,
            outcomes=outcomes if self.counted else {},
        )  # fmt: skip

    def _obey(self) -> None:
        wish = runtime_wish(self.fleet, (), self.fleet.next_number)
        named = {id_ for id_, _ in wish.want} | wish.stop
        self.ended = {id_: end for id_, end in self.ended.items() if id_ in named}
        for id_, _ in sorted(wish.want):
            if id_ not in self.tritons and id_ not in self.ended:
                fault = None if self.heirs is None else attrs.evolve(self.heirs)
                self.tritons[id_] = Triton(
                    id_, self.now_s + STARTS_S, fault, began_s=self.now_s, mib=self.mib
                )
        for id_ in wish.stop & self.tritons.keys():
            self.lost += self.tritons.pop(id_).pending
            self.stopped[id_] = self.now_s
            self.ended[id_] = Ended(id_, "hash", ExitStatus("stopped", 0, expected=True))


def _endpoint(id_: str) -> Endpoint:
    port = 3 * int(id_.rpartition("-")[2])
    return Endpoint("h", port, port + 1, port + 2)
