"""Events are written down on a thread of its own."""

import json
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from tarn.control import journal
from tarn.control.issues import of_journal
from tarn.control.journal import EventFile, Journal, event_file_in
from tarn.domain import Epoch, EventCause, Requester
from tarn.domain.events import event_fields
from tarn.domain.fleet import Fleet

EMPTY = Fleet("w", Epoch(1, 1), 0)
ASKER = Requester("0123456789abcdef", "ops", "token", "127.0.0.1")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_event_is_a_line_of_the_file_and_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With what it is about; one that is counted is written again, unchanged ones are not."""
    caplog.set_level(logging.INFO)
    path = tmp_path / "events.jsonl"
    keeper = Journal("w", EventFile(path))
    first = EMPTY.note(1.0, "TARN-1105", "w-0001", "crash", EventCause(3, ASKER))
    second = first.note(2.0, "TARN-1010", "w", "frozen")
    third = second.note(3.0, "TARN-1105", "w-0001", "crash", EventCause(3, ASKER))
    for before, after in ((EMPTY, first), (first, second), (second, third), (third, third)):
        keeper.tell(before.events, after.events)
    keeper.close(5.0)
    told = [first.events[0], second.events[1], third.events[1]]
    assert lines(path) == [event_fields(event, "w") for event in told]
    said = [one for one in caplog.records if one.name == "tarn.events"]
    assert [(one.levelname, one.getMessage()) for one in said] == [
        ("WARNING", "TARN-1105 w-0001: crash"),
        ("ERROR", "TARN-1010 w: frozen"),
        ("WARNING", "TARN-1105 w-0001: crash (x2)"),
    ]
    assert [vars(one).get("instance") for one in said] == ["w-0001", None, "w-0001"]
    assert [vars(one).get("decision") for one in said] == [3, None, 3]
    assert [vars(one).get("request") for one in said] == [ASKER.request, None, ASKER.request]
    assert vars(said[1])["event"] == event_fields(second.events[1], "w")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_is_turned_over_once_it_is_full(tmp_path: Path) -> None:
    """Two generations are kept, and no line is torn."""
    path = tmp_path / "events.jsonl"
    file = EventFile(path, largest=100)
    for number in range(20):
        file.append(json.dumps({"number": number, "pad": "x" * 10}))
        assert path.stat().st_size <= 100
    older = path.with_name("events.jsonl.1")
    numbers = [line["number"] for one in (older, path) for line in lines(one)]
    assert numbers == list(range(20 - len(numbers), 20))
    assert sorted(tmp_path.iterdir()) == [path, older]


def test_a_disk_that_takes_nothing_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log goes on; so does the file, when it can."""
    path = tmp_path / "not yet" / "events.jsonl"
    keeper = Journal("w", EventFile(path))
    some = EMPTY
    for number in range(3):
        before, some = some, some.note(1.0, "TARN-1105", f"w-000{number}", "crash")
        keeper.tell(before.events, some.events)
    keeper.close(5.0)
    told = [one for one in caplog.records if "not kept" in one.getMessage()]
    assert len(told) == 1
    (trouble,) = of_journal(keeper, "w")
    assert (trouble.code, trouble.subject) == ("TARN-3822", "w")
    assert str(path) not in trouble.public
    assert str(path) in trouble.found
    path.parent.mkdir()
    again = Journal("w", EventFile(path))
    again.tell((), some.events)
    again.close(5.0)
    assert len(lines(path)) == 3
    assert list(of_journal(again, "w")) == []


def test_a_slow_disk_costs_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into the queue is counted, and never waited for."""
    monkeypatch.setattr(journal, "QUEUE", 2)
    going, begun = threading.Event(), threading.Event()

    class Slow(EventFile):
        def append(self, line: str) -> None:
            begun.set()
            going.wait(10.0)

    keeper = Journal("w", Slow(Path(os.devnull)))
    some = EMPTY.note(1.0, "TARN-1105", "w-0000", "crash")
    keeper.tell((), some.events)
    assert begun.wait(5.0)
    for number in range(1, 6):
        before, some = some, some.note(1.0, "TARN-1105", f"w-000{number}", "crash")
        keeper.tell(before.events, some.events)
    assert keeper.lost == 3
    (trouble,) = of_journal(keeper, "w")
    assert trouble.public == "3 events were not written to the log"
    going.set()
    keeper.close(5.0)


def test_the_file_lies_where_a_runtime_keeps_logs(tmp_path: Path) -> None:
    """Elsewhere the log is all there is."""
    assert event_file_in(tmp_path) is None
    (tmp_path / "logs").mkdir()
    file = event_file_in(tmp_path)
    assert file is not None
    file.append("{}")
    assert (tmp_path / "logs" / "events.jsonl").read_text() == "{}\n"
