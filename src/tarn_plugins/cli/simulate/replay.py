"""Run the master's own tick, signals, guard and policy in discrete time over a modelled world.

No process is started and no server is asked. The spec determines the guard, and the plugins create
the policy.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from tarn.cluster.simulated import Run, WaitTimes
from tarn.control.loop import LATE_S, STALE_LOOKS
from tarn.control.policy import Scaling, answered, scaling
from tarn.control.probe import Families
from tarn.domain import (
    ClusterSpec,
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
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import Signals, SignalSelection, fleet_view
from tarn.domain.spec import ModelsSpec, ReplicasSpec, ScalingSpec
from tarn.domain.tick import Observation, runtime_wish, tick
from tarn.errors import ConfigError, ConfigErrors, ProviderMissingError
from tarn.interfaces import MasterContext, Paths
from tarn.plain import did_you_mean, structure
from tarn.plugins import Plugins
from tarn.plugins.kinds import instead
from tarn_plugins.cli.simulate.drawing import figure
from tarn_plugins.cli.simulate.model import WorldModel
from tarn_plugins.cli.simulate.rivals import RIVALS, Rival
from tarn_plugins.cli.simulate.trace import FAMILIES, Trace, generated
from tarn_plugins.cli.simulate.world import StepResult, World, running

__all__ = ["Entrant", "default_spec", "enter", "load_of", "replayed", "simulate", "world"]


@attrs.frozen
class Entrant:
    """A policy, and the spec whose guard holds for it."""

    name: str
    spec: ClusterSpec
    make: Callable[[MasterContext], Scaling] = attrs.field(repr=False)
    """Creates the policy; called for each run, so that it remembers nothing of another one."""


def enter(
    spec: ClusterSpec,
    plugins: Plugins,
    use: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Entrant:
    """Return the entrant for the policy of *spec*, or for *use* with *options*.

    A rival has the guard that its own documentation describes. A policy of a plugin has the guard
    of the spec; if it is the spec's own policy, *options* add to the spec's.

    Raises:
        ConfigErrors: *options* are not valid.
        ProviderMissingError: No plugin offers the policy, and it is not a rival.
    """
    given = spec.scaling
    if use is None or use == given.use:
        use, options = given.use, {**given.options, **(options or {})}
    if rival := RIVALS.get(use):
        return _rival(spec, plugins, rival, use, options or {})
    offered = plugins.scaling_policies
    if use not in offered and not instead("scaling", use):
        known = (*offered, *RIVALS)
        raise ProviderMissingError(
            use,
            f"there is no policy '{use}'",
            right=f"Expected one of {', '.join(known)}",
            next_step=did_you_mean(use, known),
        )
    factory = plugins.choose("scaling", use, "scaling.use")
    plugins.settings(factory, options or {}, "scaling.options")  # raises for invalid options
    chosen = attrs.evolve(given, use=use, options=options or {})
    return Entrant(
        use, attrs.evolve(spec, scaling=chosen), lambda context: scaling(plugins, context)
    )


def _rival(
    spec: ClusterSpec, plugins: Plugins, rival: Rival, use: str, options: Mapping[str, object]
) -> Entrant:
    settings = plugins.settings(rival.factory, options, "scaling.options")
    guarded = attrs.evolve(spec, scaling=attrs.evolve(rival.guard, options=options))

    def make(context: MasterContext) -> Scaling:
        policy = rival.factory.create(settings, context)
        return Scaling(policy, PluginSignals(), SignalSelection(), Families())

    return Entrant(use, guarded, make)


_HASH = "simulated000"
_EPOCH = Epoch(1, 1)
_NOWHERE = Path("/nonexistent")


def simulate(entrant: Entrant, trace: Trace, model: WorldModel | None = None) -> Run:
    """Return the run of *entrant* under *trace*; the same arguments give the same run.

    If the policy raises, the size stays, as in a master, and `Run.silences` counts it.
    """
    return _Simulation(entrant, model or WorldModel()).run(trace)


class _Row(NamedTuple):
    """One step, with the fields of `Run`."""

    load: float
    desired: int
    ready: int
    held: int
    queue: float
    queue_s: float
    utilization: float


class _Clock:
    """The time of a simulation, for policies that use a calendar."""

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
        """Run the whole trace."""
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
            if waiting := self._world.waiting:  # as clients and the load balancer report it
                demand = Demand("the clients", waiting)
                self._fleet, _ = apply_command(
                    self._fleet, demand, self._rules, now_s=now_s, at=self._clock.at()
                )
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
            drawn=figure,
        )

    def _act(self, now_s: float) -> None:
        """Do what the control thread does: tick, ask the policy, tick with its answer, post."""
        # A sum of steps may miss a whole interval by a rounding error.
        asking = now_s >= self._due_s - 1e-9
        tested = [i.id for i in self._fleet.instances if i.wants_test]
        readings = self._world.readings(now_s, fresh=asking, tested=tested)
        if not self._at_rest():  # else the tick would return the same fleet
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
        wish = runtime_wish(self._fleet, (self._launch,), self._fleet.next_number)
        if (wish.want, wish.stop) != self._wished:
            self._wished = (wish.want, wish.stop)
            self._world.apply_wish(wish)

    def _at_rest(self) -> bool:
        """Return whether every instance serves, the size is right, and no fact has changed."""
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
        # By identity, since a later decision may be equal.
        if decision is last:
            break
        fresh.insert(0, decision)
    return tuple(fresh)


_GENERATED = re.compile(r"([a-z]+):(\d+)")


def replayed(  # noqa: PLR0913, PLR0917 (all that a run depends on)
    spec: ClusterSpec,
    plugins: Plugins,
    trace: Trace,
    model: WorldModel,
    policy: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Run:
    """Return the run of *policy* (None: the spec's) under *trace*, within the limits of *spec*."""
    return simulate(enter(spec, plugins, policy, options), trace, model)


def default_spec(low: int, high: int) -> ClusterSpec:
    """Return a spec with these limits, and defaults for everything else."""
    return ClusterSpec(
        "simulated",
        ModelsSpec("/nonexistent"),
        replicas=ReplicasSpec(low, high),
        scaling=ScalingSpec("target"),
    )


def load_of(source: Any) -> Trace:
    """Return a trace from a file, a frame, or ``FAMILY:SEED``.

    Raises:
        ConfigError: It is none of these, or a line is not valid.
    """
    if isinstance(source, str) and not Path(source).exists():
        made = _GENERATED.fullmatch(source)
        if made is not None and made[1] in FAMILIES:
            return generated(made[1], int(made[2]))
        families = ", ".join(f"{family}:1" for family in FAMILIES)
        raise ConfigError(
            "no such file",
            where=source,
            right="Expected a CSV file with the columns t_s and requests_per_s, or a generated "
            f"load: {families}",
        )
    return Trace.of(source, "frame")


def world(given: Mapping[str, object], where: str = "world") -> WorldModel:
    """Return the model with the values *given*, in units as in the spec: ``{"start": "45s"}``.

    Raises:
        ConfigErrors: Some values are not valid; it has all of them.
    """
    model, problems = structure(WorldModel, given, where)
    if problems or model is None:
        raise ConfigErrors(
            [ConfigError(p.found, code=p.code, right=p.right, next_step=p.next_step)
             for p in problems]
        )  # fmt: skip
    return model
