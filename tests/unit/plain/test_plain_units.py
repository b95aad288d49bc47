"""Durations and memory, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.plain.units import UNITS, key_of, unit_of

SECONDS, MIB, MICROSECONDS = UNITS["_s"], UNITS["_mib"], UNITS["_us"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600.0), ("1.5s", 1.5), ("250ms", 0.25), ("1h", 3600.0), ("0s", 0.0),
        ("1h30m", 5400.0), ("2 s", 2.0), ("1d", 86400.0), ("300ms", 0.3), ("500us", 0.0005),
    ],
)  # fmt: skip
def test_a_duration_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    """The result is in seconds, exactly."""
    assert SECONDS.parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "-1s", "1 day", "s", "1.s", "1e999s", "1s 5", "٣s", "1GiB", "nans"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A missing, unknown or foreign unit, a sign, nonsense."""
    with pytest.raises(ValueError, match=r"duration|too large"):
        SECONDS.parse(text)


@pytest.mark.parametrize(("text", "mib"), [("512MiB", 512), ("4GiB", 4096), ("1.5TiB", 1572864)])
def test_memory_is_a_number_with_its_binary_unit(text: str, mib: int) -> None:
    """The result is in MiB."""
    assert MIB.parse(text) == mib


def test_a_field_in_microseconds_reads_milliseconds() -> None:
    """The unit of the text and the unit of the field are independent."""
    assert MICROSECONDS.parse("20ms") == 20_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600, "10m"), (90, "90s"), (0.25, "250ms"), (0, "0s"), (86400.0, "1d"), (1.5, "1500ms")],
)
def test_a_duration_is_written_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    """Whole numbers are easiest to read."""
    assert SECONDS.format(seconds) == text


@given(st.floats(min_value=0, max_value=1e12))
def test_every_duration_survives_being_written(seconds: float) -> None:
    """What `format` writes, `parse` reads back as the same number."""
    assert SECONDS.parse(SECONDS.format(seconds)) == seconds
    assert MICROSECONDS.parse(MICROSECONDS.format(seconds)) == seconds


@given(st.integers(min_value=0, max_value=2**50))
def test_every_amount_of_memory_survives_being_written(mib: int) -> None:
    """Up to a billion GiB."""
    assert MIB.parse(MIB.format(mib)) == mib


def test_the_unit_is_the_end_of_a_fields_name() -> None:
    """And the key in YAML is the name without it."""
    assert unit_of("cooldown_s") is SECONDS
    assert unit_of("replicas") is None
    assert [key_of(name) for name in ("cooldown_s", "memory_mib", "use")] == [
        "cooldown",
        "memory",
        "use",
    ]


@pytest.mark.parametrize(
    "text",
    ["1s" * 125_000, " " * 65 + "1s", "9" * 64 + "s", "1e" * 50_000],
    ids=["parts", "blanks", "digits", "letters"],
)
def test_a_text_too_long_for_a_quantity_is_refused_before_it_is_read(text: str) -> None:
    """Each part costs a fraction; the message does not repeat it."""
    for unit in UNITS.values():
        with pytest.raises(ValueError, match="characters is not a"):
            unit.parse(text)
    assert SECONDS.parse("1s" * 32) == 32
