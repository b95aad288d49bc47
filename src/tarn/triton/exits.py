"""Describes how a Triton started and ended, from its log, exit code and memory. Pure.

A shell, Docker and YARN report a signal *n* as exit code 128 + *n*, and Python as minus *n*.
"""

import re
import signal
from collections.abc import Iterable, Sequence

import attrs

from tarn.triton.restricted import LAUNCH_OPTIONS, without_keys
from tarn.triton.stubs import StubEnd

__all__ = [
    "MemoryUse",
    "ended",
    "hopeless",
    "killed",
    "lacks_shared_memory",
    "last_error",
    "loading",
    "memory_use",
    "port_taken",
    "stubs_ended",
]

_OF_A_SHELL = 128
_SIGNALS = {int(one) for one in signal.Signals}
_AMOUNT = r"(-?[\d.]+ ?[KMGTPE]?B)"
_BEYOND = re.compile(
    r"is running (?:\d+ ?B )?beyond (?:the )?'?(?P<kind>physical|virtual)'? memory limits?\b",
    re.IGNORECASE,
)
_USAGE = re.compile(rf"{_AMOUNT} of {_AMOUNT} (physical|virtual) memory used")
_MOST_STUBS = 4
PHYSICAL, VIRTUAL = "physical", "virtual"


@attrs.frozen
class MemoryUse:
    """The memory of a container that YARN ended for using too much."""

    kind: str
    """``physical``, or ``virtual``, which is reserved by the kernel but not all used."""
    used: str
    limit: str

    def __str__(self) -> str:
        """Return it as ``4.1 GB of 4 GB physical memory``."""
        return f"{self.used} of {self.limit} {self.kind} memory"


def memory_use(diagnostics: str, kind: str | None = None) -> MemoryUse | None:
    """Return the memory in a NodeManager's diagnostics; None if that was not the reason.

    Args:
        diagnostics: Hadoop 2 says ``is running beyond physical memory limits``, Hadoop 3
            ``is running 180224B beyond the 'PHYSICAL' memory limit``; then both say
            ``Current usage: 4.1 GB of 4 GB physical memory used; …``.
        kind: The kind of memory if the exit code tells it, so that only the usage is needed.
    """
    beyond = _BEYOND.search(diagnostics)
    kind = beyond["kind"].lower() if beyond else kind
    after = diagnostics[beyond.end() if beyond else 0 :]
    return next(
        (MemoryUse(of, used, limit) for used, limit, of in _USAGE.findall(after) if of == kind),
        None,
    )


def ended(code: int) -> str:
    """Return how a process with this exit code ended, as text."""
    number = _signal(code)
    if number is None:
        return f"exited with code {code}"
    name = signal.Signals(number).name if number in _SIGNALS else "unknown"
    return f"killed by signal {number} ({name})"


def killed(code: int) -> bool:
    """Return whether it was killed by SIGKILL, as by the kernel when memory runs out."""
    return _signal(code) == signal.SIGKILL


def stubs_ended(ends: Sequence[StubEnd]) -> str:
    """Return which processes of Python models ended and how, as text; the first few by name."""
    said = [_stub_ended(end) for end in ends[:_MOST_STUBS]]
    if len(ends) > _MOST_STUBS:
        said.append(f"and {len(ends) - _MOST_STUBS} more")
    return "; ".join(said)


def newest(ends: Sequence[StubEnd]) -> StubEnd:
    """Return the newest of *ends*."""
    return max(ends, key=lambda end: end.at)


def _stub_ended(end: StubEnd) -> str:
    how = f"was {ended(end.code)}" if end.code < 0 else ended(end.code)
    memory = ": probably out of memory" if killed(end.code) else ""
    name = f"{end.name} " if end.name else ""
    return f"process {name}(pid {end.pid}) of the Python model '{end.model}' {how}{memory}"


def _signal(code: int) -> int | None:
    if code < 0:
        return -code
    number = code - _OF_A_SHELL
    return number if number in _SIGNALS else None


_LOGGED = re.compile(r'^E\d{4} [\d:.]+ \d+ [\w./-]+:\d+\] "?(?P<text>.*?)"?$')
"""A line of Triton's log: ``E1127 23:52:36.259414 2510 server.cc:241] "…"``."""
_PLAIN = re.compile(
    r"^(?:error|fatal error|terminate called|.*: error)\b.*|^\S*tritonserver: .+", re.IGNORECASE
)
# With these errors the same command fails every time.
_LOADER = re.compile(r"error while loading shared libraries|unrecognized option|option '--")
# Logged as an error on every machine without a GPU.
_HARMLESS = ("CudaDriverHelper has not been initialized",)
_LONGEST = 500
_TOO_OLD = (
    " (this Triton is older than restricted APIs, of the end of 2023: set triton.restricted: [] "
    "and keep its ports from others, or take a newer one)"
)


def last_error(lines: Iterable[str]) -> str:
    """Return the text of the last error in Triton's log; '' if there is none."""
    found = ""
    for line in lines:
        logged = _LOGGED.match(line.rstrip())
        if logged and not any(harmless in line for harmless in _HARMLESS):
            found = logged["text"].replace('\\"', '"')
        elif not logged and _PLAIN.match(line):
            found = line.strip().rpartition("/")[2] if "tritonserver: " in line else line.strip()
    if "unrecognized option" in found and any(f"--{name}" in found for name in LAUNCH_OPTIONS):
        found = without_keys(found) + _TOO_OLD
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]} …"


def hopeless(error: str) -> bool:
    """Return whether the same command fails with *error* every time."""
    return _LOADER.search(error) is not None


def port_taken(error: str) -> bool:
    """Return whether *error* means that one of the ports is in use."""
    return "already in use" in error


def lacks_shared_memory(error: str) -> bool:
    """Return whether *error* means that /dev/shm is full, which is not the model's fault."""
    return "shared memory" in error and "No space left on device" in error


_BEGUN = re.compile(r"\] \"?loading: (?P<model>.+):\d+\"?$")
_SETTLED = re.compile(
    r"\] \"?(?:successfully loaded '(?P<good>[^']+)'|failed to load '(?P<bad>[^']+)')"
)


def loading(lines: Iterable[str]) -> tuple[int, int]:
    """Return (models settled, models begun) from the lines of a starting Triton's log.

    Source: ``model_lifecycle.cc`` of Triton 2.51 writes ``loading: MODEL:VERSION``, then
    ``successfully loaded 'MODEL'`` or ``failed to load 'MODEL'``.
    """
    begun: set[str] = set()
    settled: set[str] = set()
    for line in lines:
        if match := _BEGUN.search(line.rstrip()):
            begun.add(match["model"])
        elif match := _SETTLED.search(line):
            settled.add(match["good"] or match["bad"])
    return len(settled & begun), len(begun)
