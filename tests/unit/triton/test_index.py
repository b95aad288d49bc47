"""Reading Triton's repository index."""

import json

import pytest

from tarn.domain import ModelState
from tarn.triton.control import parse_index, stubs_ended
from tarn.triton.stubs import StubEnd, entry


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


def test_what_a_watcher_shows_is_read_and_is_no_model() -> None:
    """As it was written, but for signs that no folder may be called by."""
    ends = (
        StubEnd("m", "m_0_0", 7, -9, 1.7e9),
        StubEnd("naïve:one/two\n", "", 4_194_304, 3, 1.7e9),
        StubEnd("m" * 300, "n" * 300, 8, 0, 1.7e9),
    )
    rows = [{"name": "m", "version": "1", "state": "READY"}, *({"name": entry(e)} for e in ends)]
    assert all(len(row["name"]) <= 255 and "/" not in row["name"] for row in rows)
    body = json.dumps(rows).encode()
    assert stubs_ended(body) == (
        ends[0],
        StubEnd("na?ve?one?two?", "", 4_194_304, 3, 1.7e9),
        StubEnd("m" * 100, "n" * 100, 8, 0, 1.7e9),
    )
    assert [model.name for model in parse_index(body)] == ["m"]


@pytest.mark.parametrize(
    "name", ["", "7", "7:-9:1:m", "x:-9:1:m:m_0_0", "7:-9:1:m:a:b", "7:12345:1:m:a", "7:-9::m:a"]
)
def test_what_looks_like_a_watchers_word_is_ignored(name: str) -> None:
    """A folder of the user's may be called so."""
    rows = [{"name": f"tarn.stub-ended:{name}"}]
    assert stubs_ended(json.dumps(rows).encode()) == ()
