"""Lines of the master's log."""

import io
import json
import logging
import re
import sys
import threading
from typing import Any

import pytest
from canaries import canary
from canaries import forms as canary_forms
from hypothesis import given
from hypothesis import strategies as st

from tarn import log
from tarn.plain import SecretMasker


def record(message: str, *words: object, level: int = logging.INFO, **more: Any) -> Any:
    made = logging.LogRecord("tarn.some", level, __file__, 1, message, words, more.pop("exc", None))
    vars(made).update(more)
    return made


def line(form: str, *words: Any, **more: Any) -> str:
    return log.LineFormatter(form, "llama").format(record(*words, **more))


def said(*words: Any, **more: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(line("json", *words, **more))
    return parsed


@pytest.fixture(autouse=True)
def _of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_MASTER", {"epoch": ""})
    monkeypatch.setattr(log, "_HIDING", SecretMasker())
    log.of_epoch("1764201600000-2")


def test_a_line_is_one_object_whatever_a_message_holds() -> None:
    """Quotes, line ends, and a traceback."""
    try:
        raise KeyError("odd")  # noqa: TRY301 (its traceback is what is looked at)
    except KeyError:
        some = {"level": logging.ERROR, "exc": sys.exc_info()}
        text = line("json", 'said "%s"\n', "no", **some)
    assert "\n" not in text
    fields = json.loads(text)
    assert fields["message"] == 'said "no"\n'
    assert (fields["level"], fields["logger"]) == ("error", "tarn.some")
    assert (fields["cluster"], fields["epoch"]) == ("llama", "1764201600000-2")
    assert fields["traceback"].endswith("KeyError: 'odd'")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["at"])
    assert set(said("hello")) == {
        *("at", "level", "logger", "thread", "message", "cluster", "epoch")
    }


def test_a_line_says_what_it_is_about() -> None:
    """Of the request that is answered, and of what `extra` names; nothing else of it."""
    about = {"instance": "llama-0001", "decision": 3, "weather": "fine"}
    with log.within("abcdef0123456789"):
        fields = said("hello", **about)
    assert (fields["instance"], fields["decision"]) == ("llama-0001", 3)
    assert fields["request"] == "abcdef0123456789"
    assert "weather" not in fields
    assert "request" not in said("hello")
    assert said("hello", request="other")["request"] == "other"


def test_text_holds_the_same() -> None:
    """A time first, and what it is about last; the event's own fields are in the message."""
    text = line("text", "hello %s", "you", instance="llama-0001", event={"code": "TARN-1102"})
    moment, level, thread, logger, rest = text.split(" ", 4)
    assert moment.endswith("Z")
    assert (level, thread, logger) == ("INFO", threading.current_thread().name, "tarn.some:")
    assert rest == "hello you [cluster=llama epoch=1764201600000-2 instance=llama-0001]"


def test_nobody_can_write_a_line_of_his_own() -> None:
    """What follows a line's end is set off; what a terminal would obey is spelled out."""
    text = line("text", "hello %s", "\x1b[2J\r\n2026-11-28T00:00:00.000Z INFO x y: forged")
    first, second = text.split("\n")
    assert first.endswith(": hello \\x1b[2J\\r")
    assert second.startswith("  2026-11-28T00")


def test_a_line_that_cannot_be_made_is_said_without_its_words() -> None:
    """A programmer's slip; its words may hold secrets that nobody has looked for."""
    sink = io.StringIO()
    handler = log.ThrottledHandler(sink)
    handler.setFormatter(log.LineFormatter("json", "llama"))
    handler.handle(record("%d bottles", "secret words"))
    assert sink.getvalue() == "a line of tarn.some could not be written: TypeError\n"


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_stands_in_a_line(form: str) -> None:
    """In a message, a word of it, a traceback, an event; in each form it may have."""
    secret = canary("token")
    log.hide([secret, secret.encode()])
    try:
        raise ValueError(f"from {secret}")  # noqa: TRY301 (its traceback is what is looked at)
    except ValueError:
        exc = sys.exc_info()
    for seen in (form.decode("latin-1") for form in canary_forms(secret)):
        event = {"message": f"in an event {seen}", "request": {"user": seen}}
        text = line(form, "one %s two %s", seen, {"word": seen}, exc=exc, event=event)
        assert not any(one in text.encode() for one in canary_forms(secret))
        assert "***" in text
    assert "s3cr3t" not in line(form, "at http://me:s3cr3t@host/ with password=s3cr3t")


