"""What ``/proc`` says: who is alive, who belongs to a cluster, who holds a port."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs

from tarn_plugins.runtime.local.keeper import start_ticks

__all__ = [
    "DIRECTORY_VARIABLE",
    "INSTANCE_VARIABLE",
    "Process",
    "alive",
    "holder",
    "kill",
    "memory_mib",
    "processes_of",
    "start_ticks",
]

INSTANCE_VARIABLE = "TARN_INSTANCE"
DIRECTORY_VARIABLE = "TARN_CLUSTER_DIR"
"""Every process of an instance carries both, so that it is found even without a record."""
_PROC = Path("/proc")
_LISTEN = "0A"


@attrs.frozen
class Process:
    """One process that belongs to an instance."""

    pid: int
    start: int
    """Clock ticks since boot; with the pid it names one process for good."""
    instance_id: str
    leader: bool
    """It leads its session: tritonserver itself, not one of its Python stubs."""


def alive(pid: int | None, start: int | None) -> bool:
    """Return whether the very process that had *pid* since *start* still runs (no zombie)."""
    return pid is not None and start is not None and start_ticks(pid) == start


def processes_of(directory: Path) -> tuple[Process, ...]:
    """Return every process of this user that was started for the cluster in *directory*."""
    return tuple(_scan(os.fsencode(directory), os.getuid()))


def kill(pid: int, start: int) -> None:
    """End the process that had *pid* since *start* at once; another one is never touched."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if start_ticks(pid) == start:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def memory_mib() -> int:
    """Return the machine's memory in MiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def holder(port: int) -> str:
    """Return name and pid of the process that listens on *port*; '' when it cannot be seen."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for entry in _pids() if sockets else ():
        with contextlib.suppress(OSError):
            held = {link.readlink().name for link in (entry / "fd").iterdir()}
            if sockets & held:
                return f"{(entry / 'comm').read_text().strip()} (pid {entry.name})"
    return ""


def _pids() -> Iterator[Path]:
    return (entry for entry in _PROC.iterdir() if entry.name.isdigit())


def _scan(directory: bytes, user: int) -> Iterator[Process]:
    for entry in _pids():
        pid = int(entry.name)
        # Processes of others, and those that end while we look, cannot be read.
        with contextlib.suppress(OSError):
            if entry.stat().st_uid != user:
                continue
            environ = dict(
                item.partition(b"=")[::2] for item in (entry / "environ").read_bytes().split(b"\0")
            )
            instance_id = environ.get(INSTANCE_VARIABLE.encode(), b"").decode(errors="replace")
            start = start_ticks(pid)
            if instance_id and environ.get(DIRECTORY_VARIABLE.encode()) == directory and start:
                yield Process(pid, start, instance_id, os.getsid(pid) == pid)


def _listening(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
