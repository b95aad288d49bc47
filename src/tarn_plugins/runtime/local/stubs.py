"""Processes of Python models that ended by themselves, as ``/proc`` shows them.

Triton's Python back end starts one process, a *stub*, for each instance of a model. One that Triton
ends itself (the model is unloaded or loaded again, or Triton leaves) is waited for at once: it is a
zombie for less than 10 ms. One that dies otherwise is waited for by nobody and stays a zombie,
Triton starts none in its place, and the model stays READY, while each request that Triton gives to
it fails after a second (all seen on Triton 2.51).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.triton import exits

__all__ = ["LOOK_EVERY_S", "Child", "Children", "Stubs"]

LOOK_EVERY_S = 0.5
"""An end is told when two looks saw it: within a second, and never while Triton waits for it."""
MOST_TOLD = 4
_PROGRAM = "triton_python_backend_stub"
_MODEL_FILE, _NAME = 1, 8
"""Places in a stub's command line: its ``model.py``, and the name of the model's instance."""
_STATE, _PARENT, _STARTED, _EXIT_STATUS = 3, 4, 22, 52
"""Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5)."""

Key = tuple[int, int]
"""Pid and start: they name one process for good."""


@attrs.frozen
class Child:
    """One process that Triton started, at one look."""

    pid: int
    start: int
    """Clock ticks since boot."""
    argv: tuple[str, ...] = ()
    """Its command line; empty once it has ended."""
    code: int | None = None
    """Its exit code, or minus the signal, once it has ended and nobody waited for it."""


class Children:
    """Finds the children of processes; each process of the machine is read once, not once a look.

    The kernel's own lists of children (``task/*/children``) take a file for each thread, and a
    Triton has hundreds.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._pids: set[int] = set()
        self._parents: AbstractSet[int] = frozenset()
        self._found: set[int] = set()

    def look(self, parents: AbstractSet[int]) -> Mapping[int, list[Child]]:
        """Return the children of each of *parents*, by its pid.

        Raises:
            OSError: This process lacks what looking takes, mostly a file descriptor.
        """
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 (a third of the time)
        old = self._pids if parents == self._parents else set()
        children: dict[int, list[Child]] = {pid: [] for pid in parents}
        found: set[int] = set()
        for pid in sorted((pids - old) | (pids & self._found)):
            parent, child = self._read(pid, parents)
            if child is not None:
                found.add(pid)
                children[parent].append(child)
        self._pids, self._parents, self._found = pids, frozenset(parents), found
        return children

    def _read(self, pid: int, parents: AbstractSet[int]) -> tuple[int, Child | None]:
        folder = self._proc / str(pid)
        try:
            text = (folder / "stat").read_text(errors="replace")
            fields = ["", "", "", *text.rpartition(")")[2].split()]  # counted from 1; no name
            parent, start = int(fields[_PARENT]), int(fields[_STARTED])
            if parent not in parents:
                return parent, None
            if fields[_STATE] in "ZX":
                code = os.waitstatus_to_exitcode(int(fields[_EXIT_STATUS]))
                return parent, Child(pid, start, code=code)
            argv = (folder / "cmdline").read_text(errors="replace").split("\0")
            return parent, Child(pid, start, tuple(argv[:-1]))
        except OSError as error:  # it ended while we looked
            if shortage(error):
                raise
            return 0, None


@attrs.frozen
class _Stub:
    pid: int
    model: str
    name: str
    """Of the model's instance; equal to the model's where Triton only asks for its settings."""
    look: int
    """The first one that saw it."""

    def replaces(self, end: "_End") -> bool:
        """Say whether it was started after *end* to do the same work."""
        same = end.stub.name in (self.name, end.stub.model)
        return self.model == end.stub.model and same and self.look >= end.look


@attrs.frozen
class _End:
    stub: _Stub
    code: int
    look: int
    """The first one that saw its end."""
    at: float

    def __str__(self) -> str:
        name = f"{self.stub.name} " if self.stub.name else ""
        return (
            f"process {name}(pid {self.stub.pid}) of the Python model '{self.stub.model}' "
            f"{_how(self.code)}"
        )


class Stubs:
    """The stubs of one Triton, from look to look; it sees only what it is given."""

    def __init__(self) -> None:
        self._looks = 0
        self._alive: dict[Key, _Stub] = {}
        self._ends: dict[Key, _End] = {}

    def seen(self, children: Iterable[Child], at: float) -> tuple[str, float] | None:
        """Return what ended by itself and was not started again, in words, and since when.

        None when there is nothing to tell. What had ended before the first look is not known.
        """
        self._looks += 1
        alive: dict[Key, _Stub] = {}
        ends: dict[Key, _End] = {}
        for child in children:
            key = child.pid, child.start
            before = self._alive.get(key)
            if child.code is None:
                stub = before or _stub(child, self._looks)
                if stub is not None:
                    alive[key] = stub
            elif key in self._ends:
                ends[key] = self._ends[key]
            elif before is not None:
                ends[key] = _End(before, child.code, self._looks, at)
        self._alive, self._ends = alive, ends
        told = list(self._told())
        if not told:
            return None
        more = len(told) - MOST_TOLD
        words = [*map(str, told[:MOST_TOLD]), *([f"and {more} more"] if more > 0 else [])]
        return "; ".join(words), max(end.at for end in told)

    def _told(self) -> Iterator[_End]:
        for end in self._ends.values():
            if end.look < self._looks and not any(s.replaces(end) for s in self._alive.values()):
                yield end


def _stub(child: Child, look: int) -> _Stub | None:
    """Return the stub that *child* is; None for another one, as the shell that becomes a stub."""
    if len(child.argv) <= _MODEL_FILE or Path(child.argv[0]).name != _PROGRAM:
        return None
    model = Path(child.argv[_MODEL_FILE]).parent.parent.name  # <model>/<version>/model.py
    name = child.argv[_NAME] if len(child.argv) > _NAME else ""
    return _Stub(child.pid, model, name, look)


def _how(code: int) -> str:
    if exits.killed(code):
        return f"was {exits.ended(code)}: probably out of memory"
    return f"was {exits.ended(code)}" if code < 0 else exits.ended(code)
