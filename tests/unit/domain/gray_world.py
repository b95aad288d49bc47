"""A small world in which instances say that they are well and fail their users.

A second is a step. Requests for one model come at a rate and go to the view in equal parts; each
instance answers them as its `Fault` lets it. Test requests are answered after a second, or not at
all. The runtime grants at once, a start takes three seconds and a stop one.
"""

import random

import attrs

from tarn.control.aim import tests_now
from tarn.domain import (
    Asked,
    Demand,
    Ended,
    Endpoint,
    Epoch,
    ExitStatus,
    Fact,
    Instance,
    Known,
    ModelState,
    Reading,
    Recovered,
    Running,
)
from tarn.domain.events import Asker
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import begin
from tarn.domain.obey import obey
from tarn.domain.outcomes import RequestCounts, Tested
from tarn.domain.spec import (
    ClusterSpec,
    DrainSpec,
    InstanceSpec,
    ModelsSpec,
    ReplicasSpec,
    ScalingSpec,
    UnwellSpec,
)
from tarn.domain.tick import Seen, tick
from tarn.domain.wishes import runtime_wish
from tarn.triton.test_requests import TestRequest
from tarn.triton.test_sources import KnownTests

MODEL = "echo"
STARTS_S, HANGS_S = 3.0, 6.0
SAID = {
    "stalled": "no answer for 6 s",
    "busy": "no answer for 6 s",
    "failing": "Stub process is not healthy.",
    "reset": "connection reset",
}
LIVE, MODELS = Known(value=True), Known((ModelState(MODEL, "READY"),))


@attrs.define
class Fault:
    """What is wrong with an instance from one moment to another."""

    kind: str
    """``failing``, ``stalled`` or ``slow``; ``busy``: test requests wait too long in its queue;
    ``reset``: it cuts connections, and counts nothing."""
    from_s: float = 0.0
    until_s: float = float("inf")
    share: float = 1.0
    """Of the requests that fail."""

    def at(self, now_s: float) -> bool:
        return self.from_s <= now_s < self.until_s


@attrs.define
class Triton:
    """One instance as it really is."""

    id: str
    serves_s: float
    fault: Fault | None = None
    completed: float = 0.0
    failed: float = 0.0
    compute_us: float = 0.0
    pending: int = 0
    tested: Tested | None = None
    asked_s: float | None = None
    stopped_s: float | None = None

    def live(self, arrived: int, now_s: float, world: "GrayWorld") -> None:
        """Answer what came in the last second."""
        fault = next((f for f in (self.fault, world.everywhere) if f and f.at(now_s)), None)
        came, self.pending = arrived + self.pending, 0
        match fault and fault.kind:
            case "stalled":
                self.pending = min(came, 500)
                return
            case "reset":
                return
            case "failing":
                assert fault is not None
                bad = int(came * fault.share)
            case _:
                bad = sum(world.chance.random() < world.usual for _ in range(came))
        self.failed += bad
        self.completed += came - bad
        times = 10.0 if fault and fault.kind == "slow" else 1.0
        self.compute_us += (came - bad) * world.service_s * times * 1e6

    def answer(self, now_s: float, world: "GrayWorld", *, wanted: bool) -> None:
        """Answer a test request that was sent, or let a new one come."""
        if not wanted or not world.tests:
            self.asked_s = None
            return
        if self.asked_s is None:
            self.asked_s = now_s
            return
        fault = next((f for f in (self.fault, world.everywhere) if f and f.at(now_s)), None)
        kind = fault.kind if fault else ""
        late = kind in ("stalled", "busy")
        if now_s - self.asked_s < (HANGS_S if late else 1.0):
            return
        said = SAID.get(kind, "")
        number = 1 if self.tested is None else self.tested.number + 1
        self.tested = Tested(self.asked_s, not said, said, number, MODEL, late)
        world.tests_sent.append(self.asked_s)
        self.asked_s = now_s


