"""The policies compared over an instance that says it is well and fails its users."""

import itertools
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from tarn.cluster.simulated import Run
from tarn.control.policy import Scaling
from tarn.domain import ClusterSpec, FleetView, InstanceState, Known, Wish
from tarn.domain.scaling import capacity
from tarn.domain.spec import InstanceSpec, ModelsSpec, ReplicasSpec, UnwellSpec
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plugins import Plugins, load
from tarn_plugins.cli.simulate.model import WorldModel
from tarn_plugins.cli.simulate.replay import enter, simulate
from tarn_plugins.cli.simulate.trace import Trace

PAGE = Path(__file__).parents[3] / "docs/reference/policies.md"
POLICIES = ("target", "threshold", "latency")
SICK_S, LESS_S, END_S = 60.0, 300.0, 700.0


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load()


@attrs.define
class Watched:
    """A policy, and every view that it had."""

    policy: ScalingPolicy
    views: list[FleetView] = attrs.field(factory=list)

    def wanted(self, fleet: FleetView) -> Wish:
        self.views.append(fleet)
        return self.policy.wanted(fleet)


def lived(plugins: Plugins, use: str, sickness: str, unwell: UnwellSpec) -> tuple[Run, Watched]:
    """Let *use* meet a load that falls to a quarter, with one of three instances sick early."""
    instance = attrs.evolve(InstanceSpec(), unwell=unwell)
    replicas = ReplicasSpec(1, 10, 3)
    spec = ClusterSpec("sim", ModelsSpec("/m"), replicas=replicas, instance=instance)
    entrant = enter(spec, plugins, use)
    watched: list[Watched] = []

    def watching(make: Callable[[MasterContext], Scaling]) -> Callable[[MasterContext], Scaling]:
        def made(context: MasterContext) -> Scaling:
            scaling = make(context)
            watched.append(Watched(scaling.policy))
            return attrs.evolve(scaling, policy=watched[0])

        return made

    entrant = attrs.evolve(entrant, make=watching(entrant.make))
    trace = Trace("less", (0.0, LESS_S, END_S), (240.0, 60.0, 60.0))
    model = WorldModel(sick_at_s=(SICK_S,), sickness=sickness, start_s=10.0)
    return simulate(entrant, trace, model), watched[0]


@pytest.mark.parametrize("sickness", ["failing", "stalled"])
@pytest.mark.parametrize("use", POLICIES)
def test_a_sick_one_is_no_capacity_and_the_first_to_go(
    plugins: Plugins, use: str, sickness: str
) -> None:
    """It is never replaced here, so that it is there until the fleet shrinks."""
    run, watched = lived(plugins, use, sickness, UnwellSpec(replace=False))
    ejected = [v for v in watched.views if any(i.ejected for i in v.instances)]
    assert ejected[0].now_s <= SICK_S + 15
    for view in ejected:
        assert [i.id for i in view.instances if i.ejected] == ["sim-0001"]
        assert capacity(view).ready == sum(i.in_view for i in view.instances)
    ready = [{i.id for i in v.instances if i.state is InstanceState.READY} for v in watched.views]
    shrinks = (before - after for before, after in itertools.pairwise(ready))
    assert "sim-0001" in next(gone for gone in shrinks if gone)
    assert run.ready[-1] == run.desired[-1] < max(run.desired)


@pytest.mark.parametrize("use", POLICIES)
def test_what_waits_in_a_sick_one_in_the_view_is_load(plugins: Plugins, use: str) -> None:
    """Five seconds after nothing is answered any more, and for as long as it is in the view."""
    _, watched = lived(plugins, use, "stalled", UnwellSpec(eject=False, replace=False))
    hung = [v for v in watched.views if v.now_s > SICK_S + 5]
    known = 0
    for view in hung:
        load, waits = view.latest("offered_load"), view.latest("pending")
        if isinstance(load, Known) and isinstance(waits, Known) and "sim-0001" in ready_in(view):
            known += 1
            assert load.value >= waits.value
    assert known > 100


@pytest.mark.parametrize("sickness", ["failing", "stalled"])
@pytest.mark.parametrize("use", POLICIES)
def test_a_sick_one_costs_no_more_than_what_it_held(
    plugins: Plugins, use: str, sickness: str
) -> None:
    """And its replacement serves a minute later. The page of the policies has each of them."""
    run, watched = lived(plugins, use, sickness, UnwellSpec())
    assert "sim-0001" not in ready_in(watched.views[int(SICK_S) + 60])
    assert min(run.ready[int(SICK_S) + 60 :]) >= min(run.desired[int(SICK_S) :]) >= 1
    hours = run.summary.instance_hours
    row = f"| `{use}` | {sickness} | {run.lost:.0f} | {run.summary.most} | {hours:.2f} h |"
    assert row in PAGE.read_text("utf-8")


def ready_in(view: FleetView) -> set[str]:
    return {i.id for i in view.instances if i.state is InstanceState.READY}
