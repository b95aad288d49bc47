"""The keeper: the parent process of a cluster's master, which it restarts when it ends.

It is a program, ``python keeper.py DIRECTORY``, in a separate session. It imports only the standard
library, so that it stays small for months. When a master dies, the kernel makes the keeper the
parent of its Tritons, so it also reaps them.
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

__all__ = ["start_ticks"]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
# After a master that lived this long, the next restart waits for the first pause again.
STEADY_AFTER_S = 60.0
# How long a master may take to exit after SIGTERM; it promises 150 ms.
LEAVE_TIMEOUT_S = 5.0
SUPERSEDED = 3
COULD_NOT_START = 127
_PR_SET_CHILD_SUBREAPER = 36
# Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5).
_FIRST_FIELD_AFTER_NAME, _START_TIME = 3, 22


def start_ticks(pid: int) -> int | None:
    """Return when *pid* started, in clock ticks since boot; None when it is gone or a zombie.

    A pid together with this number identifies a process for good.

    Raises:
        OSError: This process lacks a resource, such as a file descriptor, for looking.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name of the program, in parentheses, may itself contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TIME - _FIRST_FIELD_AFTER_NAME])


class Keeper:
    """Restarts one command until it reports that it is done, or SIGTERM arrives."""

    def __init__(self, directory: Path, command: list[str]) -> None:
        self._directory = directory
        self._command = command
        self._exits: list[dict[str, float | int]] = []
        self._told_to_leave = False
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._writing = writing

    def run(self) -> int:
        """Run masters until the cluster ends, and return the keeper's exit code."""
        self._listen()
        pause_s = FIRST_PAUSE_S
        while True:
            started_s = time.monotonic()
            code = self._one_master()
            ended = code == 0 and (self._directory / "ended").exists()
            done = ended or code == SUPERSEDED or not self._directory.exists()
            if self._told_to_leave or done:
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
        except OSError as error:  # out of processes, descriptors or space: retried after a pause
            with contextlib.suppress(OSError):
                os.write(2, f"the keeper cannot start a master: {error}\n".encode())
            return COULD_NOT_START
        self._wait(lambda: self._told_to_leave or self._reaped(master), None)
        if master.returncode is None:
            master.terminate()
            self._wait(lambda: self._reaped(master), LEAVE_TIMEOUT_S)
        return -1 if master.returncode is None else master.returncode

    def _reaped(self, master: subprocess.Popen[bytes]) -> bool:
        """Reap every child that ended, also orphaned Tritons; return whether the master did."""
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
        # Tritons whose master ended become children of this process, which reaps them.
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A full pipe wakes the keeper just as well.
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

        def leave_soon(_number: int, _frame: object) -> None:
            self._told_to_leave = True

        signal.signal(signal.SIGTERM, leave_soon)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # Without a handler, the signal would not write to the wake-up pipe.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

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
        """Write the keeper's identity and its masters' exit codes to ``keeper.json``."""
        pid = os.getpid()
        document = {"pid": pid, "start": start_ticks(pid), "exits": self._exits}
        temporary = self._directory / ".keeper.json.new"
        # A full disk must not end the keeper: the master matters more than this note.
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(document))
            temporary.replace(self._directory / "keeper.json")

    def _leave(self) -> None:
        for name in ("keeper.json", ".keeper.json.new", "ended"):
            with contextlib.suppress(OSError):
                (self._directory / name).unlink()


def main(arguments: list[str]) -> int:
    """Keep the master of the cluster in the directory named by the first argument.

    A forked daemon does so; the caller's process returns once that has written ``keeper.json``.
    Further arguments replace the master's command.
    """
    directory = Path(arguments[0]).absolute()
    command = [sys.executable, "-P", "-m", "tarn.master", str(directory)]
    reading, writing = os.pipe2(os.O_CLOEXEC)
    # The parent keeps no writing end: so its read ends without a byte if the daemon dies early.
    if os.fork():
        os.close(writing)
        return 0 if os.read(reading, 1) else 1
    # In a session of its own, so that closing the caller's terminal does not end it.
    os.setsid()
    keeper = Keeper(directory, arguments[1:] or command)
    keeper.write()
    os.write(writing, b"1")
    os.close(writing)
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
