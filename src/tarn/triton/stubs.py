"""Finds processes of Python models that died, by ``/proc``.

Triton's Python back end starts one process, a *stub*, for each instance of a model. If Triton ends
a stub itself (the model is unloaded or reloaded, or Triton exits), it waits for the process at
once, so that it is a zombie for less than 10 ms. A stub that dies otherwise stays a zombie. Triton
does not replace it, and the model stays READY, while each request to this stub fails after a second
(all seen on Triton 2.51).

As a program, ``python stubs.py BOARD PID``, a child of the Triton with that pid, this file makes an
empty folder in the folder BOARD for each stub that died. The board is one of Triton's repositories,
so the repository index names the folder: no other port is needed, and no credential on the node.
The program ends with Triton. It imports only the standard library.
"""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "LOOK_EVERY_S",
    "PREFIX",
    "ChildProcess",
    "ChildProcesses",
    "StubEnd",
    "StubHistory",
    "entry",
    "main",
]

# An end counts if two looks saw it: within a second, and never while Triton waits for the process.
LOOK_EVERY_S = 0.5
PREFIX = "tarn.stub-ended:"
"""The beginning of each name on a board."""
MOST_SHOWN = 16
_PROC = Path("/proc")
_LONGEST_NAME = 100
_PROGRAM = "triton_python_backend_stub"
# Places in a stub's command line: its ``model.py``, and the name of the model's instance.
_MODEL_FILE, _NAME = 1, 8
# Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5).
_STATE, _PARENT, _STARTED, _EXIT_STATUS = 3, 4, 22, 52

# Pid and start time, which together are never used again.
Key = tuple[int, int]


class ChildProcess(NamedTuple):
    """One child process at one look."""

    pid: int
    start: int
    """Clock ticks since boot."""
    argv: tuple[str, ...] = ()
    """Its command line; empty once it has ended."""
    code: int | None = None
    """Exit code, or minus the signal, of a zombie; None while it runs."""


class StubEnd(NamedTuple):
    """The death of one stub."""

    model: str
    name: str
    """The name of the model's instance. It is the model's name if Triton only asked for the
    settings, and empty with an older Triton, which does not tell it."""
    pid: int
    code: int
    """Exit code, or minus the signal."""
    at: float
    """Wall time of the first look that saw it, Unix seconds."""


class ChildProcesses:
    """Finds the children of processes; each process of the machine is read only once."""

    # The kernel's lists of children (``task/*/children``) are one file for each thread, and a
    # Triton has hundreds.

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._parents: frozenset[int] = frozenset()
        self._found: set[int] = set()

    def look(self, parents: AbstractSet[int]) -> Mapping[int, list[ChildProcess]]:
        """Return the children of each of *parents*, by its pid.

        Raises:
            OSError: ``/proc`` cannot be read, mostly for lack of file descriptors.
        """
        pids = {int(name) for name in os.listdir(_PROC) if name.isdigit()}  # noqa: PTH208 (a third of the time)
        old = self._pids if parents == self._parents else set()
        children: dict[int, list[ChildProcess]] = {pid: [] for pid in parents}
        found: set[int] = set()
        for pid in sorted((pids - old) | (pids & self._found)):
            parent, child = _read(pid, parents)
            if child is not None:
                found.add(pid)
                children[parent].append(child)
        self._pids, self._parents, self._found = pids, frozenset(parents), found
        return children


def _read(pid: int, parents: AbstractSet[int]) -> tuple[int, ChildProcess | None]:
    try:
        text = _text(pid, "stat")
        fields = ["", "", "", *text.rpartition(")")[2].split()]  # without pid and name
        parent, start = int(fields[_PARENT]), int(fields[_STARTED])
        if parent not in parents:
            return parent, None
        if fields[_STATE] in "ZX":
            code = os.waitstatus_to_exitcode(int(fields[_EXIT_STATUS]))
            return parent, ChildProcess(pid, start, code=code)
        return parent, ChildProcess(pid, start, tuple(_text(pid, "cmdline").split("\0")[:-1]))
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # ended, or another user's
        return 0, None


def _text(pid: int, name: str) -> str:
    return (_PROC / str(pid) / name).read_text(errors="replace")


class _Stub(NamedTuple):
    model: str
    name: str
    look: int
    """The first look that saw it."""

    def replaces(self, end: StubEnd, look: int) -> bool:
        """Return whether it was started in place of *end*, which *look* saw first."""
        same = end.name in (self.name, end.model)
        return self.model == end.model and same and self.look >= look


class StubHistory:
    """The stubs of one Triton over several looks. Pure."""

    def __init__(self) -> None:
        self._looks = 0
        self._alive: dict[Key, _Stub] = {}
        self._ends: dict[Key, tuple[StubEnd, int]] = {}

    def seen(self, children: Iterable[ChildProcess], at: float) -> tuple[StubEnd, ...]:
        """Return the stubs that died and were not replaced, from the second look at each on.

        Stubs that had ended before the first look are not known.
        """
        self._looks += 1
        alive: dict[Key, _Stub] = {}
        ends: dict[Key, tuple[StubEnd, int]] = {}
        for child in children:
            key = child.pid, child.start
            before = self._alive.get(key)
            if child.code is None:
                stub = before or _stub(child.argv, self._looks)
                if stub is not None:
                    alive[key] = stub
            elif key in self._ends:
                ends[key] = self._ends[key]
            elif before is not None:
                end = StubEnd(before.model, before.name, child.pid, child.code, at)
                ends[key] = end, self._looks
        self._alive, self._ends = alive, ends
        return tuple(
            end
            for end, look in ends.values()
            if look < self._looks and not any(stub.replaces(end, look) for stub in alive.values())
        )


def _stub(argv: tuple[str, ...], look: int) -> _Stub | None:
    """Return the stub that *argv* runs; None for another program, such as the shell before it."""
    if len(argv) <= _MODEL_FILE or Path(argv[0]).name != _PROGRAM:
        return None
    model = Path(argv[_MODEL_FILE]).parent.parent.name  # <model>/<version>/model.py
    name = argv[_NAME] if len(argv) > _NAME else ""
    return _Stub(model, name, look)


def entry(end: StubEnd) -> str:
    """Return the name of *end* on a board, which `tarn.triton.control` reads."""
    return f"{PREFIX}{end.pid}:{end.code}:{int(end.at)}:{_clean(end.model)}:{_clean(end.name)}"


def _clean(name: str) -> str:
    kept = (sign if sign.isascii() and (sign.isalnum() or sign in "_.-") else "?" for sign in name)
    return "".join(kept)[:_LONGEST_NAME]


def main(arguments: list[str]) -> int:
    """Show dead stubs on the board until Triton ends."""
    board, triton = Path(arguments[0]), int(arguments[1])
    children, stubs, shown = ChildProcesses(), StubHistory(), set[str]()
    while os.getppid() == triton:
        with contextlib.suppress(OSError):  # for lack of descriptors or space: try again later
            ends = stubs.seen(children.look({triton})[triton], time.time())
            wanted = {entry(end) for end in ends[:MOST_SHOWN]}
            for name in sorted(shown - wanted):
                (board / name).rmdir()
                shown.remove(name)
            for name in sorted(wanted - shown):
                (board / name).mkdir(0o700)
                shown.add(name)
        select.select([], [], [], LOOK_EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
