"""Which instance gets a request."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tarn.client.pool import choose


@attrs.define
class One:
    in_flight: int


draws = st.floats(0, 1, exclude_max=True)
fleets = st.lists(st.integers(0, 50).map(One), min_size=1, max_size=20)


@given(fleets, st.integers(0, 10_000), draws)
def test_never_the_busiest_unless_another_is_as_busy(fleet, turn, draw):
    """Of two different ones the less busy one gets it."""
    chosen = choose(fleet, turn, draw)
    others = [one.in_flight for number, one in enumerate(fleet) if number != chosen]
    assert not others or fleet[chosen].in_flight <= max(others)


@given(st.integers(1, 20), st.integers(0, 1000), st.lists(draws, min_size=1, max_size=60))
def test_one_caller_goes_round(count, begin, chances):
    """Nothing in flight: each has its turn, whatever is drawn."""
    idle = [One(0) for _ in range(count)]
    order = [choose(idle, begin + n, draw) for n, draw in enumerate(chances)]
    assert order == [(begin + n) % count for n in range(len(chances))]


@given(st.integers(1, 10), st.integers(0, 1000), st.lists(draws, min_size=60, max_size=60))
def test_requests_that_stay_spread_evenly(count, begin, chances):
    """Many at once on an idle fleet: nobody has more than two above its share."""
    fleet = [One(0) for _ in range(count)]
    for n, draw in enumerate(chances):
        fleet[choose(fleet, begin + n, draw)].in_flight += 1
    share = len(chances) / count
    assert max(one.in_flight for one in fleet) <= share + 2


@given(st.integers(2, 10), st.integers(0, 1000), st.lists(draws, min_size=60, max_size=60))
def test_one_that_hangs_gets_nothing_more(count, begin, chances):
    """One has five requests that never end, and the others are idle."""
    fleet = [One(5), *(One(0) for _ in range(count - 1))]
    assert 0 not in [choose(fleet, begin + n, draw) for n, draw in enumerate(chances)]
