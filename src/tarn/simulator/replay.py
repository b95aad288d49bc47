"""The master in discrete time: its very tick, signals, guard and policy, over a modelled world."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tarn.control.loop import LATE_S, STALE_LOOKS
from tarn.control.policy import answered
from tarn.domain import (
    Decision,
    Demand,
    Epoch,
    Fact,
    FleetView,
    Launch,
    Reading,
    Recovered,
    Sample,
    Unknown,
    Wish,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import id_of
from tarn.domain.memory import begin
from tarn.domain.signals import Signals, fleet_view
from tarn.domain.tick import Observation, tick
from tarn.domain.wishes import runtime_wish
from tarn.interfaces import MasterContext, Paths
from tarn.simulator.entrant import Entrant
from tarn.simulator.model import WorldModel
from tarn.simulator.run import Run, WaitTimes
from tarn.simulator.trace import Trace
from tarn.simulator.world import StepResult, World, running

__all__ = ["simulate"]

_HASH = "simulated000"
_EPOCH = Epoch(1, 1)
_NOWHERE = Path("/nonexistent")


def simulate(entrant: Entrant, trace: Trace, model: WorldModel | None = None) -> Run:
    """Return what *entrant* makes of *trace*; the same arguments make the same run.

    Nothing is read, written or waited for; a policy that raises keeps the size, as in a master,
    and `Run.silences` says so.
    """
    return _Simulation(entrant, model or WorldModel()).run(trace)


class _Row(NamedTuple):
    """One step; the fields are those of `Run`."""

    load: float
    desired: int
    ready: int
    held: int
    queue: float
    queue_s: float
    utilization: float


class _Clock:
    """The time of a simulation, for policies that look at a calendar."""

    def __init__(self, begins_at: float) -> None:
        self._begins_at = begins_at
        self.second = 0.0

    def now_s(self) -> float:
        return self.second

    def at(self) -> float:
        return self._begins_at + self.second


class _Simulation:
    """One master and its world."""

    def __init__(self, entrant: Entrant, model: WorldModel) -> None:
        self._name, spec = entrant.name, entrant.spec
        self._model = model
        self._rules = Rules(spec, _HASH)
        self._launch = Launch(
            spec.models, spec.triton, spec.instance, spec.models.repository, _HASH
        )
        self._clock = _Clock(model.begins_at)
        self._scaling = entrant.make(
            MasterContext(
                self._clock, {}, Paths(_NOWHERE, _NOWHERE), spec, _EPOCH, _NOWHERE, spec_hash=_HASH
            )
        )
        replicas = spec.replicas
        first = replicas.min if replicas.initial is None else replicas.initial
        serving = first if model.begins == "serving" else 0
        found = tuple(running(id_of(spec.name, n), _HASH) for n in range(1, serving + 1))
        self._world = World(model, found)
        self._fleet = begin(
            _EPOCH, None, Recovered(found), self._rules, now_s=0.0, at=model.begins_at
        )
        self._facts: tuple[Fact, ...] = ()
        self._signals = Signals(kept=self._scaling.kept)
        self._of_plugins = self._scaling.signals
        self._answer: Sample[Wish] = Unknown("the policy has not answered yet")
        self._due_s = 0.0
        self._wished: tuple[frozenset[tuple[str, str]], frozenset[str]] | None = None
        self._decisions: list[Decision] = list(self._fleet.decisions)
        self._silences: Counter[str] = Counter()

    def run(self, trace: Trace) -> Run:
        """Live through the whole trace."""
        step_s = self._model.step_s
        rows: list[_Row] = []
        waits: list[tuple[float, float]] = []
        lost = 0.0
        for number, rate in enumerate(trace.steps(step_s)):
            now_s = number * step_s
            self._clock.second = now_s
            self._world.begin_step(now_s)
            self._act(now_s)
            passed = self._world.pass_step(
                [member.instance_id for member in self._fleet.view.members], rate, now_s
            )
            self._hear(now_s)
            waits += passed.waits
            lost += passed.lost
            rows.append(self._row(rate, passed))
        return Run(
            self._name,
            trace.name,
            step_s,
            load=tuple(row.load for row in rows),
            desired=tuple(row.desired for row in rows),
            ready=tuple(row.ready for row in rows),
            held=tuple(row.held for row in rows),
            queue=tuple(row.queue for row in rows),
            queue_s=tuple(row.queue_s for row in rows),
            utilization=tuple(row.utilization for row in rows),
            waits=WaitTimes.of(waits),
            lost=lost,
            decisions=tuple(self._decisions),
            silences=dict(self._silences),
            begins_at=self._model.begins_at,
        )

    def _act(self, now_s: float) -> None:
        """Do what the control thread does: tick, ask, tick with the answer, post.

        A tick in which there is nothing to fold is left out: it would return the same fleet.
        """
        asking = now_s >= self._due_s - 1e-9
        tested = [i.id for i in self._fleet.instances if i.wants_test]
        readings = self._world.readings(now_s, anew=asking, tested=tested)
        if not self._at_rest():
            self._tick(now_s, readings)
        if asking:
            interval_s = self._rules.spec.scaling.interval_s
            self._due_s = now_s + interval_s
            oldest_s = LATE_S + STALE_LOOKS * interval_s
            self._signals = self._signals.looked(self._fleet.instances, readings, now_s, oldest_s)
            at = self._clock.at()
            view = fleet_view(self._fleet, self._rules, self._signals, now_s, at)
            self._answer = self._asked(view)
            self._tick(now_s, readings)
        self._post()

    def _at_rest(self) -> bool:
        """Say whether all that there is serves, and the world has nothing new to tell."""
        fleet = self._fleet
        serving = len(fleet.view.members)
        return (
            serving == len(fleet.instances) == fleet.desired
            and not self._world.waiting
            and self._world.facts() == self._facts
        )

    def _tick(self, now_s: float, readings: Mapping[str, Reading]) -> None:
        before = self._fleet
        self._facts = self._world.facts()
        seen = Observation(now_s, self._clock.at(), self._facts, readings, wish=self._answer)
        self._fleet = tick(before, seen, self._rules)
        if self._fleet.decisions is not before.decisions:
            self._decisions += _newer(before, self._fleet)

    def _asked(self, view: FleetView) -> Sample[Wish]:
        if self._of_plugins.reads:
            self._of_plugins = self._of_plugins.looked(self._signals.samples, view.now_s)
            view = self._of_plugins.shown(view)
        answer = answered(self._scaling.policy, view)
        if isinstance(answer, Unknown):
            self._silences[answer.reason] += 1
        elif answer.value.replicas is None:
            self._silences[answer.value.reason] += 1
        return answer

    def _post(self) -> None:
        wish = runtime_wish(self._fleet, (self._launch,), self._fleet.next_number)
        if (wish.want, wish.stop) != self._wished:
            self._wished = (wish.want, wish.stop)
            self._world.apply_wish(wish)

    def _hear(self, now_s: float) -> None:
        """Say who waits outside, as clients and the load balancer do."""
        waiting = self._world.waiting
        if waiting:
            demand = Demand("the clients", waiting)
            self._fleet, _ = apply_command(
                self._fleet, demand, self._rules, now_s=now_s, at=self._clock.at()
            )

    def _row(self, rate: float, passed: StepResult) -> "_Row":
        requests = sum(count for _, count in passed.waits)
        waited = sum(seconds * count for seconds, count in passed.waits)
        return _Row(
            rate,
            self._fleet.desired,
            len(self._fleet.view.members),
            len(self._fleet.instances),
            passed.pending,
            waited / requests if requests else 0.0,
            passed.utilization,
        )


def _newer(before: Fleet, after: Fleet) -> tuple[Decision, ...]:
    last = before.decisions[-1] if before.decisions else None
    fresh: list[Decision] = []
    for decision in reversed(after.decisions):
        if decision is last:
            break
        fresh.insert(0, decision)
    return tuple(fresh)
