"""Who is doubted, ejected, confirmed, replaced and brought back, in worlds of one fault each."""

import attrs
import pytest
from given import AT, NOW_S, fleet, ready, rules
from gray_world import Fault, GrayWorld

from tarn.control.issues import of_fleet
from tarn.domain import Down, Epoch, Known, Reading, Recovered, Running
from tarn.domain.apply_command import apply_command
from tarn.domain.counters import CounterSet
from tarn.domain.fleet import Fleet
from tarn.domain.instance import Symptom, Unwell
from tarn.domain.memory import begin, saved
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn.domain.plan import surplus
from tarn.domain.renewal import leave_at_once
from tarn.domain.spec import InstanceSpec, UnwellSpec, UpdateSpec
from tarn.domain.strikes import count_relapse, may_relapse
from tarn.domain.symptoms import stalled_after_s
from tarn.domain.tick import Observation, tick
from tarn.domain.verdicts import Suspicion, judge_outcomes, may_eject, suspect_at_once

FOREVER = float("inf")


def sick(kind: str, size: int = 3, share: float = 1.0, lasts_s: float = FOREVER) -> GrayWorld:
    """Return a world in which the second instance falls ill after a good minute."""
    world = GrayWorld(1, size)
    world.run(65)
    number = min(2, size)
    fault = Fault(kind, world.now_s, world.now_s + lasts_s, share)
    world.tritons[f"w-{number:04d}"].fault = fault
    return world


def moments(world: GrayWorld) -> dict[str, float]:
    """Return the code of each event to the seconds after the fault at which it was first."""
    first: dict[str, float] = {}
    for at_s, code, _, _ in world.log:
        first.setdefault(code, at_s - 1065.0)
    return first


def healthy(world: GrayWorld) -> bool:
    """Say whether all that should be there is in the view, and nothing speaks against anybody."""
    some = world.fleet
    return len(some.view.members) == some.desired == len(some.instances) and not any(
        i.unwell for i in some.instances
    )


def test_one_that_fails_is_ejected_within_seconds_confirmed_and_replaced() -> None:
    world = sick("failing")
    world.run(30)
    at_s = moments(world)
    assert at_s["TARN-1122"] <= 3.0
    assert at_s["TARN-1142"] <= 8.0
    assert world.replaced == ["w-0002"]
    assert healthy(world)


def test_one_that_fails_a_third_of_its_requests_is_found_too() -> None:
    world = sick("failing", share=0.34)
    world.run(40)
    assert world.replaced == ["w-0002"]
    assert healthy(world)


@pytest.mark.parametrize(("size", "sick_ones"), [(4, 3), (5, 4), (10, 7)])
def test_most_that_fail_are_found_where_one_works(size: int, sick_ones: int) -> None:
    """Half are ejected at most; all are replaced in the end, one after another."""
    world = GrayWorld(1, size)
    world.run(65)
    bad = [f"w-{n:04d}" for n in range(1, sick_ones + 1)]
    for id_ in bad:
        world.tritons[id_].fault = Fault("failing", world.now_s)
    world.run(8)
    assert {subject for _, code, subject, _ in world.log if code == "TARN-1122"} == set(bad)
    world.run(150)
    assert world.replaced == bad
    assert healthy(world)


def test_one_that_hangs_is_ejected_after_ten_seconds_and_drains_without_end() -> None:
    """What waits there never ends: the drain is cut long before its limit of 300 s."""
    world = sick("stalled")
    world.run(60)
    at_s = moments(world)
    assert 10.0 <= at_s["TARN-1122"] <= 13.0
    assert at_s["TARN-1142"] <= 30.0
    assert world.replaced == ["w-0002"]
    assert healthy(world)
    assert world.lost > 0


def test_down_does_not_wait_for_what_hangs() -> None:
    """A drain may take 300 s here; of one that is known to be stalled nothing is awaited."""
    world = GrayWorld(1, 3, UnwellSpec(replace=False))
    world.run(65)
    world.tritons["w-0002"].fault = Fault("stalled", world.now_s)
    world.run(15)
    world.fleet, _ = apply_command(
        world.fleet, Down(), world.rules, now_s=world.now_s, at=world.now_s
    )
    for _ in range(30):
        world.step()
    assert not world.fleet.instances


def test_one_that_hung_for_a_while_comes_back() -> None:
    world = sick("stalled", lasts_s=14.0)
    world.run(60)
    assert {"TARN-1122", "TARN-1132"} <= set(moments(world))
    assert not world.replaced
    assert healthy(world)


