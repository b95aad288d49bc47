"""Which events somebody wants, and what is left of them without a master."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.cluster.read import events as event_query
from tarn.cluster.read.events import SeenEvents, parse_event_query, stored_events
from tarn.errors import ConfigError, NotFoundError, TarnError

NOW = 1_764_201_700.0


def event(number: int = 1, start: int = 7, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{start}-1.{number}",
        "epoch": f"{start}-1",
        "code": "TARN-1105",
        "severity": "warning",
        "subject": "w-0001",
        "message": "crash",
        "count": 1,
        "first": NOW,
        "last": NOW,
        **more,
    }


def no_log() -> list[str]:
    raise NotFoundError("there is no log")


LOST = NotFoundError("cluster 'w' does not run")


def write(directory: Path, *lines: str, name: str = "events.jsonl") -> None:
    (directory / "logs").mkdir(exist_ok=True)
    (directory / "logs" / name).write_text("".join(f"{line}\n" for line in lines))


def test_a_choice_is_by_time_severity_and_subject() -> None:
    """Severities upwards; stars in subjects; the last of counted ones counts."""
    some = parse_event_query(since="10m", severity="warning", subject=("w-*", "lb1"), now_at=NOW)
    assert some.takes(event())
    assert some.takes(event(severity="alert", subject="lb1"))
    assert some.takes(event(first=NOW - 9000, last=NOW - 600))
    assert not some.takes(event(last=NOW - 601))
    assert not some.takes(event(severity="info"))
    assert not some.takes(event(subject="w"))
    assert not some.takes(event(subject="x-w-0001"))
    assert parse_event_query(now_at=NOW).takes({"code": "TARN-1105"})
    assert parse_event_query(since="2025-11-27T00:01:40Z", now_at=NOW).since == NOW
    assert parse_event_query(since=60, now_at=NOW).since == NOW - 60
    assert parse_event_query(subject="w", now_at=NOW).subjects == ("w",)


@pytest.mark.parametrize("wrong", [{"severity": "warn"}, {"since": "soon"}, {"since": -1}])
def test_what_cannot_be_meant_is_said(wrong: dict[str, Any]) -> None:
    """With what would be right."""
    with pytest.raises(ConfigError) as caught:
        parse_event_query(**wrong, now_at=NOW)
    assert "Expected" in str(caught.value)


def test_an_event_is_told_once_and_again_when_it_happened_again() -> None:
    """A new master tells the whole again."""
    told = SeenEvents()
    assert [told.new(event(1)), told.new(event(1)), told.new(event(1, count=2))] == [
        True,
        False,
        True,
    ]
    assert not told.new(event(1))
    old = {"code": "TARN-1105", "count": 1}
    assert [told.new(old), told.new(old), told.new({**old, "count": 2})] == [True, False, True]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows for months holds no more than the newest."""
    monkeypatch.setattr(event_query, "REMEMBERED", 10)
    told = SeenEvents()
    for number in range(100):
        assert told.new(event(number))
    assert len(told._counts) == 10
    assert not told.new(event(99))


def test_without_a_master_the_file_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest word about each event, over both generations, and only of the last start."""
    write(tmp_path, json.dumps(event(1, start=6)), json.dumps(event(1)), name="events.jsonl.1")
    counted = event(1, count=2, last=NOW + 5)
    write(tmp_path, json.dumps(event(2)), '{"torn": ', "[]", "{}", json.dumps(counted))
    assert stored_events(tmp_path, no_log, LOST) == [event(2), counted]
    assert "no master answers" in caplog.text


def test_without_a_file_the_log_is_read(tmp_path: Path) -> None:
    """As JSON it holds each event whole; whatever else stands there is passed over."""
    lines = [
        "not JSON, with an event",
        json.dumps({"message": "hello"}),
        json.dumps({"event": "no mapping"}),
        json.dumps({"message": "TARN-1105", "event": event(3)}),
    ]
    assert stored_events(tmp_path, lambda: lines, LOST) == [event(3)]


def test_where_nothing_is_left_the_first_error_stays(tmp_path: Path) -> None:
    """A log in text tells no events."""
    for lines in (no_log, lambda: ["2026 INFO TARN-1105 w-0001: crash"]):
        with pytest.raises(TarnError) as caught:
            stored_events(tmp_path, lines, LOST)
        assert caught.value is LOST


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(json_values | st.fixed_dictionaries({"event": json_values}), max_size=5))
def test_whatever_stands_in_a_log_is_survived(said: list[Any]) -> None:
    """Other programs write there, too."""
    lines = [json.dumps(one) for one in said]
    with pytest.raises(NotFoundError):
        stored_events(Path("/nowhere"), lambda: lines, LOST)
