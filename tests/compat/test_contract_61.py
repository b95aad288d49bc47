"""61: the Java TARN cut exponents off, and lost values behind a brace in a label."""

import pytest

from tarn.domain import Known, Unknown
from tarn.triton.metrics import PENDING, parse


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (PENDING + '{model="a",version="1"} 1.2e+02', 120.0),
        (PENDING + '{model="a}b"} 7', 7.0),
        (PENDING + '{model="a \\"b\\" \\\\ c"} 8e+09', 8e9),
        (PENDING + '{model="été 模型"} 3', 3.0),
    ],
)
def test_a_value_is_read_as_it_is_written(line: str, value: float) -> None:
    """Whatever stands in the labels."""
    assert parse(line.encode() + b"\n").total(PENDING) == Known(value)


def test_what_is_no_number_is_unknown_and_not_zero() -> None:
    """NaN neither counts nor vanishes."""
    text = f'{PENDING}{{model="a"}} NaN\n{PENDING}{{model="b"}} 4\n'
    assert isinstance(parse(text.encode()).total(PENDING), Unknown)