def test_one_that_failed_for_a_moment_comes_back_when_its_test_requests_are_answered() -> None:
    world = sick("failing", lasts_s=4.0)
    world.run(30)
    assert {"TARN-1122", "TARN-1132"} <= set(moments(world))
    assert not world.replaced
    assert healthy(world)


def test_a_slow_one_is_told_and_left_alone() -> None:
    world = sick("slow")
    world.run(120)
    assert set(moments(world)) == {"TARN-1162"}
    assert len(world.fleet.view.members) == 3


@pytest.mark.parametrize("kind", ["failing", "stalled"])
def test_the_only_one_stays_in_the_view_until_its_replacement_serves(kind: str) -> None:
    """`check` holds that the view is never empty; the successor is well."""
    world = sick(kind, size=1)
    world.run(70)
    assert world.replaced == ["w-0001"]
    assert healthy(world)


@pytest.mark.parametrize("kind", ["failing", "stalled"])
@pytest.mark.parametrize("size", [2, 3])
def test_what_all_have_alike_ends_nobody_and_is_one_alert(kind: str, size: int) -> None:
    world = GrayWorld(1, size)
    world.run(65)
    world.everywhere = Fault(kind, world.now_s, world.now_s + 60.0)
    world.run(22)
    said = [t for t in of_fleet(world.fleet, world.rules, world.now_s) if t.code == "TARN-1152"]
    assert len(said) == 1
    error = {"failing": "Stub process is not healthy.", "stalled": "no answer for 6 s"}[kind]
    assert error in said[0].found
    assert "echo" not in said[0].public
    world.run(70)
    assert not world.log, "nobody is marked, ejected or replaced"
    assert healthy(world)
    assert not world.fleet.alike


def test_the_alert_of_a_model_that_fails_everywhere_comes_within_ten_seconds() -> None:
    world = GrayWorld(3, 3)
    world.run(65)
    world.everywhere = Fault("failing", world.now_s)
    world.run(9)
    assert [t.code for t in of_fleet(world.fleet, world.rules, world.now_s)] == ["TARN-1152"]


def test_callers_that_ask_for_what_the_model_cannot_do_are_named_as_such() -> None:
    """The test request is answered well while the users' requests fail on all."""
    world = GrayWorld(1, 3)
    world.run(65)
    world.usual = 0.9
    world.run(20)
    (said,) = (t for t in of_fleet(world.fleet, world.rules, world.now_s) if t.code == "TARN-1152")
    assert "look at what callers send" in said.found
    assert not world.log


def test_without_a_test_request_it_is_tried_again_and_in_the_end_replaced() -> None:
    world = sick("failing")
    world.tests = False
    world.run(330)
    codes = [code for _, code, _, _ in world.log]
    assert codes == ["TARN-1122", "TARN-1132"] * 2 + ["TARN-1122", "TARN-1142"]
    assert healthy(world)


def test_successors_that_are_unwell_too_are_replaced_ever_more_rarely() -> None:
    world = GrayWorld(1, 4)
    world.run(65)
    world.heirs = Fault("failing", world.now_s)
    world.tritons["w-0002"].fault = Fault("failing", world.now_s)
    world.run(320)
    assert len(world.replaced) == 3


@pytest.mark.parametrize(("eject", "replace"), [(False, False), (True, False), (False, True)])
def test_off_means_told_only(eject: bool, replace: bool) -> None:
    world = GrayWorld(1, 3, UnwellSpec(eject=eject, replace=replace))
    world.run(65)
    world.tritons["w-0002"].fault = Fault("failing", world.now_s)
    world.run(60)
    assert "TARN-1122" in moments(world)
    assert bool(world.replaced) is replace
    if not replace:
        assert len(world.fleet.view.members) == (2 if eject else 3)


def test_a_new_one_whose_first_requests_wait_for_a_compiler_is_not_doubted() -> None:
    """It has answered nothing yet, and is given a minute."""
    world = GrayWorld(1, 3)
    world.run(65)
    world.heirs = Fault("stalled", world.now_s, world.now_s + 50.0)
    world.crash("w-0002")
    world.run(80)
    assert "TARN-1122" not in moments(world)
    assert healthy(world)


def test_a_late_tick_doubts_nobody() -> None:
    """Our own process slept: two looks are far apart, and what was read may be old."""
    some, by = fleet(ready(1), ready(2)), rules()
    for step in range(6):
        now_s = NOW_S + step
        some = judge_outcomes(some, _failing(now_s, step), by, now_s, AT, doubt=True)
    assert not any(i.unwell for i in some.instances)