class GrayWorld:
    """Its master is the very tick of the product; it counts what was replaced and ejected."""

    def __init__(self, seed: int, size: int, unwell: UnwellSpec | None = None) -> None:
        self.chance = random.Random(seed)
        self.rate, self.service_s, self.usual = 40.0 * size, 0.05, 0.01
        self.everywhere: Fault | None = None
        self.heirs: Fault | None = None
        """What is wrong with each instance that starts."""
        self.tests = True
        self.known = KnownTests([TestRequest(MODEL, b"{}")])
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
        self.lost = 0.0
        self.log: list[tuple[float, str, str, str]] = []

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
        arrived = self._arrived() // len(members) if members else 0
        self._hear()
        wants = tests_now(self.fleet, self._readings(), self.known, self.now_s, 1.0)
        for triton in self.tritons.values():
            triton.live(arrived if triton.id in members else 0, self.now_s, self)
            triton.answer(self.now_s, self, wanted=triton.id in wants)
        before = self.fleet.event_totals
        seen = Seen(self.now_s, self.now_s, self._facts(), self._readings())
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
            asker = Asker("r", user=who)
            word = Demand("c", 0, 0, said)
            now_s = self.now_s
            some, _ = obey(self.fleet, word, self.rules, now_s=now_s, at=now_s, asker=asker)
            self.fleet = some

    def check(self) -> None:
        """Hold the bound of the view."""
        ready = [i for i in self.fleet.instances if i.state == "ready"]
        ejected = [i for i in ready if i.unwell is not None and i.unwell.ejected]
        assert len(ejected) <= len(ready) // 2, self.log[-5:]
        assert not ready or any(i.in_view for i in ready), self.log[-5:]

    def _arrived(self) -> int:
        """Return bursty arrivals: mostly about the rate, at times four times as many."""
        mean = self.rate * self.chance.choice((0.25, 0.5, 1.0, 1.0, 1.0, 4.0))
        return max(0, round(self.chance.gauss(mean, mean**0.5)))

    def _facts(self) -> tuple[Fact, ...]:
        running = [
            Running(t.id, "hash", f"c{t.id}", "h", _endpoint(t.id)) for t in self.tritons.values()
        ]
        asked = [Asked(i.id, "hash") for i in self.fleet.instances if self._is_new(i)]
        return (*running, *asked, *self.ended.values())

    def _is_new(self, instance: Instance) -> bool:
        return instance.id not in self.tritons and instance.id not in self.ended

    def _readings(self) -> dict[str, Reading]:
        return {t.id: self._reading(t) for t in self.tritons.values()}

    def _reading(self, triton: Triton) -> Reading:
        if triton.serves_s > self.now_s:
            return Reading(triton.id, self.now_s, gone="connection refused")
        outcome = RequestCounts(
            triton.completed, triton.failed, triton.pending, None,
            triton.compute_us, triton.completed, triton.completed,
        )  # fmt: skip
        metrics = {
            "pending": Known(float(triton.pending)),
            "executing": Known(1.0 if triton.pending else 0.0),
            "requests_total": Known(triton.completed),
            "failures_total": Known(triton.failed),
        }
        return Reading(
            triton.id, self.now_s, LIVE, "", MODELS,
            metrics=metrics if self.counted else {}, tested=triton.tested,
            outcomes={MODEL: outcome} if self.counted else {},
        )  # fmt: skip

    def _obey(self) -> None:
        wish = runtime_wish(self.fleet, (), self.fleet.next_number)
        named = {id_ for id_, _ in wish.want} | wish.stop
        self.ended = {id_: end for id_, end in self.ended.items() if id_ in named}
        for id_, _ in sorted(wish.want):
            if id_ not in self.tritons and id_ not in self.ended:
                fault = None if self.heirs is None else attrs.evolve(self.heirs)
                self.tritons[id_] = Triton(id_, self.now_s + STARTS_S, fault)
        for id_ in wish.stop & self.tritons.keys():
            self.lost += self.tritons.pop(id_).pending
            self.ended[id_] = Ended(id_, "hash", ExitStatus("stopped", 0, expected=True))


def _endpoint(id_: str) -> Endpoint:
    port = 3 * int(id_.rpartition("-")[2])
    return Endpoint("h", port, port + 1, port + 2)
