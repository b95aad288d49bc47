"""Laws of ageing: one at a time, the replacement first, and no loop for what is no leak."""

import itertools

import attrs
from given import AT, NOW_S, fleet, ready, rules
from gray_world import Fault, GrayWorld
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_gray_properties import WORLDS

from tarn.control.issues import of_fleet
from tarn.domain import Running
from tarn.domain.fold_facts import fold_facts
from tarn.domain.instance import FRESH_S
from tarn.domain.renewal import retire_worn
from tarn.domain.spec import InstanceSpec

FEW = settings(
    max_examples=max(4, WORLDS // 5), deadline=None, suppress_health_check=list(HealthCheck)
)


def aging(seed: int, size: int, **limits: float) -> GrayWorld:
    """Return a world whose instances all began at the same moment."""
    world = GrayWorld(seed, size)
    spec = attrs.evolve(world.rules.spec.instance, **limits)
    world.rules = attrs.evolve(world.rules, spec=attrs.evolve(world.rules.spec, instance=spec))
    return world


def step(world: GrayWorld, size: int) -> None:
    """Let a second pass in which at most one is on its way, and as many as should be serve."""
    world.step()
    world.check()
    assert len(world.tritons) <= size + 1, "one replacement at a time"
    assert len(world.fleet.view.members) >= size, world.log[-3:]
    leaving = [i for i in world.fleet.instances if i.retiring is not None or i.state == "draining"]
    assert len(leaving) <= 1


@FEW
@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(60.0, 300.0))
def test_those_that_grow_old_together_leave_one_after_another(
    seed: int, size: int, max_age_s: float
) -> None:
    world = aging(seed, size, max_age_s=max_age_s)
    world.run(20)
    first = set(world.tritons)
    for _ in range(int(max_age_s) + 15 * size):
        step(world, size)
    assert first <= world.stopped.keys()
    moments = sorted(world.stopped.values())
    assert all(b - a >= 3.0 for a, b in itertools.pairwise(moments)), moments


@FEW
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_leak_is_replaced_again_and_again_and_one_at_a_time(seed: int, size: int) -> None:
    """A MiB each second beyond 100, of at most 1000: 15 minutes each."""
    world = aging(seed, size, max_rss_mib=1000)
    world.mib = (100.0, 1.0)
    world.run(20)
    for _ in range(2100):
        step(world, size)
    assert len(world.stopped) == 2 * size
    assert not list(of_fleet(world.fleet, world.rules, world.now_s))


@FEW
@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from(((1200.0, 0.0), (400.0, 2.0))))
def test_a_limit_below_what_a_fresh_one_takes_replaces_nobody_and_is_told(
    seed: int, size: int, mib: tuple[float, float]
) -> None:
    """It takes 1200 MiB at once, or within minutes, of 1000."""
    world = aging(seed, size, max_rss_mib=1000)
    world.mib = mib
    world.run(1500)
    assert not world.stopped
    (told,) = of_fleet(world.fleet, world.rules, world.now_s)
    assert told.code == "TARN-1176"
    assert told.found.startswith("instance.max_rss = 1000 MiB: w-000")
    assert f"{size} of {size} are not replaced" in told.found


def test_an_unwell_one_goes_before_an_old_one() -> None:
    """While one is on its way nobody else leaves for their age."""
    world = aging(1, 3, max_age_s=100.0)
    world.run(95)
    world.tritons["w-0003"].fault = Fault("failing", world.now_s)
    for _ in range(60):
        world.step()
        world.check()
        assert len(world.tritons) <= 5
    assert min(world.stopped, key=lambda id_: world.stopped[id_]) in ("w-0001", "w-0003")
    assert set(world.stopped) == {"w-0001", "w-0002", "w-0003"}


def test_what_a_new_master_finds_may_have_leaked_for_long() -> None:
    """It did not see how much that one took when it was fresh, so it is replaced once."""
    by = rules(instance=InstanceSpec(max_rss_mib=1000))
    found, seen = ready(1, adopted=True, rss_mib=1200), ready(2, rss_mib=1200, fresh_mib=1200)
    for one, leaves in ((found, True), (seen, False)):
        (after,) = retire_worn(fleet(one, desired=1), by, NOW_S, AT).instances
        assert (after.retiring is not None) is leaves


def test_what_an_instance_takes_is_learned_while_it_is_fresh() -> None:
    some = fleet(ready(1, ready_s=NOW_S), desired=1)
    for now_s, mib in ((10.0, 300), (FRESH_S - 1, 700), (FRESH_S - 1, 500), (FRESH_S, 900)):
        one = some.instances[0]
        assert one.endpoint is not None
        fact = Running(one.id, "hash", "c1", "h", one.endpoint, rss_mib=mib)
        some = fold_facts(some, [fact], NOW_S + now_s, AT)
    assert (some.instances[0].rss_mib, some.instances[0].fresh_mib) == (900, 700)
