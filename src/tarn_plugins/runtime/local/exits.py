"""Why a tritonserver ended, in words. Pure: exit code, what was asked, and its log's last lines."""

import signal
from collections.abc import Iterable

import attrs

from tarn.domain import ExitStatus
from tarn.errors import LaunchError
from tarn.triton.last_words import hopeless, last_error

__all__ = ["Exit", "could_not_start", "explain"]


@attrs.frozen
class Exit:
    """How a process ended, as far as its watcher saw."""

    code: int | None = None
    """Exit code, or minus the signal; None: it was not our child, nobody saw it."""
    asked: bool = False
    """Its stop was asked."""
    forced: bool = False
    """It did not end in time, and was killed by us."""


def explain(end: Exit, lines: Iterable[str]) -> ExitStatus:
    """Return the exit status with its reason in words, from the end of Triton's log *lines*."""
    error = last_error(lines)
    if end.asked:
        return ExitStatus(_stopped(end), end.code, expected=True, last_error=error)
    reason = f"{_ended(end.code)}: {error}" if error else _ended(end.code)
    return ExitStatus(reason, end.code, permanent=hopeless(error), last_error=error)


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
