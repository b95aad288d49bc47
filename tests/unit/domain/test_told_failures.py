"""What clients say of instances: heard, bounded, and forgotten."""

from given import AT, NOW_S, fleet, ready, rules

from tarn.domain import Demand
from tarn.domain.fleet import Fleet
from tarn.domain.obey import obey
from tarn.domain.told_failures import HOLDS_S, MOST_TOLD, hear_failures, told_failures

ONE, TWO = ready(1), ready(2)


def word(source: str, **failures: int) -> Demand:
    return Demand(source, 0, 0, tuple((k.replace("_", "-"), n) for k, n in failures.items()))


def heard(some: Fleet, demand: Demand, now_s: float = NOW_S) -> Fleet:
    return obey(some, demand, rules(), now_s=now_s, at=AT)[0]


def test_words_of_several_clients_are_added_and_the_newest_of_each_counts() -> None:
    some = heard(fleet(ONE, TWO), word("a", w_0001=3, w_0002=1))
    some = heard(some, word("b", w_0001=4))
    assert told_failures(some, NOW_S) == {ONE.id: 7, TWO.id: 1}
    assert told_failures(heard(some, word("a", w_0001=1)), NOW_S)[ONE.id] == 5


def test_a_word_is_forgotten_after_a_while() -> None:
    """Also where another one is heard later."""
    some = heard(fleet(ONE), word("a", w_0001=3))
    assert told_failures(some, NOW_S + HOLDS_S) == {}
    some = heard(some, word("b", w_0001=1), NOW_S + HOLDS_S)
    assert len(some.told_failures) == 1


def test_who_is_no_instance_and_nothing_at_all_are_passed_over() -> None:
    some = fleet(ONE)
    assert heard(some, word("a", w_0009=3, w_0001=0)) is some


def test_a_word_starts_no_instance() -> None:
    """It says nothing of requests that wait."""
    assert heard(fleet(ONE), word("a", w_0001=3)).demand is None


def test_words_are_bounded() -> None:
    """The newest stay."""
    some = fleet(ONE)
    for number in range(MOST_TOLD + 1):
        some = hear_failures(some, word(f"c{number}", w_0001=1), NOW_S)
    assert len(some.told_failures) == MOST_TOLD
    assert some.told_failures[-1].source == f"c{MOST_TOLD}"
