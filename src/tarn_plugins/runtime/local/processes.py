"""Start processes, and notice within milliseconds when one ends."""

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
from tarn_plugins.runtime.local.procfs import start_ticks

__all__ = ["LOG", "ProcessHandle", "Watcher", "rotate", "spawn", "tail"]

log = logging.getLogger(__name__)

LOG = "triton.stderr"
"""What Triton writes, and what its Python models print, in the order in which it comes."""
_TAIL_BYTES = 64 * 1024
_LONGEST_SLEEP_S = 60.0


def spawn(argv: Sequence[str], environ: Mapping[str, str], folder: Path) -> int:
    """Start *argv* in a session of its own and return its pid; it outlives this process.

    Its standard input is empty, its output is appended to `LOG` in *folder*, which is also its
    working directory; it inherits no other file, and of the open files the user's own limit. The
    caller reaps it.

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
    # The watcher reaps it by its pidfd; Popen must not try, nor warn that nobody did.
    process.returncode = 0
    return process.pid


def rotate(log: Path, limit_bytes: int) -> None:
    """Move what a log holds beyond *limit_bytes* into ``<log>.1``; two are kept.

    Copied and cut, since who writes keeps its file open (it appends, so it goes on at the start).
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size > limit_bytes:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def tail(folder: Path, limit: int = _TAIL_BYTES) -> list[str]:
    """Return the last lines of an instance's log; [] without one."""
    with contextlib.suppress(OSError), (folder / LOG).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - limit))
        return log.read().decode(errors="replace").splitlines()
    return []


@attrs.define(eq=False)
class ProcessHandle:
    """A process that is being watched; signals through it never reach another one."""

    pid: int
    start: int
    descriptor: int = -1
    """Its pidfd; -1 once it ended."""
    peak_mib: int = 0
    """The most memory that it had, once it ended; 0: it is not our child."""

    def send(self, *numbers: signal.Signals) -> None:
        """Send signals; nothing happens when it has ended."""
        for number in numbers:
            with contextlib.suppress(ProcessLookupError, OSError):
                signal.pidfd_send_signal(self.descriptor, number)


class Watcher:
    """One thread that waits for the ends of processes, and for points in time.

    What it calls runs on that thread and must be quick; what it raises is logged, and survived.
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
        """Call *ended* once when the process ends; any thread.

        It gets the exit code, or minus the signal, or None when the process is not our child.
        *start* None: it was just started by us. A process that is gone already has ended.

        Raises:
            OSError: This process lacks what watching takes, mostly a file descriptor.
        """
        handle = ProcessHandle(pid, start or 0)
        with contextlib.suppress(ProcessLookupError):
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
        """Call *action* at the monotonic second *when_s*; any thread."""
        self._post(lambda: heapq.heappush(self._timers, (when_s, next(self._order), action)))

    def close(self) -> None:
        """End the thread and let go of every process; they live on. Idempotent."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join(1.0)
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
    """Do *action*; without this thread no end of a process would be noticed any more."""
    try:
        action()
    except Exception:
        log.exception("the clean-up after the end of a process failed")


def _reap(handle: ProcessHandle) -> int | None:
    try:
        # By pid, for the memory that it had: it cannot be another's before this has returned.
        pid, status, used = os.wait4(handle.pid, os.WNOHANG)
    except ChildProcessError:
        return None
    if pid == 0:
        return None
    handle.peak_mib = used.ru_maxrss // 1024
    return os.waitstatus_to_exitcode(status)
