"""What counts as a steady growth."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Known, Sample, Unknown
from tarn_plugins.scaling.target import TREND_S, steady_growth

NOW_S = 1000.0


def growth(values: list[float | None], interval_s: float = 1.0) -> float:
    last = len(values) - 1
    history: list[tuple[float, Sample[float]]] = [
        (NOW_S - (last - n) * interval_s, Unknown("no") if v is None else Known(v))
        for n, v in enumerate(values)
    ]
    return steady_growth(history, NOW_S)


@given(st.floats(0.001, 100), st.sampled_from((1.0, 2.0, 10.0, 20.0)))
def test_a_straight_line_has_its_slope(slope: float, interval_s: float) -> None:
    """Whatever the interval, as long as each fifth of the time has a sample."""
    values: list[float | None] = [slope * n * interval_s for n in range(150)]
    assert growth(values, interval_s) == pytest.approx(slope, rel=0.01)


@given(st.floats(0, 1000), st.integers(1, 110))
def test_a_jump_is_none(height: float, ago: int) -> None:
    """Up or down, whenever it was."""
    assert growth([5.0] * (120 - ago) + [5.0 + height] * ago) == 0
    assert growth([5.0 + height] * (120 - ago) + [5.0] * ago) == 0


def test_a_falling_load_is_none() -> None:
    """Zero, never negative."""
    assert growth([float(n) for n in range(120, 0, -1)]) == 0


def test_noise_is_seldom_any() -> None:
    """Of 3 %, each second its own: less than a thousandth a second, on average."""
    chance = random.Random(1)
    found = [growth([100 + chance.gauss(0, 3) for _ in range(120)]) for _ in range(300)]
    assert sum(found) / len(found) < 0.02
    assert sum(rise > 0 for rise in found) < 90
    assert max(found) * 40 < 3


def test_too_little_is_known() -> None:
    """A fifth of the time without a sample, and a start, say nothing of a trend."""
    line: list[float | None] = [float(n) for n in range(120)]
    assert growth(line[-80:]) == 0
    assert growth([*line[:60], *[None] * 25, *line[85:]]) == 0
    assert growth([*line[:60], *[None] * 10, *line[70:]]) == pytest.approx(1, rel=0.3)
    assert growth([]) == 0
    assert TREND_S == 100
