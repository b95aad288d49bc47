"""A histogram as Prometheus has it."""

from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.tally import Histogram


def test_a_value_counts_in_the_first_bound_that_is_no_smaller() -> None:
    """``le`` is "at most"; what is beyond all has a place, too, and time never runs backwards."""
    one = Histogram((1.0, 5.0)).seen(1.0).seen(1.1).seen(9.0).seen(-3.0)
    assert (one.counts, one.count, one.total) == ((2, 1, 1), 4, 11.1)


@given(values=st.lists(st.floats(0, 1e6)))
def test_every_value_counts_once(values: list[float]) -> None:
    """Whatever comes, in whatever order."""
    one = Histogram((0.5, 10.0, 1e3))
    for value in values:
        one = one.seen(value)
    assert one.count == len(values)
    assert one.counts[0] == sum(value <= 0.5 for value in values)
