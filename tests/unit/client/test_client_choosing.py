"""Which instance gets a request."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tarn.client.choosing import choose


@attrs.define
class One:
    in_flight: int


draws = st.floats(0, 1, exclude_max=True)
fleets = st.lists(st.integers(0, 50).map(One), min_size=1, max_size=20)


@given(fleets, st.integers(0, 10_000), draws)
def test_never_the_busiest_unless_all_are_as_busy(fleet, turn, draw):
    """Of any two the less busy one gets it: the busiest only by meeting its equal, or itself."""
    chosen = fleet[choose(fleet, turn, draw)]
    first, second = fleet[turn % len(fleet)], fleet[int(draw * len(fleet))]
    assert chosen.in_flight == min(first.in_flight, second.in_flight)


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


@given(st.integers(0, 1000), st.lists(draws, min_size=300, max_size=300))
def test_one_that_hangs_gets_hardly_anything(begin, chances):
    """Three instances, one with five requests that never end: it gets one in nine, by its turn."""
    fleet = [One(5), One(0), One(0)]
    got = [choose(fleet, begin + n, draw) for n, draw in enumerate(chances)]
    own = sum(1 for n, draw in enumerate(chances) if (begin + n) % 3 == 0 and int(draw * 3) == 0)
    assert got.count(0) == own