def _failing(now_s: float, step: int) -> dict[str, Reading]:
    metrics = {"requests_total": Known(0.0)}
    rows = {
        "w-0001": RequestCounts(CounterSet(50.0, 40.0 * step)),
        "w-0002": RequestCounts(CounterSet(50.0 + 40.0 * step)),
    }
    return {
        id_: Reading(id_, now_s, metrics=metrics, outcomes={"echo": one})
        for id_, one in rows.items()
    }


def test_two_looks_in_a_row_must_agree() -> None:
    some, by, marked = fleet(ready(1), ready(2)), rules(), []
    for step in range(4):
        now_s = NOW_S + step
        some = judge_outcomes(some, _failing(now_s, step), by, now_s, AT)
        marked.append(some.instances[0].unwell is not None)
    assert marked == [False, False, True, True]
    assert not some.instances[0].in_view


SAID = "process echo_0_0 (pid 7) of the Python model 'echo' was killed by SIGKILL"


def suspected(some: Fleet, instance_id: str) -> Fleet:
    return suspect_at_once(some, [Suspicion(instance_id, "echo", SAID)], rules(), NOW_S, AT)


def test_one_whose_process_ended_is_suspected_at_once() -> None:
    some = suspected(fleet(ready(1), ready(2)), "w-0002")
    assert [i.in_view for i in some.instances] == [True, False]
    assert [i.wants_test for i in some.instances] == [False, True]
    assert some.events[-1].message == f"{SAID}; it is ejected"
    again = suspected(some, "w-0001")
    assert again.instances[0].in_view, "the last one stays"
    assert suspected(again, "w-0001") is again


def test_a_new_master_lets_nobody_use_one_whose_process_ended_under_the_old_one() -> None:
    """It is ejected in the very tick in which it becomes ready again."""
    world = GrayWorld(1, 3)
    world.run(40)
    world.stubs = {"w-0002": SAID}
    world.tritons["w-0002"].fault = Fault("dead", world.now_s)
    epoch, state = Epoch(2, 1), saved(world.fleet, 0.0)
    found = Recovered(tuple(fact for fact in world.facts() if isinstance(fact, Running)))
    world.fleet = begin(epoch, state, found, world.rules, now_s=world.now_s, at=world.now_s)
    for _ in range(5):
        world.step()
        assert "w-0002" not in {m.instance_id for m in world.fleet.view.members}
    assert world.replaced == ["w-0002"]


MARK = Unwell(Symptom.FAILING, "echo", "it failed", NOW_S, ejected=True, confirmed_s=NOW_S)


@pytest.mark.parametrize(
    ("ready_ones", "ejected", "room"),
    [(1, 0, 0), (2, 0, 1), (3, 0, 1), (4, 1, 1), (4, 2, 0), (3, 2, -1), (1, 1, -1), (2, 2, -1)],
)
def test_half_of_the_ready_ones_and_one_at_least_stay(
    ready_ones: int, ejected: int, room: int
) -> None:
    some = [ready(n, unwell=MARK if n <= ejected else None) for n in range(1, ready_ones + 1)]
    assert may_eject(some) == room


def test_a_silent_one_leaves_no_room_for_the_last() -> None:
    some = [ready(1), ready(2, suspect="no answer"), ready(3, suspect="no answer")]
    assert may_eject(some) == 0


def test_the_unwell_go_first_when_a_fleet_shrinks() -> None:
    some = (ready(1), ready(2, unwell=MARK, busy=Known(254.0)), ready(3))
    assert [i.id for i in surplus(some, 1, fleet(*some))] == ["w-0002"]


@pytest.mark.parametrize("hold", ["halted", "ending", "frozen_s", "blind", "retry_s"])
def test_nobody_is_replaced_while_something_holds_the_fleet(hold: str) -> None:
    some = fleet(ready(1), ready(2, unwell=MARK), ready(3))
    assert leave_at_once(some, rules(), NOW_S) == {"w-0002": "it failed"}
    value = {"ending": True, "frozen_s": 1.0, "retry_s": NOW_S + 1.0}.get(hold, "why")
    assert not leave_at_once(attrs.evolve(some, **{hold: value}), rules(), NOW_S)


def test_one_at_a_time_is_replaced_in_a_small_fleet() -> None:
    some = fleet(ready(1), ready(2, unwell=MARK), ready(3, unwell=MARK), ready(4))
    assert list(leave_at_once(some, rules(), NOW_S)) == ["w-0002"]