def test_nothing_is_changed_where_logging_is_set_up() -> None:
    """A notebook or a test that runs a master keeps its own handlers."""
    handlers = list(logging.getLogger().handlers)
    assert handlers  # pytest's own
    hook = threading.excepthook
    log.begin("json", "info", "llama", io.StringIO())
    assert logging.getLogger().handlers == handlers
    assert threading.excepthook is hook


def test_a_thread_that_ends_by_an_error_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a line like any other, not as bare text."""
    root, sink = logging.getLogger(), io.StringIO()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    log.begin("json", "info", "llama", sink)
    failing = threading.Thread(target=lambda: 1 / 0, name="odd-one")
    failing.start()
    failing.join()
    fields = json.loads(sink.getvalue())
    assert (fields["level"], fields["message"]) == ("critical", "odd-one ended by an error")
    assert "ZeroDivisionError" in fields["traceback"]


texts = st.text(st.characters(exclude_categories=("Cs",)))


@given(message=texts, instance=texts)
def test_whatever_is_said_is_one_line_of_json(message: str, instance: str) -> None:
    """Control characters and all."""
    text = line("json", "%s", message, instance=instance or "x")
    assert len(text.splitlines()) == 1
    json.loads(text)


def written(stream: io.StringIO) -> list[str]:
    return [json.loads(one)["message"] for one in stream.getvalue().splitlines()]


def raised(message: str) -> Any:
    try:
        raise ValueError(message)  # noqa: TRY301 (its traceback is what is looked at)
    except ValueError:
        return sys.exc_info()


def test_what_a_loop_raises_is_written_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """By class and place, whatever its message counts; then with how often it was left out."""
    now = [1000.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = log.ThrottledHandler(stream)
    lines.setFormatter(log.LineFormatter("json", "llama"))
    for number in range(200):
        lines.handle(record("a tick raised", exc=raised(f"number {number}")))
        lines.handle(record("full: %d", number, kind="full"))
        lines.handle(record("said as often as it is said"))
    assert sorted(written(stream))[:2] == ["a tick raised", "full: 0"]
    assert len(written(stream)) == 202
    now[0] += 60.0
    lines.handle(record("a tick raised", exc=raised("again")))
    lines.handle(record("full: %d", 201, kind="full"))
    more = " (and 199 more times since it was last written)"
    assert written(stream)[-2:] == [f"a tick raised{more}", f"full: 201{more}"]


def test_what_strangers_can_make_others_write_is_bounded() -> None:
    """A garbage request is a line of uvicorn's, each time; its words tell the kind."""
    stream = io.StringIO()
    lines = log.ThrottledHandler(stream)
    lines.setFormatter(log.LineFormatter("json", "llama"))
    for _ in range(100):
        foreign = record("Invalid HTTP request received.", level=logging.WARNING)
        foreign.name = "uvicorn.error"
        lines.handle(foreign)
    assert written(stream) == ["Invalid HTTP request received."]


def test_kinds_are_bounded() -> None:
    """Of more kinds than fit the oldest is forgotten."""
    repeats = log.RepeatCounter(60.0, most=2)
    assert [repeats.again((kind,), 1.0) for kind in "abc"] == [0, 0, 0]
    assert repeats.again(("a",), 2.0) == 0
    assert repeats.again(("c",), 2.0) is None
