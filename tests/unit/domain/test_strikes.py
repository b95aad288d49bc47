"""Quick failures in a row: back-off, the end of launching, and forgiveness."""

import attrs
from given import (
    NOW_S,
    RULES,
    codes,
    draining,
    ended,
    fail,
    fleet,
    one,
    read,
    reading,
    ready,
    running,
    starting,
    step,
    told,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import Ended, Fact, InstanceState
from tarn.domain.fleet import Fleet


def test_quick_failures_wait_one_two_four_seconds_and_the_fifth_gives_up() -> None:
    """1, 2, 4, 8 s, then launching is given up, with the last reason."""
    some = fleet()
    waits = []
    for number in range(1, 6):
        some = fail(some, starting(number))
        waits.append(some.retry_s - NOW_S)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert (
        some.halted == "5 instances in a row failed quickly; the last, w-0005: killed by signal 9"
    )
    assert some.halted_by == "w-0005"
    assert codes(some)[-1] == "TARN-1112"
    again = fail(some, starting(6))
    assert (again.halted, again.retry_s) == (some.halted, NOW_S + 32.0)
    assert fail(again, starting(7)).retry_s == NOW_S + 60.0


def test_a_crowd_that_fails_together_breaks_no_arithmetic() -> None:
    """Thousands of strikes still make a back-off of a minute."""
    some = fleet(*(starting(n) for n in range(1, 1200)))
    some = told(some, *(ended(n) for n in range(1, 1200)))
    assert (some.strikes, some.retry_s) == (1199, NOW_S + 60.0)


def test_a_failure_that_trying_again_cannot_help_gives_up_at_once() -> None:
    """There is no tritonserver: five attempts would not find one."""
    some = told(fleet(starting(1)), ended(1, "no tritonserver was found", permanent=True))
    assert some.halted == "another attempt cannot help, w-0001: no tritonserver was found"


def test_the_model_that_ended_launching_is_named_with_the_event() -> None:
    """As the reason blames it."""
    blaming = starting(1, state=InstanceState.DRAINING, blamed="m", reason="m is bad")
    some = fleet(attrs.evolve(blaming, condemned=True))
    some = told(some, ended(1, "it left", permanent=True))
    assert (some.halted_by, some.ended[-1].blamed, some.events[-1].models) == (
        "w-0001",
        "m",
        ("m",),
    )


def test_a_failure_after_five_seconds_ready_is_no_strike() -> None:
    """It launched well; 4.9 s are too quick."""
    long_ready = ready(1, ready_s=NOW_S - 5.0)
    assert fail(fleet(), long_ready).strikes == 0
    assert fail(fleet(), ready(1, ready_s=NOW_S - 4.9)).strikes == 1


def test_a_failure_on_its_way_out_is_no_strike() -> None:
    """It was not needed, broken already, or evicted: nothing is learnt about launching."""
    for flags in ({}, {"condemned": True}, {"evicted": True}):
        quick = draining(1, ready_s=NOW_S, **flags)
        some = fail(fleet(), quick)
        assert one(some, 1).state is InstanceState.FAILED
        assert some.strikes == 0


def test_strikes_end_when_a_new_instance_was_ready_for_five_seconds() -> None:
    """It was asked for after the back-off; 4.9 s are too quick."""
    some = fleet(ready(1, requested_s=NOW_S, ready_s=NOW_S), strikes=3, retry_s=NOW_S)
    assert read(some, reading(1), now_s=NOW_S + 4.9).strikes == 3
    assert read(some, reading(1), now_s=NOW_S + 5.0).strikes == 0


def test_those_that_served_all_the_while_end_no_strikes() -> None:
    """A fleet of healthy ones must not hide that no new one comes up: no endless loop."""
    old, adopted = ready(1, requested_s=NOW_S - 1.0), ready(2, adopted=True)
    some = fleet(old, adopted, strikes=3, retry_s=NOW_S)
    assert read(some, reading(1), reading(2), now_s=NOW_S + 60.0).strikes == 3


def test_launching_goes_on_while_others_serve() -> None:
    """Ten killed in a row beside a healthy one: back-off, but no end: the same launch works."""
    some = fleet(ready(99, ready_s=NOW_S - 5.0))
    for number in range(1, 11):
        some = fail(some, starting(number))
    assert some.halted == ""
    assert some.retry_s == NOW_S + 60.0


def test_launching_that_was_given_up_goes_on_once_an_instance_has_served_for_five_seconds() -> None:
    """Five were killed before any had served so long; the strikes keep the back-off at its most."""
    old = ready(1, ready_s=NOW_S, requested_s=NOW_S - 1.0)
    some = fleet(old, desired=2, halted="five", strikes=5, retry_s=NOW_S)
    assert read(some, reading(1), now_s=NOW_S + 4.9).halted == "five"
    healed = read(some, reading(1), now_s=NOW_S + 5.0)
    assert (healed.halted, healed.strikes, codes(healed)) == ("", 5, ["TARN-1127"])
    again = fail(healed, starting(2), now_s=NOW_S + 5.0)
    assert (again.halted, again.retry_s) == ("", NOW_S + 5.0 + 32.0)
    suspect = attrs.evolve(some, instances=(ready(1, suspect="no answer for 3 s"),))
    assert read(suspect, now_s=NOW_S + 60.0).halted == "five"


@settings(max_examples=200, deadline=None)
@given(kills=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_no_halt_outlives_an_instance_that_serves(kills: list[tuple[int, bool]]) -> None:
    """Whatever was killed how quickly: left alone, the fleet comes to its size by itself."""
    some, now_s = fleet(desired=3), NOW_S

    def second(dying: set[str]) -> Fleet:
        alive = [i for i in some.instances if i.id not in dying]
        over: tuple[Ended, ...] = tuple(ended(i.number) for i in some.instances if i.id in dying)
        facts: tuple[Fact, ...] = (*(running(i.number) for i in alive), *over)
        return step(some, RULES, now_s, facts, *(reading(i.number, now_s) for i in alive))

    for chosen, all_of_them in kills:
        now_s += 1.0
        ids = [i.id for i in some.instances]
        some = second(set(ids) if all_of_them else set(ids[chosen : chosen + 1]))
    some = second(set())
    serves = bool(some.view.members) or not some.halted
    for _ in range(200):
        now_s += 1.0
        some = second(set())
    assert bool(some.halted) is not serves
    assert len(some.view.members) == (3 if serves else 0)


def test_a_start_given_up_is_a_strike_with_tritons_own_words() -> None:
    """We stopped it ourselves, and yet it failed: five of them are the end."""
    some = fleet()
    for number in range(1, 6):
        vain = draining(number, ready_s=None, condemned=True, stop_posted=True, reason="no weights")
        some = attrs.evolve(some, instances=(vain,))
        some = told(some, ended(number, "stopped as asked", expected=True, last_error="E1"))
    assert some.ended[-1].state is InstanceState.FAILED
    assert some.ended[-1].reason == "no weights. Its last message: E1"
    assert some.halted.endswith("w-0005: no weights. Its last message: E1")
