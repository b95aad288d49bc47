import pytest

from tarn.errors import ConfigError
from tarn.plain import seconds


@pytest.mark.parametrize(
    ("given", "meant"),
    [("5m", 300), ("1.5s", 1.5), (2, 2), (0.5, 0.5), (" 2h ", 7200), ("250ms", 0.25)],
)
def test_reads_a_duration_or_seconds(given, meant):
    """A number means seconds, as everywhere in Python; text carries its unit."""
    assert seconds(given) == meant


@pytest.mark.parametrize(
    "given", ["5", "soon", "", -1, float("nan"), None, True, [], "-3s", "٣s", "367d", 10**400]
)
def test_refuses_what_is_no_duration(given):
    """The message names the argument."""
    with pytest.raises(ConfigError) as caught:
        seconds(given, "pause")
    assert caught.value.where == "pause"


def test_the_message_is_short_whatever_was_given():
    """It goes back to whoever sent it, and into the log."""
    for given in (10**5000, "1s" * 90_000, ["x"] * 9000):
        with pytest.raises(ConfigError) as caught:
            seconds(given, "lease")
        assert len(str(caught.value)) < 300


def test_text_without_a_unit_gets_words_that_are_true():
    """A person who types 30 cannot write "a number of seconds" on a command line."""
    with pytest.raises(ConfigError) as caught:
        seconds("30")
    right = "Write 30s for seconds, 30m for minutes or 30h for hours."
    assert (caught.value.found, caught.value.right) == ("'30' has no unit", right)
    with pytest.raises(ConfigError) as caught:
        seconds("soon")
    assert "number of seconds" not in str(caught.value)
