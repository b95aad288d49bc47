"""What clients say of instances: heard, bounded, forgotten, and checked by test requests."""

import pytest
from given import AT, NOW_S, fleet, ready, rules
from gray_world import MODEL, Fault, GrayWorld
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarn.domain import Demand, Reading
from tarn.domain.apply_command import apply_command
from tarn.domain.events import Requester
from tarn.domain.fleet import Fleet
from tarn.domain.hint_checks import (
    AGAIN_S,
    HOLDS_S,
    LASTS_S,
    MOST_CHECKS,
    MOST_CHECKS_BY_ONE,
    MOST_TOLD,
    MOST_TOLD_BY_ONE,
    check_hints,
    hear_failures,
)
from tarn.domain.instance import FirstSign
from tarn.domain.outcomes import TestResult

SERVES = ((MODEL, "READY", ""),)
ONE, TWO = ready(1, models=SERVES), ready(2, models=SERVES)
EACH_CHECK = 3
"""Test requests of one check: two to the instance, one to another."""


def word(source: str, model: str = MODEL, **failures: int) -> Demand:
    told = tuple((id_.replace("_", "-"), model, count) for id_, count in failures.items())
    return Demand(source, 0, 0, told)


def heard(some: Fleet, demand: Demand, now_s: float = NOW_S, who: str = "eve") -> Fleet:
    asker = Requester("r", user=who)
    return apply_command(some, demand, rules(), now_s=now_s, at=AT, asker=asker)[0]


def test_the_newest_word_of_each_client_is_kept_with_who_it_was() -> None:
    some = heard(fleet(ONE, TWO), word("a", w_0001=3, w_0002=1))
    some = heard(some, word("b", w_0001=4), who="bob")
    some = heard(some, word("a", w_0001=2))
    kept = {(t.source, t.instance_id, t.count, t.principal) for t in some.told_failures}
    assert kept == {
        ("a", "w-0001", 2, "the user eve"),
        ("a", "w-0002", 1, "the user eve"),
        ("b", "w-0001", 4, "the user bob"),
    }


def test_a_word_is_forgotten_after_a_while() -> None:
    some = heard(fleet(ONE), word("a", w_0001=3))
    some, _ = check_hints(some, {}, NOW_S + HOLDS_S, doubt=False)
    assert some.told_failures == ()


def test_who_is_no_instance_and_models_that_it_lacks_are_passed_over() -> None:
    some = fleet(ONE)
    assert heard(some, word("a", w_0009=3, w_0001=0)) is some
    assert heard(some, word("a", "invented", w_0001=3)) is some


def test_a_word_starts_no_instance() -> None:
    """It says nothing of requests that wait."""
    assert heard(fleet(ONE), word("a", w_0001=3)).demand is None


def test_words_are_bounded_and_one_caller_displaces_no_other() -> None:
    """The newest stay."""
    some = hear_failures(fleet(ONE), word("honest", w_0001=1), "bob", NOW_S)
    for number in range(MOST_TOLD_BY_ONE + 1):
        some = hear_failures(some, word(f"c{number}", w_0001=1), "eve", NOW_S)
    assert len(some.told_failures) == MOST_TOLD_BY_ONE + 1
    assert some.told_failures[0].source == "honest"
    for number in range(MOST_TOLD):
        some = hear_failures(some, word("c", w_0001=1), f"u{number}", NOW_S)
    assert len(some.told_failures) == MOST_TOLD


def test_a_check_begins_at_once_and_not_again_for_a_while() -> None:
    some = heard(fleet(ONE, TWO), word("a", w_0001=3))
    some, proven = check_hints(some, {}, NOW_S, doubt=False)
    (check,) = some.hint_checks
    assert (check.instance_id, check.model, check.over, proven) == (ONE.id, MODEL, False, ())
    some, _ = check_hints(some, {}, NOW_S + LASTS_S, doubt=False)
    assert some.hint_checks[0].over
    some = heard(some, word("a", w_0001=3), NOW_S + AGAIN_S - 1.0)
    some, _ = check_hints(some, {}, NOW_S + AGAIN_S - 1.0, doubt=False)
    assert some.hint_checks[0].over
    some, _ = check_hints(some, {}, NOW_S + AGAIN_S, doubt=False)
    assert not some.hint_checks[0].over


def test_no_check_begins_where_the_master_doubts_itself() -> None:
    some = heard(fleet(ONE), word("a", w_0001=3))
    assert check_hints(some, {}, NOW_S, doubt=True) == (some, ())


def test_one_caller_uses_up_no_other_ones_checks() -> None:
    instances = [ready(number, models=SERVES) for number in range(1, 9)]
    every = {i.id.replace("-", "_"): 1 for i in instances}
    some = heard(fleet(*instances), word("a", **every))
    some = heard(some, word("a", w_0008=1), who="bob")
    some, _ = check_hints(some, {}, NOW_S, doubt=False)
    assert len(some.hint_checks) == MOST_CHECKS_BY_ONE + 1
    assert some.hint_checks[-1].principal == "the user bob"


def test_all_that_one_caller_tells_of_have_their_turn() -> None:
    """Those that were not checked yet come first."""
    instances = [ready(number, models=SERVES) for number in range(1, 13)]
    every = {i.id.replace("-", "_"): 1 for i in instances}
    some, checked = fleet(*instances), set[str]()
    for minute in range(3):
        now_s = NOW_S + minute * AGAIN_S
        some = heard(some, word("a", **every), now_s)
        some, _ = check_hints(some, {}, now_s, doubt=False)
        checked |= {check.instance_id for check in some.hint_checks}
    assert len(checked) == 12


