"""Requests that want a server where there is none."""

from hypothesis import strategies as st

from tarn.follow import UnservedRequests
from tarn.testing.fakes import FakeClock
from tarn.testing.strategies import for_any
from tarn_plugins.discovery.haproxy.backends import Traffic
from tarn_plugins.discovery.haproxy.servers import FORGET_AFTER_S, DemandProbe, unserved

counts = st.integers(0, 10_000)
traffic = st.builds(Traffic, refused=counts, queued=counts, open=counts)


@for_any(before=traffic, now=traffic)
def test_what_is_held_and_what_was_refused_since_are_told_apart(
    before: Traffic, now: Traffic
) -> None:
    """Never negative: a counter that fell began anew."""
    refused = now.refused - before.refused if now.refused >= before.refused else now.refused
    assert unserved(before, now) == UnservedRequests(now.queued, refused)
    assert unserved(None, now) == UnservedRequests(now.queued, 0)


def test_the_first_reading_counts_nothing_as_refused() -> None:
    """Nor does one after a long time: what was refused then is no demand of today."""
    clock, shown = FakeClock(), [Traffic(90, 0, 0)]
    demand = DemandProbe(lambda: shown[-1], clock)
    assert demand() == UnservedRequests()
    shown.append(Traffic(93, 1, 0))
    clock.advance(1.0)
    assert demand() == UnservedRequests(1, 3)
    assert demand() == UnservedRequests(1, 0)
    shown.append(Traffic(193, 0, 0))
    clock.advance(FORGET_AFTER_S + 1)
    assert demand() == UnservedRequests()
