"""Bodies become commands, or one clear error; never anything else."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Acknowledge, Command, ControlRequest
from tarn.errors import ConfigError
from tarn.http.commands import MOST_SESSIONS, VERBS, acknowledge, command, revision

fields = st.sampled_from(
    [
        "replicas",
        "model",
        "parameters",
        "settings",
        "min",
        "max",
        "for",
        "reason",
        "instance",
        "epoch",
        "revision",
        "at",
        "sessions",
        "sequences",
    ]
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
        assert outcome.right.startswith("Expected ")
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


WORD = {"epoch": "1-1", "revision": 1}


@pytest.mark.parametrize(
    "error", ["x" * 200_000, "é" * 600, "\u20ac" * 1000, "\ud800" * 2000], ids="abcd"
)
def test_a_followers_error_is_cut_to_a_kilobyte_and_that_is_said(error: str) -> None:
    """It is shown to people, and kept with each follower."""
    kept = acknowledge("lb1", {**WORD, "error": error}, at=5.0).applied.error
    assert len(kept.encode()) <= 1024
    assert kept.endswith(f"({len(error)} characters, cut here)")
    assert acknowledge("lb1", {**WORD, "error": "x" * 1024}, at=5.0).applied.error == "x" * 1024


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lease", "301s"),
        ("lease", "365d"),
        ("lease", 10**9),
        ("lease", "1s" * 125_000),
        ("sessions", {f"w-{number}": 1 for number in range(MOST_SESSIONS + 1)}),
        ("sessions", {"w" * 100_000: -1}),
        ("sequences", {"w-1": -1}),
        ("epoch", "1" * 100_000),
        ("x" * 100_000, 1),
        ("error", ["x"] * 50_000),
    ],
    ids=lambda one: str(one)[:12],
)
def test_what_a_follower_says_is_bounded(field: str, value: object) -> None:
    """Refused in a short sentence that names the field."""
    with pytest.raises(ConfigError) as caught:
        acknowledge("lb1", {**WORD, field: value}, at=5.0)
    assert len(str(caught.value)) < 500
    assert acknowledge("lb1", {**WORD, "lease": "5m"}, at=5.0).lease_s == 300


def test_a_persons_texts_are_bounded() -> None:
    """A reason stands in every status while the pause lasts."""
    with pytest.raises(ConfigError, match="has 2000 characters"):
        command("pause", {"for": "5m", "reason": "x" * 2000})
    with pytest.raises(ConfigError, match="has 5000 characters"):
        command("drain", {"instance": "w" * 5000})


@pytest.mark.parametrize("value", [{}, [[]], [{}], {"a": {"b": 1}}])
def test_what_triton_is_given_is_flat(value: object) -> None:
    """A nested value could be too deep for who reads it again; Triton takes none."""
    for verb, given_ in (("load", "parameters"), ("log-settings", "settings")):
        body = {given_: {"one": value}} | ({"model": "m"} if verb == "load" else {})
        with pytest.raises(ConfigError) as caught:
            command(verb, body)
        assert caught.value.where == f"{given_}.one"


def test_what_tritonclient_sends_is_taken() -> None:
    settings = {"trace_level": ["TIMESTAMPS"], "trace_rate": None, "log_verbose_level": 1}
    asked = command("trace-settings", {"settings": settings})
    assert isinstance(asked, ControlRequest)
    assert json.loads(asked.body) == settings
