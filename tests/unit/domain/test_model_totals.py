"""How fast models work, from their totals of the last seconds."""

import attrs
import pytest

from tarn.domain.counters import CounterSet
from tarn.domain.model_totals import ModelRates, ModelTotals, ModelTotalsHistory


def ended(*numbers: float, **named: float) -> ModelTotals:
    return ModelTotals(CounterSet(*numbers, **named))


def looks(*totals: ModelTotals, step_s: float = 1.0) -> ModelTotalsHistory:
    made = ModelTotalsHistory()
    for second, total in enumerate(totals):
        made = made.looked(second * step_s, {"echo": total}, 0)
    return made


def test_rates_are_the_growth_over_the_span() -> None:
    """Times are means of what ended in it; what is busy waits or executes."""
    before = ended(10.0, 1.0, 1e6, 1e5)
    after = attrs.evolve(ended(30.0, 2.0, 5e6, 1.1e6), pending=3.0, queues=1)
    rates = looks(before, before, after).rates("echo")
    assert rates == ModelRates(10.0, 0.5, 0.2, 0.05, 3.0 + 1.5)


def test_caches_and_first_responses_have_rates_where_a_model_has_them() -> None:
    """Of those that were looked up, and of those that were timed, in the span."""
    before = ended(10.0, cache_hits=100.0, first_responses=5.0, first_response_us=1e6)
    more = CounterSet(
        8.0, cache_hits=6.0, cache_misses=2.0, first_responses=2.0, first_response_us=5e5
    )
    after = ModelTotals(before.counted.plus(more))
    rates = looks(before, after).rates("echo")
    assert (rates.cache_hit_share, rates.first_response_s) == (0.75, 0.25)
    still = looks(after, after).rates("echo")
    assert (still.cache_hit_share, still.first_response_s) == (None, None)


def test_nothing_is_known_before_the_second_look_nor_of_a_stranger() -> None:
    """One look does not tell how fast a counter grows."""
    assert looks(ended(5.0)).rates("echo") == ModelRates()
    assert looks(ended(5.0), ended(6.0)).rates("other") == ModelRates()


def test_where_nothing_ended_there_is_no_latency() -> None:
    """And where no instance says what waits, nobody knows how busy it is."""
    assert looks(ended(5.0), ended(5.0)).rates("echo") == ModelRates(0.0, 0.0)


def test_a_model_that_appears_counts_from_zero_and_so_does_one_that_was_forgotten() -> None:
    """Its totals began at 0; lower ones than before did so again."""
    some = ModelTotalsHistory().looked(0.0, {}, 0).looked(2.0, {"echo": ended(4.0)}, 0)
    assert some.rates("echo").requests_per_s == pytest.approx(2.0)
    assert looks(ended(5.0), ended(1.0)).rates("echo").requests_per_s == 1.0


def test_only_the_last_seconds_are_kept() -> None:
    """Once a second, for ten."""
    made = looks(*(ended(float(n)) for n in range(60)))
    assert len(made.looks) == 11
    assert made.rates("echo").requests_per_s == pytest.approx(1.0)
    assert (made.due(59.5), made.due(60.0), ModelTotalsHistory().due(0.0)) == (False, True, True)
