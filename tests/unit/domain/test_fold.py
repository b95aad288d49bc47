"""What the runtime and the scraper say, folded into the fleet."""

import attrs
import pytest
from given import (
    AT,
    NOW_S,
    asked,
    codes,
    draining,
    ended,
    endpoint,
    fleet,
    gone,
    name,
    one,
    reading,
    readings,
    ready,
    rules,
    running,
    silent,
    starting,
)

from tarn.domain import Asked, Fact, Instance, Known, ModelState, Reading, State, Unknown
from tarn.domain.fleet import Fleet
from tarn.domain.fold import fold_facts, fold_readings

RULES = rules()


def told(some: Fleet, *facts: Fact, now_s: float = NOW_S) -> Fleet:
    return fold_facts(some, facts, now_s, AT)


def read(some: Fleet, *what: Reading, now_s: float = NOW_S, late: bool = False) -> Fleet:
    return fold_readings(some, readings(*what), RULES, now_s, AT, late=late)


def fail(some: Fleet, instance: Instance, now_s: float = NOW_S) -> Fleet:
    """Return *some* after *instance* joined it and failed."""
    some = attrs.evolve(some, instances=(*some.instances, instance))
    return told(some, *_alive(some), ended(instance.number), now_s=now_s)


def _alive(some: Fleet) -> list[Fact]:
    return [running(i.number) for i in some.instances[:-1]]


# The runtime's word.


def test_the_same_word_twice_changes_nothing() -> None:
    """Whole states: the very same fleet comes back."""
    some = fleet(asked(1), ready(2))
    once = told(some, Asked(name(1), "hash", "no node is free"), running(2))
    assert one(once, 1).reason == "no node is free"
    assert told(once, Asked(name(1), "hash", "no node is free"), running(2)) is once


def test_a_process_makes_an_asked_instance_starting() -> None:
    """It has a place now, and the event says where."""
    some = told(fleet(asked(1)), running(1, ranks=2), now_s=NOW_S + 5.0)
    first = one(some, 1)
    assert (first.state, first.since_s) == (State.STARTING, NOW_S + 5.0)
    assert (first.endpoint, first.container_id, first.node, first.ranks) == (
        endpoint(1),
        "c1",
        "h",
        2,
    )
    assert some.events[0].message == "started on h as c1"


def test_a_container_that_changed_is_believed() -> None:
    """A runtime that granted twice names the one that runs."""
    some = told(fleet(ready(1)), attrs.evolve(running(1), container_id="other"))
    assert one(some, 1).container_id == "other"


def test_an_instance_that_was_only_asked_for_is_not_missed() -> None:
    """Nothing ran yet, so nothing is lost; it is asked for again."""
    some = fleet(asked(1))
    assert told(some, now_s=NOW_S + 60.0) is some


def test_an_instance_of_which_nothing_is_said_is_lost_after_ten_seconds() -> None:
    """A gap in the runtime's word is forgiven; the limit is sharp."""
    some = told(fleet(ready(1)))
    assert one(some, 1).missing_s == NOW_S
    assert told(some, now_s=NOW_S + 9.9) is some
    assert one(told(some, running(1), now_s=NOW_S + 9.9), 1).missing_s is None
    lost = told(some, now_s=NOW_S + 10.0)
    assert one(lost, 1).state is State.FAILED
    assert one(lost, 1).reason == "the runtime knows it no more"


def test_an_ask_forgives_a_gap_too() -> None:
    """The runtime knows it again."""
    some = told(fleet(starting(1)))
    back = told(some, Asked(name(1), "hash"))
    assert one(back, 1).missing_s is None
    assert one(back, 1).state is State.STARTING


def test_a_running_stranger_is_taken_in_only_to_be_stopped() -> None:
    """It is condemned, and its number is never minted again."""
    some = told(fleet(ready(1)), running(1), running(7), running(9))
    assert [i.id for i in some.instances] == [name(1), name(7), name(9)]
    assert one(some, 7).state is State.DRAINING
    assert one(some, 7).condemned
    assert some.next_number == 10
    assert codes(some) == ["TARN-1108"] * 2


def test_an_end_that_nobody_knows_is_old_news() -> None:
    """The wish that names it no more is still on its way."""
    some = fleet(ready(1))
    assert told(some, running(1), ended(7)) is some


# Ends, and what is said of them.


