"""What the scraper read, folded into the fleet."""

import attrs
import pytest
from given import (
    NOW_S,
    RULES,
    asked,
    codes,
    draining,
    fleet,
    gone,
    name,
    one,
    read,
    reading,
    ready,
    running,
    silent,
    starting,
    step,
)

from tarn.domain import Known, ModelState, Reading, Unknown
from tarn.domain.reading import NOT_READY, Silence


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


def test_the_model_that_keeps_an_instance_out_is_blamed_while_it_does() -> None:
    """Nobody is, while one still loads, or when all serve."""
    bad = ModelState("bad", "UNAVAILABLE", "no version")
    late = ModelState("late", "LOADING")
    some = read(fleet(starting(1)), reading(1, models=(bad, late)))
    assert one(some, 1).blamed == ""
    some = read(some, reading(1, models=(bad,)))
    assert (one(some, 1).blamed, one(some, 1).reason) == (
        "bad",
        "model bad is unavailable: no version",
    )
    assert some.events[-1].models == ("bad",)
    assert one(read(some, reading(1)), 1).blamed == ""


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


@pytest.mark.parametrize(
    ("what", "stuck"),
    [
        (reading(1, live=Known(value=False)), True),
        (reading(1, models=(ModelState("a", "UNAVAILABLE", "no weights"),)), True),
        (reading(1, models=(ModelState("a", "UNAVAILABLE"),)), False),
        (reading(1, models=(ModelState("a", "UNAVAILABLE", NOT_READY),)), False),
        (reading(1, models=(ModelState("a", "LOADING"),)), False),
        (reading(1, models=()), False),
        (reading(1, warm=False), False),
        (silent(1), False),
        (gone(1), False),
    ],
)
def test_a_start_is_stuck_when_its_answers_can_no_longer_change(what: Reading, stuck: bool) -> None:
    """Not live though it answers, or every model settled and none ready."""
    some = read(fleet(starting(1)), what)
    assert one(some, 1).stuck_s == (NOW_S if stuck else None)
    assert one(read(some, what, now_s=NOW_S + 1.0), 1).stuck_s == (NOW_S if stuck else None)


def test_a_question_that_the_master_did_not_come_to_ask_counts_against_nobody() -> None:
    """However much time passes: only from the first question without an answer to the newest."""
    quiet = attrs.evolve(silent(1), silence=Silence(NOW_S - 2.0, NOW_S))
    some = read(fleet(ready(1)), quiet)
    for later_s in (3.0, 60.0, 3600.0):
        some = read(some, quiet, now_s=NOW_S + later_s)
        assert one(some, 1).in_view
        assert one(some, 1).silent_for_s(NOW_S + later_s) == 2.0
        assert not step(some, RULES, NOW_S + later_s, (running(1),), quiet).instances[0].condemned
    longer = attrs.evolve(quiet, silence=Silence(NOW_S - 2.0, NOW_S + 1.0))
    out = read(some, longer, now_s=NOW_S + 3600.0)
    assert one(out, 1).suspect.startswith("no answer for 3 s")
    back = read(out, reading(1), now_s=NOW_S + 3601.0)
    assert (one(back, 1).silent_s, one(back, 1).asked_until_s) == (None, None)


def test_one_that_was_asked_in_vain_for_long_enough_is_replaced() -> None:
    asked_s = RULES.spec.instance.replace_after_s
    quiet = attrs.evolve(silent(1), silence=Silence(NOW_S, NOW_S + asked_s))
    fleet_of_one = fleet(ready(1))
    early = attrs.evolve(quiet, silence=Silence(NOW_S, NOW_S + asked_s - 0.1))
    assert not one(step(fleet_of_one, RULES, NOW_S + 99.0, (running(1),), early), 1).condemned
    assert one(step(fleet_of_one, RULES, NOW_S + 99.0, (running(1),), quiet), 1).condemned


@pytest.mark.parametrize(
    ("asked_s", "until_s", "silent_for_s"),
    [(12.5, 14.5, 4.5), (13.0, 13.0, 3.0), (60.0, 62.0, 5.0), (12.0, 12.0, 2.0)],
)
def test_a_pause_between_two_questions_counts_as_far_as_it_is_usual(
    asked_s: float, until_s: float, silent_for_s: float
) -> None:
    """Asked from 10 to 12, and again; a master that came back after a minute knows no more."""
    silence = Silence(10.0, 12.0).longer(asked_s, until_s, each_s=1.0)
    assert silence.until_s - silence.since_s == silent_for_s
    quiet = attrs.evolve(silent(1), silence=Silence(10.0, 12.0))
    some = read(fleet(ready(1)), quiet)
    after = read(some, attrs.evolve(quiet, silence=silence), now_s=NOW_S + 999.0)
    assert one(after, 1).silent_for_s(NOW_S + 999.0) == silent_for_s
