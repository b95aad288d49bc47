"""Laws of the core against a world that is late, doubles, rejects, loses and restarts."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import World, rules

from tarn.domain import InstanceState
from tarn.domain.apply_command import apply_command
from tarn.domain.command import Adapt, Drain, PauseScaling, Resume, Scale
from tarn.domain.plan import Plan, plan
from tarn.errors import TarnError

STEPS = 200
SEEDS = st.integers(0, 2**32)
FAULTS: Counter[str] = Counter()
QUICK = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


def command(world: World) -> None:
    """Let a person ask for something at random."""
    ids = [i.id for i in world.fleet.instances] or ["w-0001"]
    some = world.chance.choice(
        (
            Scale(world.chance.randrange(0, 9)),
            Scale(None),
            Adapt(world.chance.randrange(0, 3), world.chance.randrange(3, 9)),
            PauseScaling(10.0),
            Resume(),
            Drain(world.chance.choice(ids), now=world.chance.random() < 0.5),
        )
    )
    try:
        world.fleet, _ = apply_command(
            world.fleet, some, world.rules, now_s=world.now_s, at=world.now_s
        )
    except TarnError:
        world.refused += 1


def settle(world: World, within: int = 400) -> None:
    """Let a kind world run until nothing is left to do."""
    world.kind = False
    for process in world.processes.values():
        process.hung_until_s = -1.0
    world.fleet, _ = apply_command(
        world.fleet, Resume(), world.rules, now_s=world.now_s, at=world.now_s
    )
    for _ in range(within):
        world.step()
        calm = plan(world.fleet, world.rules, world.now_s) == Plan()
        known = {i.id for i in world.fleet.of(InstanceState.READY)}
        same = known == set(world.processes) == {i.id for i in world.fleet.instances}
        if calm and same and len(known) == world.fleet.desired:
            return


def check_invariant(world: World) -> None:
    """Never more asked and held than desired, the surge, and draining."""
    fleet = world.fleet
    draining = len(fleet.of(InstanceState.DRAINING))
    surge = world.rules.spec.update.surge
    retiring = any(i.retiring is not None for i in fleet.instances)
    assert len(fleet.instances) <= fleet.desired + draining + (surge if retiring else 0)
    ids = [i.id for i in fleet.instances]
    assert len(ids) == len(set(ids))
    assert {m.instance_id for m in fleet.view.members} == {
        i.id for i in fleet.instances if i.in_view
    }
    for instance in fleet.of(InstanceState.DRAINING):
        if instance.stop_posted and instance.ready_s and not instance.condemned:
            assert instance.withdrawn_s is not None or instance.evicted


@QUICK
@given(seed=SEEDS)
def test_any_start_settles_and_then_the_plan_is_empty(seed: int) -> None:
    """After any 200 steps of faults a kind world reaches the desired size, and stays there."""
    world = World(seed, rules(initial=3, max=8))
    revision = world.fleet.view.revision
    epoch = world.epoch
    for _ in range(STEPS):
        if world.chance.random() < 0.05:
            command(world)
        world.step()
        check_invariant(world)
        view = world.fleet.view
        assert (view.epoch, view.revision) >= (epoch, revision)
        epoch, revision = view.epoch, view.revision
    settle(world)
    assert plan(world.fleet, world.rules, world.now_s) == Plan()
    assert [i.state for i in world.fleet.instances] == [InstanceState.READY] * world.fleet.desired
    assert set(world.processes) == {i.id for i in world.fleet.instances}
    FAULTS.update(world.faults)


def test_every_kind_of_fault_was_played_a_thousand_times() -> None:
    """The law above means something only if each fault really happened."""
    for _ in range(1000):
        if len(FAULTS) == 11 and min(FAULTS.values()) >= 1000:
            break
        world = World(sum(FAULTS.values()), rules(initial=5, max=8))
        for _ in range(STEPS):
            world.step()
            check_invariant(world)
        command(world)
        FAULTS.update(world.faults)
    assert len(FAULTS) == 11
    assert min(FAULTS.values()) >= 1000
    print(dict(FAULTS))
