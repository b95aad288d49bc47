"""Processes that outlive us: started, known again by pid and start, signalled, waited for."""

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.process_table import environment_of, start_ticks

__all__ = ["DaemonProcess", "containers", "spawn"]

_PROC = Path("/proc")


@attrs.frozen
class DaemonProcess:
    """One process; signals through it never reach another that got its pid."""

    pid: int
    start: int
    """Clock ticks since boot."""

    @classmethod
    def read(cls, file: Path) -> "DaemonProcess | None":
        """Return what `write` wrote; None: nothing readable is there."""
        try:
            plain = json.loads(file.read_text())
            return cls(int(plain["pid"]), int(plain["start"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, file: Path) -> None:
        """Write it down, whole or not at all."""
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps({"pid": self.pid, "start": self.start}))
        draft.replace(file)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return start_ticks(self.pid) == self.start

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError), self._opened() as descriptor:
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; True: it has ended. A child of ours is reaped."""
        with contextlib.suppress(ProcessLookupError), self._opened() as descriptor:
            if not self.alive:
                _reap(descriptor)
                return True
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(max(0.0, timeout_s) * 1000):
                return False
            _reap(descriptor)
        return True

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.pidfd_open(self.pid)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _reap(descriptor: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)


def spawn(
    argv: Sequence[str], environ: Mapping[str, str], folder: Path, log: Path
) -> DaemonProcess:
    """Start *argv* in *folder*, in a session of its own; its output is appended to *log*.

    Raises:
        OSError: It could not be started.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
        )
    # It is known by its pid and start from here on; Popen must not warn that nobody reaped it.
    process.returncode = 0
    return DaemonProcess(process.pid, start_ticks(process.pid) or 0)


def containers(data: Path) -> tuple[DaemonProcess, ...]:
    """Return the processes that NodeManagers with directories below *data* started.

    A NodeManager tells each container its ``LOCAL_DIRS``; children inherit it. Those of other users
    are root's to see: a LinuxContainerExecutor runs containers as somebody else.
    """
    mark = f"LOCAL_DIRS={data}/".encode()
    found = []
    for entry in _PROC.iterdir():
        # Processes of others, and those that end while we look, cannot be read.
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or os.getuid() not in (0, entry.stat().st_uid):
                continue
            start = start_ticks(int(entry.name))
            variables = environment_of(int(entry.name))
            if start is not None and any(one.startswith(mark) for one in variables):
                found.append(DaemonProcess(int(entry.name), start))
    return tuple(found)
