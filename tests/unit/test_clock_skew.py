"""How far another clock is off, from a ``Date`` header."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.clock import Skew, skew, skewed
from tarn.domain import CODES


@given(
    now=st.floats(1e9, 2e9),
    off_s=st.floats(-1e6, 1e6),
    took_s=st.floats(0, 60),
    part=st.floats(0, 1),
)
def test_the_truth_lies_between_the_bounds(now, off_s, took_s, part):
    """Whenever between question and answer the header was written."""
    written = now + part * took_s + off_s
    found = skew(formatdate(int(written), usegmt=True), now, now + took_s)
    assert found.least_s <= off_s + 0.001
    assert found.most_s >= off_s - 0.001
    assert found.most_s - found.least_s == pytest.approx(1 + took_s, abs=1e-3)
    assert abs(found.sure_s) <= abs(off_s) + 0.001


@pytest.mark.parametrize("date", ["", "yesterday", "Sat, 28 Nov 99999 14:00:00 GMT", "0"])
def test_what_is_no_date_tells_nothing(date):
    """A server may send anything."""
    assert skew(date, 0, 0) is None


@pytest.mark.parametrize(
    ("off", "said", "fatal"),
    [
        (Skew(-0.5, 0.6), None, False),
        (Skew(3, 4), None, False),
        (Skew(60, 61), "60 s ahead of", False),
        (Skew(-401, -400), "400 s behind", True),
    ],
)
def test_a_clock_is_named_where_it_is_off(off, said, fatal):
    """A few seconds are of no consequence; where Kerberos is used, five minutes are fatal."""
    found = skewed("the server", off, fatal_s=300)
    if said is None:
        assert found is None
    else:
        assert said in found.found
        assert found.fatal is fatal
        assert found.code in CODES
