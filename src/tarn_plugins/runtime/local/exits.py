"""Why a tritonserver ended, in words. Pure: exit code, what was asked, and its log's last lines."""

from collections.abc import Iterable

import attrs

from tarn.domain import ExitStatus
from tarn.errors import LaunchError
from tarn.triton import exits
from tarn.triton.last_words import hopeless, last_error

__all__ = ["ProcessExit", "could_not_start", "explain"]


@attrs.frozen
class ProcessExit:
    """How a process ended, as far as its watcher saw."""

    code: int | None = None
    """Exit code, or minus the signal; None: it was not our child, nobody saw it."""
    asked: bool = False
    """Its stop was asked."""
    forced: bool = False
    """It did not end in time, and was killed by us."""
    peak_mib: int = 0
    """The most memory that tritonserver itself had, without its stubs; 0: not seen."""
    machine_mib: int = 0
    """The machine's memory; 0: not asked."""
    asked_mib: int = 0
    """What ``instance.resources.memory`` says."""


def explain(end: ProcessExit, lines: Iterable[str]) -> ExitStatus:
    """Return the exit status with its reason in words, from the end of Triton's log *lines*."""
    error = last_error(lines)
    if end.asked:
        return ExitStatus(_stopped(end), end.code, expected=True, last_error=error)
    reason = f"{_died(end)}: {error}" if error else _died(end)
    return ExitStatus(reason, end.code, permanent=hopeless(error), last_error=error)


def could_not_start(error: LaunchError | OSError) -> ExitStatus:
    """Return the exit status of an instance whose process never came to be."""
    if isinstance(error, LaunchError):
        return ExitStatus(str(error), permanent=error.retry_after_s is None)
    what = f" ({error.filename})" if error.filename else ""
    return ExitStatus(f"could not be started: {error.strerror}{what}")


def _stopped(end: ProcessExit) -> str:
    """Say how it took its stop: Triton exits with 1 when its exit timeout passed first."""
    if end.forced:
        return "it did not end in time and was killed; requests in flight are lost"
    if end.code == 1:
        return "connections were still open at triton.exit_timeout; requests on them are lost"
    return "stopped as asked" if not end.code else f"stopped as asked ({_ended(end.code)})"


def _ended(code: int | None) -> str:
    if code is None:
        return "ended; its exit status is unknown, since an earlier master had started it"
    return exits.ended(code)


def _died(end: ProcessExit) -> str:
    """Say how it ended though nobody asked; who is killed outright mostly lacked memory."""
    if end.code is None or not exits.killed(end.code):
        return _ended(end.code)
    told = f"{_ended(end.code)}, not by TARN: probably out of memory"
    if not end.machine_mib:
        return told
    used = f"it used up to {end.peak_mib} MiB without its Python models; " if end.peak_mib else ""
    return (
        f"{told} ({used}instance.resources.memory says {end.asked_mib} MiB, the machine has "
        f"{end.machine_mib} MiB). Run fewer or smaller instances, or raise the machine's memory or "
        "the limit of the container that the master is in"
    )
