"""Bodies become commands, or one clear error; never anything else."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Acknowledge, Command
from tarn.errors import ConfigError
from tarn.http.commands import VERBS, acknowledge, command, revision

fields = st.sampled_from(
    ["replicas", "min", "max", "for", "reason", "instance", "epoch", "revision", "at", "sessions"]
) | st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
bodies = st.dictionaries(fields, values, max_size=4)


def _outcome(ask: Callable[[], Command]) -> Command | ConfigError:
    try:
        return ask()
    except ConfigError as error:
        return error


@given(verb=st.sampled_from(VERBS), body=bodies)
def test_any_body_is_a_command_or_a_configuration_error(verb: str, body: dict[str, object]) -> None:
    """No other exception reaches the server; the error says what is right."""
    outcome = _outcome(lambda: command(verb, body))
    if isinstance(outcome, ConfigError):
        assert outcome.where
        assert outcome.right.startswith("Right would be ")
    else:
        assert isinstance(outcome, Command)


@given(name=st.text(max_size=8), body=bodies)
def test_any_word_of_a_follower_is_understood_or_refused(
    name: str, body: dict[str, object]
) -> None:
    """Also with a good epoch and revision in it."""
    for word in (body, {**body, "epoch": "1-1", "revision": 1}):
        outcome = _outcome(lambda word=word: acknowledge(name, word, at=5.0))
        assert isinstance(outcome, Acknowledge) or outcome.where


@pytest.mark.parametrize(
    ("header", "number"), [(None, None), ("*", None), ('"7"', 7), ("7", 7), ('W/"7"', 7)]
)
def test_if_match_names_a_spec_revision(header: str | None, number: int | None) -> None:
    """Quoted, weak or bare; ``*`` matches anything."""
    assert revision(header) == number
