"""The keeper: parent of a cluster's master, which it starts again when it ends.

Run as a program, ``python keeper.py DIRECTORY``, in a session of its own. It imports the standard
library only, so that it stays small for months. It is also the nearest parent that a Triton has
once its master died, so it takes their exit statuses in.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Keeper", "main", "start_ticks"]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
STEADY_AFTER_S = 60.0
"""A master that lived this long begins with the first pause again."""
LEAVE_TIMEOUT_S = 5.0
"""How long a master may take to leave after SIGTERM; it promises 150 ms."""
SUPERSEDED = 3
COULD_NOT_START = 127
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_FIELD_AFTER_NAME, _START_TIME = 3, 22
"""Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5)."""


def start_ticks(pid: int) -> int | None:
    """Return when *pid* started, in clock ticks since boot; None when it is gone or a zombie.

    A pid and this number together name one process for good. Where this process lacks what looking
    takes (a file descriptor), an ``OSError`` says so: nobody is taken for gone.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TIME - _FIRST_FIELD_AFTER_NAME])


class Keeper:
    """Runs one command again and again, until it says that it is done or SIGTERM arrives."""

    def __init__(self, directory: Path, command: list[str]) -> None:
        self._directory = directory
        self._command = command
        self._exits: list[dict[str, float | int]] = []
        self._told_to_leave = False
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._writing = writing

    def run(self) -> int:
        """Keep the master until there is nothing to keep; the exit code is the keeper's."""
        self._listen()
        pause_s = FIRST_PAUSE_S
        while True:
            started_s = time.monotonic()
            code = self._one_master()
            if self._told_to_leave or self._is_done(code):
                self._leave()
                return 0
            self._exits = [*self._exits[-9:], {"code": code, "at": time.time()}]
            self.write()
            if time.monotonic() - started_s >= STEADY_AFTER_S:
                pause_s = FIRST_PAUSE_S
            self._wait(lambda: self._told_to_leave, pause_s)
            if self._told_to_leave:
                self._leave()
                return 0
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    def _is_done(self, code: int) -> bool:
        ended = code == 0 and (self._directory / "ended").exists()
        return ended or code == SUPERSEDED or not self._directory.exists()

    def _one_master(self) -> int:
        log = self._directory / "logs" / "master.log"
        try:
            log.parent.mkdir(mode=0o700, exist_ok=True)
            with log.open("ab") as sink:
                master = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    cwd=self._directory,
                    start_new_session=True,
                )
        except OSError as error:  # no process, descriptor or space: tried again after a pause
            with contextlib.suppress(OSError):
                os.write(2, f"the keeper cannot start a master: {error}\n".encode())
            return COULD_NOT_START
        self._wait(lambda: self._told_to_leave or self._reaped(master), None)
        if master.returncode is None:
            master.terminate()
            self._wait(lambda: self._reaped(master), LEAVE_TIMEOUT_S)
        return -1 if master.returncode is None else master.returncode

    def _reaped(self, master: subprocess.Popen[bytes]) -> bool:
        """Take in every child that ended, orphaned Tritons included; True once the master did."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == master.pid:
                master.returncode = os.waitstatus_to_exitcode(status)
        return master.returncode is not None

    def _listen(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._leave_soon)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # A handler must exist, or the signal would not write to the wake-up pipe.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def _leave_soon(self, _number: int, _frame: object) -> None:
        self._told_to_leave = True

    def _wait(self, done: Callable[[], bool], timeout_s: float | None) -> None:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not done():
            left_s = 60.0 if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                return
            ready, _, _ = select.select([self._reading], [], [], left_s)
            if ready:
                os.read(self._reading, 4096)

    def write(self) -> None:
        """Say in ``keeper.json`` who keeps this cluster, and how its masters ended."""
        pid = os.getpid()
        document = {"pid": pid, "start": start_ticks(pid), "exits": self._exits}
        beside = self._directory / ".keeper.json.new"
        # A full disk must not end the keeper: the master matters more than this note.
        with contextlib.suppress(OSError):
            beside.write_text(json.dumps(document))
            beside.replace(self._directory / "keeper.json")

    def _leave(self) -> None:
        for name in ("keeper.json", ".keeper.json.new", "ended"):
            with contextlib.suppress(OSError):
                (self._directory / name).unlink()


def main(arguments: list[str]) -> int:
    """Keep the master of the cluster in the directory named by the first argument.

    Returns to the caller once a process of its own, nobody's child, keeps it and has said so in
    ``keeper.json``. More arguments replace the command that is kept.
    """
    directory = Path(arguments[0]).absolute()
    command = [sys.executable, "-P", "-m", "tarn.master", str(directory)]
    reading, writing = os.pipe2(os.O_CLOEXEC)
    if os.fork():
        os.close(writing)
        return 0 if os.read(reading, 1) else 1
    os.setsid()
    keeper = Keeper(directory, arguments[1:] or command)
    keeper.write()
    os.write(writing, b"1")
    os.close(writing)
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
