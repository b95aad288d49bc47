"""Start processes, and notice their ends within milliseconds."""

import contextlib
import heapq
import itertools
import logging
import os
import selectors
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.descriptors import from_before
from tarn.interfaces import Clock
from tarn_plugins.runtime.local.machine import start_ticks

__all__ = ["LOG", "ProcessHandle", "Watcher", "rotate", "spawn", "tail"]

log = logging.getLogger(__name__)

# The output of Triton and of its Python models, in the order in which they write it.
LOG = "triton.stderr"
_TAIL_BYTES = 64 * 1024
_LONGEST_SLEEP_S = 60.0


def spawn(argv: Sequence[str], environ: Mapping[str, str], folder: Path) -> int:
    """Start *argv* in a new session, so that it outlives this process, and return its pid.

    Its standard input is empty, its output is appended to `LOG` in its working directory *folder*,
    and its limit of open files is the one with which this process was started. The caller must reap
    it.

    Raises:
        OSError: It could not be started.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
        )
    from_before(process.pid)
    # The watcher reaps it; without a return code, Popen would try to, or warn.
    process.returncode = 0
    return process.pid


def rotate(log: Path, limit_bytes: int) -> None:
    """Move a log of more than *limit_bytes* to ``<log>.1``, in place of an older one."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > limit_bytes:
            # Not renamed: the writer keeps the file open, and appends at its new end after this.
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def tail(folder: Path, limit: int = _TAIL_BYTES) -> list[str]:
    """Return the last lines of an instance's log; [] if there is none."""
    with contextlib.suppress(OSError), (folder / LOG).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - limit))
        return log.read().decode(errors="replace").splitlines()
    return []


@attrs.define(eq=False)
class ProcessHandle:
    """A watched process; its signals never reach another process with the same pid."""

    pid: int
    start: int
    descriptor: int = -1
    """Its pidfd; -1 after its end."""
    peak_mib: int = 0
    """Its peak memory, known after its end; 0: it was not our child."""

    def send(self, *numbers: signal.Signals) -> None:
        """Send signals, unless it has ended."""
        for number in numbers:
            with contextlib.suppress(ProcessLookupError, OSError):
                # After its end the descriptor is -1, which the kernel refuses with an `OSError`.
                signal.pidfd_send_signal(self.descriptor, number)


class Watcher:
    """A thread that waits for the ends of processes, and for points in time.

    Its callbacks run on that thread and must be quick. It logs their exceptions and continues.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._poll = selectors.EpollSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, selectors.EVENT_READ)
        self._posted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._closing = False
        self._handles: set[ProcessHandle] = set()
        self._thread = threading.Thread(target=self._run, name="local-watcher", daemon=True)
        self._thread.start()

    def watch(
        self, pid: int, start: int | None, ended: Callable[[int | None], None]
    ) -> ProcessHandle:
        """Call *ended* once when the process ends, or soon if it has. From any thread.

        The argument is the exit code, minus the signal, or None if the process is not our child.
        *start* is None for a process that the caller has just started.

        Raises:
            OSError: This process lacks a resource for watching, mostly a file descriptor.
        """
        handle = ProcessHandle(pid, start or 0)
        with contextlib.suppress(ProcessLookupError):
            # Before the start is read: a pid that was used again meanwhile shows by another start.
            handle.descriptor = os.pidfd_open(pid)
        try:
            started = start_ticks(pid)
        except OSError:
            if handle.descriptor >= 0:
                os.close(handle.descriptor)
            raise
        if start is None:
            handle.start = started or 0
        elif started != start and handle.descriptor >= 0:
            os.close(handle.descriptor)
            handle.descriptor = -1
        self._post(lambda: self._add(handle, ended))
        return handle

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Call *action* at the monotonic second *when_s*. From any thread."""
        # The number decides between equal times, since functions cannot be compared.
        self._post(lambda: heapq.heappush(self._timers, (when_s, next(self._order), action)))

    def close(self) -> None:
        """End the thread; the processes keep running. Idempotent."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join(1.0)
        # Set to -1 first, so that no signal goes to the next owner of the descriptor's number.
        for handle in self._handles:
            descriptor, handle.descriptor = handle.descriptor, -1
            os.close(descriptor)
        self._handles.clear()
        self._poll.close()
        os.close(self._wake)

    def _post(self, action: Callable[[], None]) -> None:
        self._posted.append(action)
        if not self._closing:
            os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        while not self._closing:
            left_s = self._timers[0][0] - self._clock.now_s() if self._timers else _LONGEST_SLEEP_S
            for key, _events in self._poll.select(max(0.0, min(left_s, _LONGEST_SLEEP_S))):
                if key.fileobj == self._wake:
                    os.eventfd_read(self._wake)
                else:
                    _survived(key.data)
            while self._posted and not self._closing:
                _survived(self._posted.popleft())
            while self._timers and self._timers[0][0] <= self._clock.now_s():
                _survived(heapq.heappop(self._timers)[2])

    def _add(self, handle: ProcessHandle, ended: Callable[[int | None], None]) -> None:
        if handle.descriptor < 0:
            ended(None)
            return
        self._handles.add(handle)
        self._poll.register(
            handle.descriptor, selectors.EVENT_READ, lambda: self._end(handle, ended)
        )

    def _end(self, handle: ProcessHandle, ended: Callable[[int | None], None]) -> None:
        code = _reap(handle)
        self._poll.unregister(handle.descriptor)
        self._handles.discard(handle)
        descriptor, handle.descriptor = handle.descriptor, -1
        os.close(descriptor)
        ended(code)


def _survived(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:  # without this thread the master would notice no end of a process
        log.exception("the clean-up after the end of a process failed")


def _reap(handle: ProcessHandle) -> int | None:
    try:
        # Only wait4 tells the memory. The pid cannot be reused before this call reaps it.
        pid, status, used = os.wait4(handle.pid, os.WNOHANG)
    except ChildProcessError:
        return None
    if pid == 0:
        return None
    handle.peak_mib = used.ru_maxrss // 1024
    return os.waitstatus_to_exitcode(status)