@pytest.mark.parametrize(
    ("instance", "receipt"),
    [
        (
            attrs.evolve(asked(1), state=State.DRAINING, stop_posted=True),
            "cancelled before it started",
        ),
        (
            starting(1, state=State.DRAINING, stop_posted=True),
            "stopped before it was ready",
        ),
        (draining(1, stop_posted=True), "drained in 3.0 s, 0 cut"),
        (
            draining(1, stop_posted=True, busy=Known(0.4)),
            "drained in 3.0 s, 1 cut at drain.timeout",
        ),
        (
            draining(1, stop_posted=True, busy=Unknown("late")),
            "drained in 3.0 s, requests in flight unknown",
        ),
        (
            draining(1, stop_posted=True, condemned=True, reason="silent for 30 s"),
            "drained in 3.0 s: silent for 30 s",
        ),
    ],
)
def test_the_receipt_of_a_stop_says_what_was_cut(instance: Instance, receipt: str) -> None:
    """Whatever still ran is counted, rounded up, never silently lost."""
    some = told(fleet(instance), ended(1), now_s=NOW_S + 3.0)
    assert one(some, 1).state is State.STOPPED
    assert one(some, 1).reason == receipt
    assert codes(some) == ["TARN-1104"]
    assert some.strikes == 0


def test_an_end_that_was_asked_for_by_an_earlier_master_is_no_failure() -> None:
    """The runtime says that it was expected."""
    some = told(fleet(ready(1)), ended(1, expected=True))
    assert one(some, 1).state is State.STOPPED


def test_only_the_last_twenty_ends_are_kept() -> None:
    """Oldest first; the rest is in the log."""
    some = fleet(*(draining(n, stop_posted=True) for n in range(1, 26)))
    some = told(some, *(ended(n) for n in range(1, 26)))
    assert [i.number for i in some.ended] == list(range(6, 26))


# Back-off.


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
    assert codes(some)[-1] == "TARN-1112"
    again = fail(some, starting(6))
    assert (again.halted, again.retry_s) == (some.halted, NOW_S + 32.0)
    assert fail(again, starting(7)).retry_s == NOW_S + 60.0


def test_a_crowd_that_fails_together_breaks_no_arithmetic() -> None:
    """Thousands of strikes still make a back-off of a minute."""
    some = fleet(*(starting(n) for n in range(1, 1200)))
    some = told(some, *(ended(n) for n in range(1, 1200)))
    assert (some.strikes, some.retry_s) == (1199, NOW_S + 60.0)


def test_a_failure_after_ten_seconds_ready_is_no_strike() -> None:
    """It launched well; 9.9 s are too quick."""
    long_ready = ready(1, ready_s=NOW_S - 10.0)
    assert fail(fleet(), long_ready).strikes == 0
    assert fail(fleet(), ready(1, ready_s=NOW_S - 9.9)).strikes == 1


def test_a_failure_on_its_way_out_is_no_strike() -> None:
    """It was not needed, broken already, or evicted: nothing is learnt about launching."""
    for flags in ({}, {"condemned": True}, {"evicted": True}):
        quick = draining(1, ready_s=NOW_S, **flags)
        some = fail(fleet(), quick)
        assert one(some, 1).state is State.FAILED
        assert some.strikes == 0


def test_strikes_end_when_a_new_instance_was_ready_for_ten_seconds() -> None:
    """It was asked for after the back-off; 9.9 s are too quick."""
    some = fleet(ready(1, requested_s=NOW_S, ready_s=NOW_S), strikes=3, retry_s=NOW_S)
    assert read(some, reading(1), now_s=NOW_S + 9.9).strikes == 3
    assert read(some, reading(1), now_s=NOW_S + 10.0).strikes == 0


def test_those_that_served_all_the_while_end_no_strikes() -> None:
    """A fleet of healthy ones must not hide that no new one comes up: no endless loop."""
    old, adopted = ready(1, requested_s=NOW_S - 1.0), ready(2, adopted=True)
    some = fleet(old, adopted, strikes=3, retry_s=NOW_S)
    assert read(some, reading(1), reading(2), now_s=NOW_S + 60.0).strikes == 3


# The scraper's word.


def test_equal_readings_give_the_very_same_fleet() -> None:
    """Newer stamps and ages alone are no change."""
    some = read(fleet(ready(1), starting(2)), reading(1), silent(2))
    later = reading(1, NOW_S + 1.0, busy=Known(0.0, age_s=0.3))
    assert read(some, later, silent(2, NOW_S + 1.0), now_s=NOW_S + 1.0) is some


def test_a_reading_of_what_is_asked_for_or_being_stopped_counts_for_nothing() -> None:
    """The receipt tells what was read last before the stop."""
    some = fleet(asked(1), draining(2, stop_posted=True, busy=Known(3.0)))
    assert read(some, reading(1), reading(2)) is some


