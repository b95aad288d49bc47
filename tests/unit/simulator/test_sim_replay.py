"""The master in discrete time: its own code, over the modelled world."""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

import tarn_plugins.cli.simulate
from tarn.cluster.simulated import Run
from tarn.domain import ClusterSpec, FleetView, Wish
from tarn.domain.spec import (
    InstanceSpec,
    ModelsSpec,
    ReplicasSpec,
    ScalingSpec,
    UnwellSpec,
    WindowSpec,
)
from tarn.errors import ConfigErrors, ProviderMissingError
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plugins import Plugins, load
from tarn_plugins.cli.simulate.model import WorldModel
from tarn_plugins.cli.simulate.replay import enter, simulate
from tarn_plugins.cli.simulate.trace import Trace


@attrs.frozen
class _Settings:
    replicas: int = 2


@attrs.define
class _Asked:
    """Answers what its rule says, and remembers what it saw."""

    rule: Callable[[FleetView], Wish]
    views: list[FleetView] = attrs.field(factory=list)

    def wanted(self, fleet: FleetView) -> Wish:
        self.views.append(fleet)
        return self.rule(fleet)


class Offer:
    """A plugin that offers one policy named ``mine``."""

    def __init__(self, rule: Callable[[FleetView], Wish]) -> None:
        self.policy = _Asked(rule)
        self.contexts: list[MasterContext] = []

    def _create(self, _settings: _Settings, context: MasterContext) -> ScalingPolicy:
        self.contexts.append(context)
        return self.policy

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Factory[ScalingPolicy]]:
        return {"mine": Factory(_Settings, self._create, "for tests")}


GUARD = ScalingSpec("mine", {}, WindowSpec(0.0), WindowSpec(30.0), cooldown_s=10.0)


def spec(low: int = 1, high: int = 10, first: int | None = None) -> ClusterSpec:
    replicas = ReplicasSpec(low, high, first)
    return ClusterSpec("sim", ModelsSpec("/m"), replicas=replicas, scaling=GUARD)


def steady(rate: float, seconds: int = 120) -> Trace:
    return Trace("steady", (0.0, float(seconds)), (rate, rate))


def ran(
    rule: Callable[[FleetView], Wish],
    trace: Trace,
    model: WorldModel | None = None,
    given: ClusterSpec | None = None,
) -> tuple[Run, Offer]:
    offer = Offer(rule)
    return simulate(enter(given or spec(), load([offer]), "mine"), trace, model), offer


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load()


def test_equal_arguments_make_equal_runs(plugins: Plugins) -> None:
    """To the last digit, spread starts and failures included."""
    model = WorldModel(start_spread=0.5, failures_per_hour=20, seed=4)
    trace = Trace("t", (0.0, 60.0, 200.0), (100.0, 900.0, 0.0))
    runs = [simulate(enter(spec(), plugins, "target"), trace, model) for _ in range(2)]
    assert runs[0].columns() == runs[1].columns()
    assert runs[0].plain() == runs[1].plain()
    assert len(runs[0].load) == 200
    assert len(set(map(len, runs[0].columns().values()))) == 1


def test_a_size_is_followed_after_the_start_and_the_drain() -> None:
    """Asked at once, ready 30 s later, gone when the drain is over; all of it is paid for."""
    run, _ = ran(lambda view: Wish(4 if view.now_s < 60 else 1, "so"), steady(50))
    assert run.desired[:2] == (4, 4)
    assert run.ready[28:32] == (1, 1, 1, 4) or run.ready[29:33] == (1, 1, 4, 4)
    assert run.desired[88:92] == (4, 4, 1, 1)  # the window of 30 s
    assert run.ready[-1] == run.held[-1] == 1
    assert run.summary.instance_hours == pytest.approx(sum(run.held) / 3600)
    assert run.held[10] == 4
    assert [d.desired for d in run.decisions] == [1, 4, 1]
    assert (run.summary.changes, run.summary.flaps, run.summary.lost) == (2, 1, 0)


def test_a_policy_that_raises_keeps_the_size_and_is_told_of() -> None:
    """As in a master; the reason is counted."""

    def broken(_view: FleetView) -> Wish:
        raise RuntimeError("no idea")

    run, _ = ran(broken, steady(50, 20), given=spec(first=3))
    assert set(run.desired) == {3}
    assert run.silences == {"the policy raised RuntimeError: no idea": 20}


def test_the_policy_sees_what_a_master_would_show() -> None:
    """Signals by the real code, the interval of the spec, the clock of the trace."""
    _, offer = ran(lambda _view: Wish(1, "so"), steady(80, 40))
    views = offer.policy.views
    assert [view.now_s for view in views] == list(range(40))
    told = {name: view[-1][1] for name, view in views[-1].signals.items()}
    assert told["requests_per_s"].value == pytest.approx(80, rel=0.01)
    assert told["offered_load"].value == pytest.approx(8, rel=0.01)
    assert told["gpu_utilization"].value == pytest.approx(0.5, rel=0.01)
    assert told["request_time"].value == pytest.approx(0.1, rel=0.01)
    (context,) = offer.contexts
    assert context.clock.at() == WorldModel().begins_at + 39
    assert context.environ == {}


