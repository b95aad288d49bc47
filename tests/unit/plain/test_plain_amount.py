"""Amounts with the unit that their writer chose."""

import pytest

from tarn.plain import Amount, Within, amount, amount_text


def test_an_amount_says_what_it_counts() -> None:
    """A number, a duration in seconds, a fraction of one."""
    assert amount(12) == Amount(12.0, "")
    assert amount("20ms") == Amount(0.02, "s")
    assert amount(" 50 % ") == Amount(0.5, "fraction")


@pytest.mark.parametrize("given", ["", "12", "20 parsecs", "50%%", "-3%", True, None])
def test_what_is_no_amount_is_refused(given: object) -> None:
    """The message shows what was found."""
    with pytest.raises(ValueError, match="is not a number, duration or percentage"):
        amount(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.0, "", "12"),
        (1234567.8, "requests", "1234568"),
        (0.02, "s", "20 ms"),
        (0.00025, "s", "250 us"),
        (0.0, "s", "0 s"),
        (1.5, "s", "1.5 s"),
        (0.123456, "fraction", "12.3%"),
    ],
)
def test_an_amount_is_shown_short(value: float, unit: str, text: str) -> None:
    """Three digits are enough for people."""
    assert amount_text(value, unit) == text


def test_what_is_right_is_said_in_words() -> None:
    """The validator's words are those of the message."""
    assert Within("fraction", at_least=0, at_most=1).right == (
        "a fraction (0.5 or 50%), at least 0% and at most 100%"
    )
    assert Within("s", more_than=0).right == "a duration, more than 0 s"
    assert Within().right == "a number, a duration (20ms) or a percentage (50%)"


def test_bounds_and_unit_are_kept() -> None:
    """A bare number is a fraction, and no duration."""
    half = Within("fraction", more_than=0, less_than=1)
    assert [half.holds(v) for v in (0.5, "50%", 0, 1, "100%", "5s", "x", float("nan"))] == [
        *(True, True),
        *(False,) * 6,
    ]
    assert Within("s", at_most=2).holds("1500ms")
    assert not Within("s").holds(1)


def test_an_amount_is_a_short_text() -> None:
    """Also a percentage."""
    for text in ("1s" * 40, "9" * 200_000 + "%"):
        with pytest.raises(ValueError, match="characters is not a number"):
            amount(text)
