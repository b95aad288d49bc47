"""The master's log: one line for each record, as text or as JSON.

All code uses the standard library's ``logging``; ``extra`` has the fields in `ABOUT`. Every line
contains the cluster and the epoch, and the id of the request that is being answered, if any. The
master's secrets are masked. ``docs/reference/events.md`` describes the lines.
"""

import contextlib
import json
import logging
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

from tarn.plain import SecretMasker

__all__ = [
    "ABOUT",
    "LineFormatter",
    "RepeatCounter",
    "ThrottledHandler",
    "begin",
    "hide",
    "of_epoch",
    "place_of",
    "request_id",
    "within",
]

ABOUT = ("instance", "request", "decision", "event")
"""The names in ``extra`` that become fields of a line."""

_HIDING = SecretMasker()
# Fields of every line that are known only after the log began.
_MASTER = {"epoch": ""}
_REQUEST: ContextVar[str] = ContextVar("request", default="")

# A record that repeats within this time is counted instead of written.
EVERY_S = 60.0
MOST_KINDS = 256
# Loggers to which any client can cause a record with each connection.
_FOREIGN = ("asyncio", "uvicorn")

_TEXT_HEAD = ("at", "level", "thread", "logger", "message", "traceback")
# Characters that control a terminal, or end a line.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Fields that are not in a line of text, since the message repeats them.
_UNSAID = ("event",)


def hide(secrets: Iterable[str | bytes]) -> None:
    """Mask *secrets* in every line from now on, in each form of `tarn.plain.forms`."""
    _HIDING.add(*secrets)


def of_epoch(epoch: str) -> None:
    """Set the epoch of every line from now on."""
    _MASTER["epoch"] = epoch


def request_id() -> str:
    """Return the id of the request that is being answered, or ''."""
    return _REQUEST.get()


@contextlib.contextmanager
def within(request: str) -> Iterator[None]:
    """Add the id *request* to the records of this task or thread meanwhile."""
    token = _REQUEST.set(request)
    try:
        yield
    finally:
        _REQUEST.reset(token)


def begin(form: str, level: str, cluster: str, stream: IO[str] | None = None) -> None:
    """Set up the log of this process, unless logging is set up already.

    Args:
        form: ``json`` or ``text``.
        level: The minimum level.
        cluster: Name of the master's cluster.
        stream: Where the lines go; None: standard error.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = ThrottledHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(form, cluster))
    root.addHandler(handler)
    root.setLevel(level.upper())
    threading.excepthook = _log_thread_error


Kind = tuple[object, ...]


class RepeatCounter:
    """Counts records that repeat within a minute, by kind. Any thread may use it."""

    def __init__(self, every_s: float = EVERY_S, most: int = MOST_KINDS) -> None:
        self._every_s, self._most = every_s, most
        self._lock = threading.Lock()
        self._kinds: OrderedDict[Kind, tuple[float, int]] = OrderedDict()
        """When each was last written, and how often it was not since then; the oldest first."""

    def again(self, kind: Kind, now_s: float) -> int | None:
        """Return how often *kind* was not written since the last time; None: do not write it."""
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
    """Return the kind of *error*: its class, and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = () if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return (type(error), *where)


def _kind_of(record: logging.LogRecord) -> Kind | None:
    """Return the kind by which *record* is counted; None: it is always written."""
    kind = getattr(record, "kind", None)
    if kind is not None:
        return record.name, kind
    if record.exc_info and record.exc_info[1] is not None:
        return record.pathname, record.lineno, *place_of(record.exc_info[1])
    if record.name.partition(".")[0] in _FOREIGN:
        return record.name, record.msg
    return None


class ThrottledHandler(logging.StreamHandler[IO[str]]):
    """Writes the lines, those that may repeat endlessly once a minute for each kind.

    These are records with a traceback or a ``kind`` in ``extra``, and those that clients can cause.
    The next line of a kind says how many were left out.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._repeats = RepeatCounter()

    def filter(self, record: logging.LogRecord) -> Any:
        """Leave out a record whose kind was written within the last minute, and count it."""
        kind = _kind_of(record)
        if kind is not None:
            count = self._repeats.again(kind, time.monotonic())
            if count is None:
                return False
            record.unsaid = count
        return super().filter(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        """Write that *record* was lost."""
        # The library would print the whole record, with any secret in it.
        kind = getattr(sys.exc_info()[0], "__name__", "an error")
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(f"a line of {record.name} could not be written: {kind}\n")


class LineFormatter(logging.Formatter):
    """Formats a record as one line, as ``json`` or as ``text``."""

    def __init__(self, form: str, cluster: str) -> None:
        super().__init__()
        self._render: Callable[..., str] = json.dumps if form == "json" else _as_text
        self._cluster = cluster

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* as one line, with secrets masked."""
        at = datetime.fromtimestamp(record.created, UTC)
        unsaid = getattr(record, "unsaid", 0)
        more = f" (and {unsaid} more times since it was last written)" if unsaid else ""
        said: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName or "",
            "message": f"{record.getMessage()}{more}",
            "cluster": self._cluster,
            "epoch": _MASTER["epoch"],
        }
        about = {name: getattr(record, name, None) for name in ABOUT}
        about["request"] = about["request"] or _REQUEST.get()
        said |= {name: value for name, value in about.items() if value not in (None, "")}
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        # Masked as values, since JSON's escapes would change the text of a secret.
        return self._render(_HIDING.value(said), default=str)


def _as_text(event: Mapping[str, Any], **_: object) -> str:
    """Return ``TIME LEVEL THREAD LOGGER: MESSAGE [FIELDS]``, then a traceback."""
    head = f"{event['at']} {event['level'].upper()} {event['thread']} {event['logger']}"
    rest = {k: v for k, v in event.items() if k not in _TEXT_HEAD and k not in _UNSAID}
    about = " ".join(f"{name}={value}" for name, value in rest.items())
    trace = f"\n{event['traceback']}" if "traceback" in event else ""
    text = f"{head}: {event['message']} [{about}]{trace}"
    text = _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
    # Further lines are indented, so that a message cannot forge a line.
    return text.replace("\n", "\n  ")


def _log_thread_error(failed: threading.ExceptHookArgs) -> None:
    """Log the exception that ended a thread; Python would print it with its secrets."""
    if failed.exc_value is None or failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread else "a thread"
    logging.getLogger(__name__).critical("%s ended by an error", name, exc_info=failed.exc_value)
