"""The master's log: one line for each thing said, as text or as JSON, with what it is about.

Whoever has something to say uses the standard library's ``logging``; ``extra`` names what it is
about (`ABOUT`). Every line carries the cluster and the epoch; one that is written while a request
is answered carries its id. Secrets that the master holds are taken out of each line.

This is the only place that imports structlog. ``docs/reference/events.md`` describes the lines.
"""

import contextlib
import json
import logging
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

from tarn.plain import Hiding

__all__ = ["ABOUT", "Lines", "begin", "formatter", "hide", "of_epoch", "request_id", "within"]

ABOUT = ("instance", "request", "decision", "event")
"""Names in ``extra`` that become fields of a line; whatever else stands there does not."""

_HIDING = Hiding()
_MASTER = {"epoch": ""}
"""What this process learns about itself after its log began."""
_REQUEST: ContextVar[str] = ContextVar("request", default="")

_TEXT_HEAD = ("at", "level", "thread", "logger", "message", "traceback")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""What a terminal would obey, or take for the end of a line."""
_UNSAID = ("event",)
"""Not in a line of text: the message says it."""


def hide(secrets: Iterable[str | bytes]) -> None:
    """Take *secrets* out of every line from now on, in each form of `tarn.plain.forms`."""
    _HIDING.add(*secrets)


def of_epoch(epoch: str) -> None:
    """Say in every line from now on which master this is."""
    _MASTER["epoch"] = epoch


def request_id() -> str:
    """Return the id of the request that is being answered; empty outside of one."""
    return _REQUEST.get()


@contextlib.contextmanager
def within(request: str) -> Iterator[None]:
    """Mark what is said meanwhile, in this task or thread, as about the request of this id."""
    token = _REQUEST.set(request)
    try:
        yield
    finally:
        _REQUEST.reset(token)


def begin(form: str, level: str, cluster: str, stream: IO[str] | None = None) -> None:
    """Let this process write its log to *stream* (None: standard error).

    Nothing is changed where somebody has set up logging already.

    Args:
        form: ``json`` or ``text``.
        level: The least severe level that is written.
        cluster: Whose master it is.
        stream: Where the lines go.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = Lines(stream or sys.stderr)
    handler.setFormatter(formatter(form, cluster))
    root.addHandler(handler)
    root.setLevel(level.upper())
    threading.excepthook = _died


class Lines(logging.StreamHandler[IO[str]]):
    """Writes the lines. One that cannot be made is told of without its words."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        """Say that *record* was lost; the library would print all that was to be said."""
        kind = getattr(sys.exc_info()[0], "__name__", "an error")
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(f"a line of {record.name} could not be written: {kind}\n")


def formatter(form: str, cluster: str) -> logging.Formatter:
    """Return what makes a line of a record."""
    import structlog  # noqa: PLC0415 (the other parts of this module are for clients, too)

    def named(_logger: Any, _method: str, event: Any) -> Any:
        record = event["_record"]
        said: dict[str, Any] = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName or "",
            "message": event["event"],
            "cluster": cluster,
            "epoch": _MASTER["epoch"],
        }
        about = {name: getattr(record, name, None) for name in ABOUT}
        about["request"] = about["request"] or _REQUEST.get()
        said |= {name: value for name, value in about.items() if value not in (None, "")}
        if "exception" in event:
            said["traceback"] = event["exception"]
        return said

    def hidden(_logger: Any, _method: str, event: Any) -> Any:
        return _HIDING.value(event)

    render = _as_json if form == "json" else _as_text
    return structlog.stdlib.ProcessorFormatter(
        processors=[structlog.processors.format_exc_info, named, hidden, render]
    )


def _as_json(_logger: Any, _method: str, event: Any) -> str:
    return json.dumps(event, default=str)


def _as_text(_logger: Any, _method: str, event: Any) -> str:
    """Return ``TIME LEVEL THREAD LOGGER: MESSAGE [what it is about]``, then a traceback.

    Whatever follows a line's end is set off by two blanks: nobody can write a line of his own.
    """
    head = f"{event['at']} {event['level'].upper()} {event['thread']} {event['logger']}"
    rest = {k: v for k, v in event.items() if k not in _TEXT_HEAD and k not in _UNSAID}
    about = " ".join(f"{name}={value}" for name, value in rest.items())
    trace = f"\n{event['traceback']}" if "traceback" in event else ""
    return _CONTROL.sub(_spelled, f"{head}: {event['message']} [{about}]{trace}").replace(
        "\n", "\n  "
    )


def _spelled(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _moment(at: float) -> str:
    """Return wall time *at* (Unix seconds) in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _died(failed: threading.ExceptHookArgs) -> None:
    """Log what ended a thread; it would go to standard error as it is."""
    if failed.exc_value is None or failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread else "a thread"
    logging.getLogger(__name__).critical("%s ended by an error", name, exc_info=failed.exc_value)
