"""The page of events is about the fields that there are."""

import json
import logging
import re
from pathlib import Path

from tarn import log
from tarn.domain import EventCause, Requester
from tarn.domain.events import EVENT_SCHEMA, EVENTS_FILE, Event, event_fields

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/events.md").read_text("utf-8")


def fields_of(section: str) -> list[str]:
    """Return the first column of the table under the heading *section*."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)


def test_the_page_has_every_field_of_an_event() -> None:
    """In the order in which they are written, and no other."""
    cause = EventCause(1, Requester("0123456789abcdef"))
    fields = event_fields(Event("TARN-1102", "w-0001", "", 0.0, 0.0, cause=cause), "w")
    request = fields["request"]
    assert isinstance(request, dict)
    wanted = [*fields, *(f"request.{name}" for name in request)]
    assert fields_of(f"The fields, version {EVENT_SCHEMA}") == wanted
    assert f"NAME/{EVENTS_FILE}" in PAGE


def test_the_page_has_every_field_of_a_line() -> None:
    """Those of each line, and those that some have."""
    record = logging.makeLogRecord({"msg": "so", "exc_text": None, "levelname": "INFO"})
    line = log.LineFormatter("json", "w").format(record)
    wanted = [*json.loads(line), *log.ABOUT, "traceback"]
    assert sorted(fields_of("The lines of the log")) == sorted(wanted)
