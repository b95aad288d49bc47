"""The master's log: one line for each thing said, as text or as JSON, with what it is about.

Everybody who has something to say uses the standard library's ``logging``; ``extra`` names what it
is about (`ABOUT`). Every line carries the cluster and the epoch; one that is written while a
request is answered carries its id. Secrets that the master holds are taken out of each line.

This is the only place that imports structlog. ``docs/reference/events.md`` describes the lines.
"""

import contextlib
import json
import logging
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

from tarn.plain import SecretMasker

__all__ = [
    "ABOUT",
    "RepeatCounter",
    "ThrottledHandler",
    "begin",
    "formatter",
    "hide",
    "of_epoch",
    "place_of",
    "request_id",
    "within",
]

ABOUT = ("instance", "request", "decision", "event")
"""Names in ``extra`` that become fields of a line; whatever else stands there does not."""

_HIDING = SecretMasker()
_MASTER = {"epoch": ""}
"""What this process learns about itself after its log began."""
_REQUEST: ContextVar[str] = ContextVar("request", default="")

EVERY_S = 60.0
"""What is said again within it is counted, and said no more."""
MOST_KINDS = 256
_FOREIGN = ("asyncio", "uvicorn")
"""Loggers that anybody who connects can make write as often as he likes."""

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
    handler = ThrottledHandler(stream or sys.stderr)
    handler.setFormatter(formatter(form, cluster))
    root.addHandler(handler)
    root.setLevel(level.upper())
    threading.excepthook = _died


Kind = tuple[object, ...]


class RepeatCounter:
    """Counts what is said again within a minute of its first time, kind by kind. Any thread."""

    def __init__(self, every_s: float = EVERY_S, most: int = MOST_KINDS) -> None:
        self._every_s, self._most = every_s, most
        self._lock = threading.Lock()
        self._kinds: OrderedDict[Kind, tuple[float, int]] = OrderedDict()
        """When each was said last, and how often it was not said since; the oldest first."""

    def again(self, kind: Kind, now_s: float) -> int | None:
        """Return how often it was not said since it was said last; None: do not say it now."""
        with self._lock:
            said_s, count = self._kinds.get(kind, (float("-inf"), 0))
            if now_s - said_s < self._every_s:
                self._kinds[kind] = said_s, count + 1
                return None
            self._kinds.pop(kind, None)
            self._kinds[kind] = now_s, 0
            if len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
            return count


def place_of(error: BaseException) -> Kind:
    """Return what makes *error* the same as one before: its class, and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = () if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return (type(error), *where)


def _kind_of(record: logging.LogRecord) -> Kind | None:
    """Return as what *record* is counted; None: it is always said.

    Those with a traceback, those that name their ``kind`` in ``extra``, and those of others.
    """
    kind = getattr(record, "kind", None)
    if kind is not None:
        return record.name, kind
    if record.exc_info and record.exc_info[1] is not None:
        return record.pathname, record.lineno, *place_of(record.exc_info[1])
    if record.name.partition(".")[0] in _FOREIGN:
        return record.name, record.msg
    return None


class ThrottledHandler(logging.StreamHandler[IO[str]]):
    """Writes the lines. One that cannot be made is told of without its words.

    What may be said without end (an error of a loop, what anybody can cause) is written once a
    minute for each kind, with how often it was not written since.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._repeats = RepeatCounter()

    def filter(self, record: logging.LogRecord) -> Any:
        """Leave out what was written within the last minute, and count it."""
        kind = _kind_of(record)
        if kind is not None:
            count = self._repeats.again(kind, time.monotonic())
            if count is None:
                return False
            record.unsaid = count
        return super().filter(record)

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
        unsaid = getattr(record, "unsaid", 0)
        more = f" (and {unsaid} more times since it was last written)" if unsaid else ""
        said: dict[str, Any] = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName or "",
            "message": f"{event['event']}{more}",
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

    What follows a line's end is set off by two blanks: nobody can write a line of his own.
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
