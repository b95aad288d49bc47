"""Reading Triton's repository index."""

import json

import pytest

from tarn.domain import ModelState
from tarn.triton.index import parse_index


def index(*rows: dict[str, str]) -> tuple[ModelState, ...]:
    return parse_index(json.dumps(rows).encode())


def test_the_highest_version_that_is_available_speaks() -> None:
    """10 is higher than 9, and a broken newest version hides no good one."""
    assert index(
        {"name": "m", "version": "9", "state": "READY"},
        {"name": "m", "version": "10", "state": "LOADING"},
        {"name": "m", "version": "11", "state": "UNAVAILABLE", "reason": "broken"},
    ) == (ModelState("m", "LOADING", versions=("9",)),)


def test_a_broken_model_keeps_tritons_reason() -> None:
    """Triton's own words reach the user."""
    broken = {"name": "b", "version": "1", "state": "UNAVAILABLE", "reason": "no weights"}
    assert index({"name": "a", "version": "1", "state": "READY"}, broken) == (
        ModelState("a", "READY", versions=("1",)),
        ModelState("b", "UNAVAILABLE", "no weights"),
    )


def test_a_model_that_was_never_asked_for_is_not_loaded() -> None:
    """In explicit mode Triton lists it by its name alone."""
    assert index({"name": "m"}) == (ModelState("m", "UNAVAILABLE", "not loaded"),)


def test_all_versions_that_are_ready_are_told_the_highest_last() -> None:
    """10 comes after 9."""
    rows = [{"name": "m", "version": v, "state": "READY"} for v in ("10", "9")]
    assert index(*rows) == (ModelState("m", "READY", versions=("9", "10")),)


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[1]", b'[{"version": "1"}]', b"\xff"])
def test_garbage_is_a_value_error(body: bytes) -> None:
    """And nothing else."""
    with pytest.raises(ValueError):
        parse_index(body)
