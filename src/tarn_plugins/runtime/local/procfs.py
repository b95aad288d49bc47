"""What ``/proc`` says: who is alive, who belongs to a cluster, who holds a port."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.process_table import environment_of, pids_of
from tarn_plugins.runtime.local.keeper import start_ticks

__all__ = [
    "DIRECTORY_VARIABLE",
    "INSTANCE_VARIABLE",
    "MASTER_VARIABLE",
    "InstanceProcess",
    "alive",
    "holder",
    "kill",
    "masters_of",
    "memory_mib",
    "processes_of",
    "rss_mib",
    "start_ticks",
]

INSTANCE_VARIABLE = "TARN_INSTANCE"
DIRECTORY_VARIABLE = "TARN_CLUSTER_DIR"
"""Every process of an instance carries both, so that it is found even without a record."""
MASTER_VARIABLE = "TARN_MASTER_DIR"
"""A keeper and its masters carry it."""
_PROC = Path("/proc")
_LISTEN = "0A"
_ROUND_MIB = 16


@attrs.frozen
class InstanceProcess:
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


def processes_of(directory: Path) -> tuple[InstanceProcess, ...]:
    """Return every process of this user that was started for the cluster in *directory*."""
    wanted = os.fsencode(directory)
    found = []
    for pid, start, environ in _mine():
        instance_id = environ.get(INSTANCE_VARIABLE.encode(), b"").decode(errors="replace")
        if instance_id and environ.get(DIRECTORY_VARIABLE.encode()) == wanted:
            with contextlib.suppress(ProcessLookupError):
                found.append(InstanceProcess(pid, start, instance_id, os.getsid(pid) == pid))
    return tuple(found)


def masters_of(directory: Path) -> tuple[tuple[int, int], ...]:
    """Return (pid, start) of every keeper and master that serves the cluster in *directory*."""
    wanted = os.fsencode(directory)
    return tuple(
        (pid, start)
        for pid, start, environ in _mine()
        if environ.get(MASTER_VARIABLE.encode()) == wanted
    )


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
            if sockets & set(_open_files(entry)):
                return f"{(entry / 'comm').read_text().strip()} (pid {entry.name})"
    return ""


def _pids() -> Iterator[Path]:
    return (entry for entry in _PROC.iterdir() if entry.name.isdigit())


def _mine() -> Iterator[tuple[int, int, dict[bytes, bytes]]]:
    """Yield (pid, start, environment) of this user's processes."""
    for pid in pids_of(os.getuid()):
        try:
            pairs, start = environment_of(pid), start_ticks(pid)
        except OSError as error:  # it ended while we looked, or cannot be read
            if shortage(error):  # nobody is taken for gone who could not be looked at
                raise
            continue
        if start is not None:
            yield pid, start, dict(pair.partition(b"=")[::2] for pair in pairs)


def _open_files(entry: Path) -> Iterator[str]:
    for link in (entry / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield link.readlink().name


def _listening(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def rss_mib(pid: int) -> int | None:
    """Return the memory in MiB that *pid* and its descendants hold; None: it has ended.

    What they share with one another, by a fork too, is counted once. It is rounded to 16 MiB, so
    that it does not change with every look.
    """
    held_kib, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        folder = _PROC / str(one)
        try:
            # of pages that several processes hold, each has its part ("proportional set size")
            lines = (folder / "smaps_rollup").read_text().splitlines()
            # each thread has the children that it started itself
            born = [(task / "children").read_text() for task in (folder / "task").iterdir()]
        except OSError:  # it ended while we looked
            if one == pid:
                return None
            continue
        held_kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        waiting += [int(child) for text in born for child in text.split()]
    return max(_ROUND_MIB, round(held_kib / 1024 / _ROUND_MIB) * _ROUND_MIB)