def test_where_no_replacement_can_come_first_one_that_others_stand_in_for_leaves() -> None:
    """`update.surge` is 0, and another one serves."""
    bare = attrs.evolve(MARK, ejected=False)
    tight = rules(update=UpdateSpec(surge=0, max_unavailable=1))
    assert leave_at_once(fleet(ready(1, unwell=bare), ready(2)), tight, NOW_S)
    assert not leave_at_once(fleet(ready(1, unwell=bare)), tight, NOW_S)


def test_what_came_after_the_first_replacement_waits_longer_each_time() -> None:
    some = count_relapse(fleet(ready(1), ready(2)), ready(1), NOW_S)
    assert may_relapse(some, ready(2), NOW_S), "it was there before"
    again, waits_s = ready(3), []
    for _ in range(7):
        assert some.replaced_s is not None
        wait_s = next(
            s for s in range(0, 4000, 30) if may_relapse(some, again, some.replaced_s + s)
        )
        waits_s.append(wait_s)
        some = count_relapse(some, again, some.replaced_s + wait_s)
    assert waits_s == [60, 120, 240, 480, 960, 1800, 1800]


@pytest.mark.parametrize(
    ("mean_s", "longest_s", "after_s"), [(0.1, 0.0, 10.0), (3.0, 0.0, 30.0), (0.1, 20.0, 60.0)]
)
def test_what_is_slow_at_times_is_given_its_time(
    mean_s: float, longest_s: float, after_s: float
) -> None:
    assert stalled_after_s(UnwellSpec(), mean_s, longest_s) == after_s
    assert stalled_after_s(UnwellSpec(stalled_after_s=5.0), mean_s, longest_s) == 5.0


def aged(**spec: float) -> GrayWorld:
    world = GrayWorld(1, 3)
    kept = attrs.evolve(world.rules.spec.instance, **spec)
    world.rules = attrs.evolve(world.rules, spec=attrs.evolve(world.rules.spec, instance=kept))
    return world


def test_old_ones_are_replaced_one_at_a_time_and_never_one_less_serves() -> None:
    world = aged(max_age_s=100.0)
    world.run(100)
    for _ in range(40):
        world.step()
        assert len(world.fleet.view.members) >= 3
        assert len(world.fleet.instances) <= 5
    assert {i.id for i in world.fleet.instances} == {"w-0004", "w-0005", "w-0006"}


def test_one_that_holds_too_much_memory_is_replaced() -> None:
    spec = InstanceSpec(max_rss_mib=1000)
    some = fleet(ready(1, rss_mib=900), ready(2, rss_mib=1100), ready(3), desired=3)
    seen = Observation(NOW_S, AT)
    after = tick(some, seen, rules(instance=spec))
    retiring = {i.id: i.retiring_for for i in after.instances if i.retiring is not None}
    assert list(retiring) == ["w-0002"]
    assert "1100 MiB" in retiring["w-0002"]


@pytest.mark.parametrize(
    ("model", "lost"), [("m", 1), ("other", 0)], ids=["its own model", "another one"]
)
def test_a_late_test_request_of_before_counts_for_its_own_model_only(model: str, lost: int) -> None:
    """A hint may have had another model of the same instance tested just before."""
    unwell = Unwell(Symptom.STALLED, "m", "3 requests wait", NOW_S)
    tested = TestResult(NOW_S - 5.0, ok=False, said="no answer", number=4, model=model, late=True)
    read = Reading("w-0001", NOW_S, tested=tested)
    some = judge_outcomes(fleet(ready(1, unwell=unwell)), {"w-0001": read}, rules(), NOW_S, AT)
    (after,) = (i.unwell for i in some.instances)
    assert after is not None
    assert after.lost == lost


def test_what_an_unproven_test_request_brings_is_taken_once() -> None:
    """It is shown where all fail; another tick with the same answer changes nothing."""
    unwell = Unwell(Symptom.FAILING, "m", "it fails", NOW_S, for_all=True)
    tested = TestResult(NOW_S, ok=False, said="no weights\nmore", number=1, model="m", proven=False)
    read = {"w-0001": Reading("w-0001", NOW_S, tested=tested)}
    some = judge_outcomes(fleet(ready(1, unwell=unwell)), read, rules(), NOW_S, AT)
    (after,) = (i.unwell for i in some.instances)
    assert after is not None
    assert (after.answer, after.lost, after.confirmed) == ("no weights", 0, False)
    again = judge_outcomes(some, read, rules(), NOW_S + 0.1, AT)
    assert again.instances is some.instances
