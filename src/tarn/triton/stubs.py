"""Processes of Python models that ended by themselves, as ``/proc`` shows them.

Triton's Python back end starts one process, a *stub*, for each instance of a model. One that Triton
ends itself (the model is unloaded or loaded again, or Triton leaves) is waited for at once: it is a
zombie for less than 10 ms. One that dies otherwise is waited for by nobody and stays a zombie,
Triton starts none in its place, and the model stays READY, while each request that Triton gives to
it fails after a second (all seen on Triton 2.51).

Run as a program, ``python stubs.py BOARD PID``, as a child of the Triton with that pid, this file
shows each such end as an empty folder in the folder BOARD. That is one of Triton's repositories, so
Triton lists what is in it, and whoever reads its index learns of the end: nothing more has to
listen, and no credential lies on the node. It ends with Triton. It imports the standard library
only.
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

LOOK_EVERY_S = 0.5
"""An end is told when two looks saw it: within a second, and never while Triton waits for it."""
PREFIX = "tarn.stub-ended:"
"""How the names on a board begin."""
MOST_SHOWN = 16
_PROC = Path("/proc")
_LONGEST_NAME = 100
_PROGRAM = "triton_python_backend_stub"
_MODEL_FILE, _NAME = 1, 8
"""Places in a stub's command line: its ``model.py``, and the name of the model's instance."""
_STATE, _PARENT, _STARTED, _EXIT_STATUS = 3, 4, 22, 52
"""Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5)."""

Key = tuple[int, int]
"""Pid and start: they name one process for good."""


class ChildProcess(NamedTuple):
    """One process that Triton started, at one look."""

    pid: int
    start: int
    """Clock ticks since boot."""
    argv: tuple[str, ...] = ()
    """Its command line; empty once it has ended."""
    code: int | None = None
    """Its exit code, or minus the signal, once it has ended and nobody waited for it."""


class StubEnd(NamedTuple):
    """How one stub ended."""

    model: str
    name: str
    """Of the model's instance; equal to the model's where Triton only asked for its settings, and
    empty where an older Triton does not tell it."""
    pid: int
    code: int
    """Exit code, or minus the signal."""
    at: float
    """Wall time of the look that saw it first, Unix seconds."""


class ChildProcesses:
    """Finds the children of processes; each process of the machine is read once, not once a look.

    The kernel's own lists of children (``task/*/children``) take a file for each thread, and a
    Triton has hundreds.
    """

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._parents: frozenset[int] = frozenset()
        self._found: set[int] = set()

    def look(self, parents: AbstractSet[int]) -> Mapping[int, list[ChildProcess]]:
        """Return the children of each of *parents*, by its pid.

        Raises:
            OSError: This process lacks what looking takes, mostly a file descriptor.
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
        fields = ["", "", "", *text.rpartition(")")[2].split()]  # counted from 1; no name
        parent, start = int(fields[_PARENT]), int(fields[_STARTED])
        if parent not in parents:
            return parent, None
        if fields[_STATE] in "ZX":
            code = os.waitstatus_to_exitcode(int(fields[_EXIT_STATUS]))
            return parent, ChildProcess(pid, start, code=code)
        return parent, ChildProcess(pid, start, tuple(_text(pid, "cmdline").split("\0")[:-1]))
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or is another's
        return 0, None


def _text(pid: int, name: str) -> str:
    return (_PROC / str(pid) / name).read_text(errors="replace")


class _Stub(NamedTuple):
    model: str
    name: str
    look: int
    """The first one that saw it."""

    def replaces(self, end: StubEnd, look: int) -> bool:
        """Say whether it was started after *end*, first seen by *look*, to do the same work."""
        same = end.name in (self.name, end.model)
        return self.model == end.model and same and self.look >= look


class StubHistory:
    """The stubs of one Triton, from look to look; it sees only what it is given."""

    def __init__(self) -> None:
        self._looks = 0
        self._alive: dict[Key, _Stub] = {}
        self._ends: dict[Key, tuple[StubEnd, int]] = {}

    def seen(self, children: Iterable[ChildProcess], at: float) -> tuple[StubEnd, ...]:
        """Return what ended by itself and was not started again, from the second look at it on.

        What had ended before the first look is not known.
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
    """Return the stub that *argv* runs; None for another program, as the shell that becomes one."""
    if len(argv) <= _MODEL_FILE or Path(argv[0]).name != _PROGRAM:
        return None
    model = Path(argv[_MODEL_FILE]).parent.parent.name  # <model>/<version>/model.py
    name = argv[_NAME] if len(argv) > _NAME else ""
    return _Stub(model, name, look)


def entry(end: StubEnd) -> str:
    """Return the name under which *end* is shown on a board; `tarn.triton.index` reads it."""
    return f"{PREFIX}{end.pid}:{end.code}:{int(end.at)}:{_clean(end.model)}:{_clean(end.name)}"


def _clean(name: str) -> str:
    kept = (sign if sign.isascii() and (sign.isalnum() or sign in "_.-") else "?" for sign in name)
    return "".join(kept)[:_LONGEST_NAME]


def main(arguments: list[str]) -> int:
    """Show on the board what ended, until Triton has."""
    board, triton = Path(arguments[0]), int(arguments[1])
    children, stubs, shown = ChildProcesses(), StubHistory(), set[str]()
    while os.getppid() == triton:
        with contextlib.suppress(OSError):  # no descriptor, no room: the next look tries again
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
