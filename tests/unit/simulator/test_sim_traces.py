"""Loads over time: what is read, what is refused, and what a seed makes."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ConfigError
from tarn_plugins.cli.simulate.trace import FAMILIES, Trace, generated


def written(folder: Path, text: str) -> Path:
    path = folder / "load.csv"
    path.write_text(text, "utf-8")
    return path


def test_a_file_is_read_whatever_else_its_columns_are(tmp_path: Path) -> None:
    """Columns are found by name; blank lines and a byte order mark are no trouble."""
    path = written(tmp_path, "\ufeffrequests_per_s,note,t_s\n10,a,0\n\n20.5,b,60\n0,c,120\n")
    trace = Trace.read(path)
    assert trace == Trace("load", (0.0, 60.0, 120.0), (10.0, 20.5, 0.0))
    assert trace.duration_s == 120


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: no column t_s and requests_per_s"),
        ("t_s,rate\n", "line 1: no column requests_per_s"),
        ("t_s,requests_per_s\n0,1\n60,many\n", "line 3: requests_per_s = 'many' is not a number"),
        ("t_s,requests_per_s\n0,1\n60,-2\n", "line 3: requests_per_s = -2 is below 0"),
        ("t_s,requests_per_s\n0,1\n60,nan\n", "line 3: requests_per_s = 'nan' is not finite"),
        ("t_s,requests_per_s\n0,1\n60\n", "line 3: 1 of 2 values: '60'"),
        ("t_s,requests_per_s\n60,1\n0,1\n", "row 2 of numbers: t_s = 0 comes after t_s = 60"),
        ("t_s,requests_per_s\n0,1\n", "1 rows of numbers"),
    ],
)
def test_a_refusal_has_the_line_and_what_would_be_right(
    tmp_path: Path, text: str, told: str
) -> None:
    """Nobody should have to search a file of a thousand lines."""
    with pytest.raises(ConfigError) as caught:
        Trace.read(written(tmp_path, text))
    assert told in str(caught.value)
    assert caught.value.right
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The path, and what is wrong with it."""
    with pytest.raises(ConfigError, match=r"absent\.csv: the trace cannot be read"):
        Trace.read(tmp_path / "absent.csv")


def test_a_frame_is_anything_with_the_two_columns() -> None:
    """No pandas is needed for that; a plain mapping will do."""
    frame = {"t_s": range(3), "requests_per_s": [1, 2, 0]}
    assert Trace.of(frame) == Trace("trace", (0.0, 1.0, 2.0), (1.0, 2.0, 0.0))
    assert Trace.of(Trace.of(frame)) == Trace.of(frame)
    with pytest.raises(ConfigError, match="a dict without the columns t_s and requests_per_s"):
        Trace.of({"t": [1]})
    with pytest.raises(ConfigError, match="2 moments and 1 rates"):
        Trace.of({"t_s": [0, 1], "requests_per_s": [1]})
    with pytest.raises(ConfigError, match="row 1: requests_per_s = None is not a number"):
        Trace.of({"t_s": [0, 1], "requests_per_s": [1, None]})


@given(
    st.lists(st.tuples(st.floats(0.05, 90), st.floats(0, 500)), min_size=1, max_size=20),
    st.sampled_from((0.5, 1.0, 7.0)),
)
def test_steps_neither_lose_nor_make_a_request(
    rows: list[tuple[float, float]], step_s: float
) -> None:
    """However the moments lie between the steps."""
    moments = [0.0]
    for lasts, _ in rows:
        moments.append(moments[-1] + lasts)
    trace = Trace("t", tuple(moments), (*(rate for _, rate in rows), 0.0))
    steps = list(trace.steps(step_s))
    whole_s = len(steps) * step_s
    expected = sum(
        rate * max(0.0, min(end, whole_s) - start)
        for start, end, (_, rate) in zip(moments, moments[1:], rows, strict=False)
    )
    assert math.isclose(sum(steps) * step_s, expected, rel_tol=1e-6, abs_tol=1e-6)
    assert all(rate >= -1e-9 for rate in steps)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_makes_the_same_load_for_ever(family: str) -> None:
    """An hour at least, never negative, and another seed is another load."""
    one, again, other = generated(family, 7), generated(family, 7), generated(family, 8)
    assert one == again
    assert one.rates != other.rates
    assert one.duration_s >= 3600
    assert min(one.rates) >= 0
    assert (min(one.rates) == 0) is (family == "sparse")