def answers(*told: tuple[str, bool, bool]) -> dict[str, Reading]:
    """Return readings in which a test request was answered since: id, whether well, and proven."""
    return {
        id_: Reading(
            id_, NOW_S + 0.2, tested=TestResult(NOW_S + 0.1, ok, "bad", 1, MODEL, proven=proven)
        )
        for id_, ok, proven in told
    }


NOTICED = {("w-0001", "failing"): FirstSign(NOW_S, MODEL, "it failed 9 of 9")}


@pytest.mark.parametrize(
    ("said", "proven"),
    [
        (answers(("w-0001", False, True), ("w-0002", True, True)), True),
        (answers(("w-0001", False, True), ("w-0002", False, True)), False),
        (answers(("w-0001", False, True)), False),
        (answers(("w-0001", False, False), ("w-0002", True, True)), False),
        (answers(("w-0001", True, True), ("w-0002", True, True)), False),
    ],
    ids=["another answers", "none answers", "none other asked yet", "unproven", "it answers"],
)
def test_what_one_look_shows_is_sure_when_a_test_request_fails_there_alone(
    said: dict[str, Reading], proven: bool
) -> None:
    """Counters and one test request agree, so no second look is waited for."""
    some, found = check_hints(fleet(ONE, TWO, noticed=NOTICED), {}, NOW_S, doubt=False)
    assert [(c.instance_id, c.noticed) for c in some.hint_checks] == [
        ("w-0001", "it failed 9 of 9")
    ]
    assert not found
    _, found = check_hints(some, said, NOW_S + 0.3, doubt=False)
    assert [one.said for one in found] == ["it failed 9 of 9"] * proven


def test_what_a_look_shows_is_not_checked_for_what_a_client_tells_instead() -> None:
    """It takes one test request that fails; a hint takes two."""
    some = heard(fleet(ONE, TWO, noticed=NOTICED), word("a", w_0001=3))
    some, _ = check_hints(some, {}, NOW_S, doubt=False)
    assert [(check.principal, check.noticed) for check in some.hint_checks] == [
        ("", "it failed 9 of 9")
    ]


def test_what_a_look_shows_again_and_again_is_checked_once_in_a_while() -> None:
    some, _ = check_hints(fleet(ONE, TWO, noticed=NOTICED), {}, NOW_S, doubt=False)
    for after_s, began_s in ((1.0, NOW_S), (LASTS_S, NOW_S + LASTS_S)):
        some, _ = check_hints(some, {}, NOW_S + after_s, doubt=False)
        assert [check.since_s for check in some.hint_checks] == [began_s]


def most_in_a_minute(times: list[float]) -> int:
    return max((sum(a <= b < a + 60.0 for b in times) for a in times), default=0)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 2**32),
    st.integers(1, 24),
    st.sampled_from(["", "busy"]),
    st.sampled_from([1, 9]),
)
def test_liars_eject_nobody_and_cause_few_test_requests(
    seed: int, size: int, kind: str, liars: int
) -> None:
    """Who reports every instance all the time; *busy*: test requests of ours wait too long."""
    world = GrayWorld(seed, size)
    if kind:
        world.everywhere = Fault(kind)
    world.hints = [(f"liar{number}", ()) for number in range(liars)]
    world.run(200)
    assert world.count("TARN-1122") == world.count("TARN-1142") == 0
    assert world.tests_sent
    most = EACH_CHECK * min(MOST_CHECKS, liars * MOST_CHECKS_BY_ONE)
    assert most_in_a_minute(world.tests_sent) <= most


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "no counters"])
def test_an_honest_hint_about_what_no_counter_shows_is_confirmed(counted: bool) -> None:
    """An instance that cuts connections: a test request goes out in the next tick."""
    world = GrayWorld(1, 3)
    world.counted = counted
    world.run(40)
    sick = world.tritons["w-0002"]
    sick.fault = Fault("reset")
    world.run(60)
    assert not any(i.unwell for i in world.fleet.instances), "or nobody needs a hint"
    world.hints = [("bob", ("w-0002",))]
    world.step()
    assert [check.instance_id for check in world.fleet.hint_checks] == ["w-0002"]
    world.run(2)
    assert world.tests_sent == [world.now_s - 1.0]
    world.run(6)
    assert "w-0002" not in [m.instance_id for m in world.fleet.view.members]
    (note,) = [said for _, code, _, said in world.log if code == "TARN-1122"]
    assert "clients reported" in note
    assert "connection reset" in note
    world.run(30)
    assert world.replaced == ["w-0002"]


def test_where_the_same_request_fails_elsewhere_too_nobody_is_suspected() -> None:
    """It is the model, or the request."""
    world = GrayWorld(1, 3)
    world.counted = False
    world.run(20)
    world.everywhere = Fault("failing")
    world.hints = [("bob", ())]
    world.run(200)
    assert world.tests_sent
    assert world.count("TARN-1122") == 0


def test_a_hint_about_the_only_instance_is_checked_by_itself() -> None:
    """With nobody to compare with, our test requests alone say it; it serves until another does."""
    world = GrayWorld(1, 1)
    world.counted = False
    world.run(20)
    world.tritons["w-0001"].fault = Fault("reset")
    world.hints = [("bob", ())]
    for _ in range(20):
        world.run(1)
        assert world.fleet.view.members
    assert world.count("TARN-1122") == 1
    assert world.replaced == ["w-0001"]