def test_a_fleet_of_none_is_woken_by_who_waits() -> None:
    """Demand is heard as from clients; the first requests wait for the start."""
    run, _ = ran(lambda _view: Wish(None, "nothing to say"), steady(5), given=spec(0, 5, 0))
    assert run.desired[0] == 0
    assert max(run.desired) == 1
    assert [d.by for d in run.decisions] == ["start", "demand"]
    assert run.waits.quantile(1.0) >= 29
    assert run.ready[-1] == 1


def test_a_failed_instance_is_replaced() -> None:
    """By the plan of the master: what it held is lost, the rest goes on."""
    run, _ = ran(
        lambda _view: Wish(2, "so"), steady(100), WorldModel(fail_at_s=(50.0,)), spec(first=2)
    )
    assert min(run.ready[48:60]) == 1
    assert run.ready[-1] == 2
    assert 0 < run.lost < 20


@pytest.mark.parametrize(("sickness", "most_lost"), [("failing", 2000), ("stalled", 3000)])
def test_an_ill_one_is_ejected_and_replaced(sickness: str, most_lost: float) -> None:
    """It passes its health checks; what it lost is what it had got until it was ejected."""
    model = WorldModel(sick_at_s=(50.0,), sickness=sickness, start_s=5.0)
    run, _ = ran(lambda _view: Wish(3, "so"), steady(200, 180), model, spec(first=3))
    assert min(run.ready[50:]) == 2
    assert run.ready[-1] == 3
    assert 100 < run.lost < most_lost


def test_a_queue_that_nobody_works_off_lets_the_fleet_grow(plugins: Plugins) -> None:
    """The policy sees what waits as load, and no zero because nothing ends."""
    told = attrs.evolve(InstanceSpec(), unwell=UnwellSpec(eject=False, replace=False))
    given = attrs.evolve(spec(low=1, first=1), instance=told)
    model = WorldModel(sick_at_s=(20.0,), sickness="stalled")
    run = simulate(enter(given, plugins, "target"), steady(20, 60), model)
    assert run.desired[19] == 1
    assert min(run.desired[35:]) > 1


@pytest.mark.parametrize(
    ("most", "slots", "clients", "sizes"), [(3, 1, 12, [1, 3]), (24, 4, 48, [1, 16])]
)
def test_clients_that_wait_for_their_answers_are_one_decision(
    plugins: Plugins, most: int, slots: int, clients: int, sizes: list[int]
) -> None:
    """One replica is full of them; the size goes straight to where none waits, or to the most."""
    model = WorldModel(slots=slots, service_s=0.2, clients=clients, step_s=0.1, start_s=5.0)
    given = attrs.evolve(spec(high=most), scaling=ScalingSpec("target"))
    run = simulate(enter(given, plugins, "target"), steady(0.0), model)
    assert [decision.desired for decision in run.decisions] == sizes
    assert run.ready[-1] == sizes[-1]
    assert run.decisions[1].at - run.begins_at <= 4
    assert "of callers that wait" in run.decisions[1].reason


def test_without_room_the_rest_waits_for_a_place() -> None:
    """What a node has no room for is asked for, and paid for, and never ready."""
    run, _ = ran(lambda _view: Wish(6, "so"), steady(100), WorldModel(room=3))
    assert max(run.ready) == 3
    assert run.held[-1] == 6


def test_a_shorter_step_tells_the_same_story(plugins: Plugins) -> None:
    """The step is a matter of accuracy, not of the result."""
    trace = Trace("t", (0.0, 120.0, 300.0), (100.0, 500.0, 0.0))
    fine, coarse = (
        simulate(enter(spec(), plugins, "target"), trace, WorldModel(step_s=step_s)).summary
        for step_s in (0.5, 1.0)
    )
    assert fine.instance_hours == pytest.approx(coarse.instance_hours, rel=0.05)
    assert fine.most == coarse.most


def test_wrong_names_and_options_are_refused_before_anything_runs(plugins: Plugins) -> None:
    """With what there is, rivals included."""
    with pytest.raises(
        ProviderMissingError, match=r"no policy 'hpaa'.*knative.*Did you mean 'hpa'"
    ):
        enter(spec(), plugins, "hpaa")
    with pytest.raises(ConfigErrors, match="target"):
        enter(spec(), plugins, "hpa", {"target": 80})


def test_the_simulator_opens_nothing_but_a_trace_and_a_drawing() -> None:
    """Besides reading a trace and writing a picture it is a function of its arguments."""
    folder = Path(tarn_plugins.cli.simulate.__file__).parent
    opening = {"open", "read_text", "write_text", "write_bytes", "read_bytes", "sleep"}
    found = {
        path.name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in opening
    }
    assert found == {"trace.py", "drawing.py"}
