"""Why a tritonserver ended, in words. Pure: exit code, what was asked, and its log's last lines."""

import re
import signal
from collections.abc import Iterable

import attrs

from tarn.domain import ExitStatus
from tarn.errors import LaunchError

__all__ = ["Exit", "could_not_start", "explain", "last_error"]

_LOGGED = re.compile(r'^E\d{4} [\d:.]+ \d+ [\w./-]+:\d+\] "?(?P<text>.*?)"?$')
"""A line of Triton's log: ``E1127 23:52:36.259414 2510 server.cc:241] "…"``."""
_PLAIN = re.compile(
    r"^(?:error|fatal error|terminate called|.*: error)\b.*|^\S*tritonserver: .+", re.IGNORECASE
)
_LOADER = re.compile(r"error while loading shared libraries|unrecognized option|option '--")
"""The same command can never do better."""
_HARMLESS = ("CudaDriverHelper has not been initialized",)
"""Logged as an error on every machine without a GPU."""
_LONGEST = 500


@attrs.frozen
class Exit:
    """How a process ended, as far as its watcher saw."""

    code: int | None = None
    """Exit code, or minus the signal; None: it was not our child, nobody saw it."""
    asked: bool = False
    """Its stop was asked."""
    forced: bool = False
    """It did not end in time, and was killed by us."""


def last_error(lines: Iterable[str]) -> str:
    """Return the text of the last error in Triton's log; '' when there is none."""
    found = ""
    for line in lines:
        logged = _LOGGED.match(line.rstrip())
        if logged and not any(harmless in line for harmless in _HARMLESS):
            found = logged["text"].replace('\\"', '"')
        elif not logged and _PLAIN.match(line):
            found = line.strip().rpartition("/")[2] if "tritonserver: " in line else line.strip()
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]} …"


def explain(end: Exit, lines: Iterable[str]) -> ExitStatus:
    """Return the exit status with its reason in words, from the end of Triton's log *lines*."""
    error = last_error(lines)
    if end.asked:
        return ExitStatus(_stopped(end), end.code, expected=True, last_error=error)
    reason = f"{_ended(end.code)}: {error}" if error else _ended(end.code)
    permanent = _LOADER.search(error) is not None
    return ExitStatus(reason, end.code, permanent=permanent, last_error=error)


def could_not_start(error: LaunchError | OSError) -> ExitStatus:
    """Return the exit status of an instance whose process never came to be."""
    if isinstance(error, LaunchError):
        return ExitStatus(str(error), permanent=error.retry_after_s is None)
    what = f" ({error.filename})" if error.filename else ""
    return ExitStatus(f"could not be started: {error.strerror}{what}")


def _stopped(end: Exit) -> str:
    """Say how it took its stop: Triton exits with 1 when its exit timeout passed first."""
    if end.forced:
        return "it did not end in time and was killed; a request in flight is lost"
    if end.code == 1:
        return "connections were still open at triton.exit_timeout; a request on them is lost"
    return "stopped as asked" if not end.code else f"stopped as asked ({_ended(end.code)})"


def _ended(code: int | None) -> str:
    if code is None:
        return "ended; exit status not seen, it was started by an earlier master"
    if code >= 0:
        return f"exited with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
    hint = ", not by TARN (out of memory?)" if -code == signal.SIGKILL else ""
    return f"killed by signal {-code} ({name}){hint}"
