"""Waiting with a deadline."""

import threading

import pytest

from tarn.errors import TimedOutError
from tarn.testing.wait import until, within


def test_until_returns_the_first_true_answer():
    """It asks again until then."""
    answers = iter((None, 0, "", "ready", "never"))
    assert until(lambda: next(answers)) == "ready"


def test_until_gives_up_at_its_deadline_and_says_what_came_last():
    """The message names what was waited for."""
    with pytest.raises(TimedOutError, match=r"the end did not come in 0\.01 s; .* \[\]"):
        until(list, 0.01, "the end")


def test_until_asks_at_least_once():
    """A deadline that is over still lets one look."""
    assert until(lambda: "there", 0.0) == "there"


def test_within_returns_and_raises_what_the_call_does():
    """An exception is raised where it is waited for."""
    assert within(5.0, lambda: 42) == 42
    with pytest.raises(KeyError):
        within(5.0, lambda: {}["missing"])


def test_within_leaves_a_call_that_hangs():
    """The test goes on; the call is named."""
    release = threading.Event()
    with pytest.raises(TimedOutError, match=r"the call of nobody did not come back in 0\.01 s"):
        within(0.01, lambda: release.wait(10.0), "the call of nobody")
    release.set()


def test_within_tells_a_time_out_of_the_call_from_its_own():
    """A TimeoutError raised inside is handed on as it is."""

    def call() -> None:
        raise TimeoutError("the call's own")

    with pytest.raises(TimeoutError, match="the call's own"):
        within(5.0, call)