def test_a_silent_instance_leaves_the_view_after_three_seconds() -> None:
    """Silence is never certain: `unready_after` is waited for, and is sharp."""
    some = read(fleet(ready(1)), silent(1))
    assert one(some, 1).silent_s == NOW_S
    assert one(read(some, silent(1), now_s=NOW_S + 2.9), 1).in_view
    out = read(some, silent(1), now_s=NOW_S + 3.0)
    assert one(out, 1).suspect == "no answer for 3 s: no answer for 2 s"
    assert codes(out) == ["TARN-1106"]
    back = read(out, reading(1), now_s=NOW_S + 4.0)
    assert one(back, 1).in_view
    assert codes(back) == ["TARN-1106", "TARN-1107"]


def test_a_live_instance_whose_models_do_not_answer_is_silent_and_nothing_more() -> None:
    """One index that timed out is Unknown, and Unknown is no certainty."""
    half = Reading(name(1), NOW_S, Known(value=True), models=Unknown("no answer for 2 s"))
    some = read(fleet(ready(1)), half)
    assert one(some, 1).in_view
    assert one(some, 1).silent_s == NOW_S
    assert not one(read(some, half, now_s=NOW_S + 3.0), 1).in_view


def test_a_closed_port_leaves_the_view_at_once() -> None:
    """Nothing listens any more, and that is certain."""
    some = read(fleet(ready(1)), gone(1))
    assert one(some, 1).suspect == "connection refused"
    assert one(some, 1).gone


def test_a_model_that_loads_again_only_withdraws() -> None:
    """It answers, so it is not silent, and will not be replaced."""
    some = read(fleet(ready(1)), reading(1, models=(ModelState("echo", "LOADING"),)))
    assert one(some, 1).suspect == "loading model 1 of 1: echo"
    assert one(some, 1).silent_s is None


def test_nobody_is_marked_for_silence_while_the_observer_is_suspect() -> None:
    """Frozen or late, the silent stay in the view; what is certain still counts."""
    quiet = ready(1, silent_s=NOW_S - 60.0)
    frozen = fleet(quiet, ready(2), frozen_s=NOW_S)
    assert one(read(frozen, silent(1)), 1).in_view
    assert one(read(fleet(quiet), silent(1), late=True), 1).in_view
    assert not one(read(frozen, gone(2)), 2).in_view


def test_a_mark_changes_its_words_without_another_event() -> None:
    """It was silent and is gone now: one withdrawal."""
    some = read(fleet(ready(1, suspect="no answer for 3 s", silent_s=NOW_S)), gone(1))
    assert one(some, 1).suspect == "connection refused"
    assert codes(some) == []


def test_a_starting_instance_says_what_it_waits_for() -> None:
    """`why` shows it; it takes no mark."""
    some = read(fleet(starting(1)), reading(1, models=(ModelState("echo", "LOADING"),)))
    assert one(some, 1).reason == "loading model 1 of 1: echo"
    assert one(some, 1).suspect == ""


def test_a_model_that_fails_is_told_once_with_tritons_own_words() -> None:
    """As long as it stays so, it is not told again."""
    models = (ModelState("bad", "UNAVAILABLE", "no such file"), ModelState("echo", "READY"))
    some = read(fleet(ready(1)), reading(1, models=models))
    assert [(e.code, e.message) for e in some.events] == [("TARN-1111", "bad: no such file")]
    more = (*models, ModelState("new", "READY"))
    assert codes(read(some, reading(1, models=more))) == ["TARN-1111"]


def test_how_busy_a_drain_is_carries_the_moment_it_was_read() -> None:
    """A newer health look does not make an older metric newer."""
    old = reading(1, NOW_S, busy=Known(2.0, age_s=0.75))
    first = one(read(fleet(draining(1)), old), 1)
    assert (first.busy, first.busy_s) == (Known(2.0, age_s=0.75), NOW_S - 0.75)
    unknown = one(read(fleet(draining(1)), reading(1, busy=Unknown("late"))), 1)
    assert (unknown.busy, unknown.busy_s) == (Unknown("late"), NOW_S)


def test_a_new_number_of_requests_is_kept() -> None:
    """Known to Known, Known to Unknown, and back."""
    some = read(fleet(ready(1)), reading(1, busy=Known(2.0)))
    assert one(some, 1).busy == Known(2.0)
    some = read(some, reading(1, busy=Unknown("late")))
    assert one(some, 1).busy == Unknown("late")
    assert read(some, reading(1, busy=Unknown("late"))) is some
    assert one(read(some, reading(1, busy=Known(2.0))), 1).busy == Known(2.0)
