"""How a process ended, in words: its exit code, its signal, and the memory it lacked. Pure.

A shell, Docker and YARN tell of a signal *n* as exit code 128 + *n*; Python as minus *n*.
"""

import re
import signal
from collections.abc import Sequence

import attrs

from tarn.triton.stubs import StubEnd

__all__ = ["MemoryUse", "ended", "killed", "memory_use", "stubs_ended"]

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
    """What YARN said of the memory of a container that it ended for it."""

    kind: str
    """``physical``, or ``virtual``: the latter is what the kernel promised, not what is used."""
    used: str
    limit: str

    def __str__(self) -> str:
        """Return it as ``4.1 GB of 4 GB physical memory``."""
        return f"{self.used} of {self.limit} {self.kind} memory"


def memory_use(diagnostics: str, kind: str | None = None) -> MemoryUse | None:
    """Return what a NodeManager says of memory; None: it did not end the container for it.

    Args:
        diagnostics: Of a container: Hadoop 2 says ``is running beyond physical memory limits``,
            Hadoop 3 ``is running 180224B beyond the 'PHYSICAL' memory limit``, and then
            ``Current usage: 4.1 GB of 4 GB physical memory used; …``.
        kind: Where an exit code told which memory it was: then the usage alone is looked for.
    """
    beyond = _BEYOND.search(diagnostics)
    kind = beyond["kind"].lower() if beyond else kind
    after = diagnostics[beyond.end() if beyond else 0 :]
    return next(
        (MemoryUse(of, used, limit) for used, limit, of in _USAGE.findall(after) if of == kind),
        None,
    )


def ended(code: int) -> str:
    """Return how a process with this exit code ended."""
    number = _signal(code)
    if number is None:
        return f"exited with code {code}"
    name = signal.Signals(number).name if number in _SIGNALS else "unknown"
    return f"killed by signal {number} ({name})"


def killed(code: int) -> bool:
    """Say whether it was killed outright (SIGKILL), as the kernel does where memory is lacking."""
    return _signal(code) == signal.SIGKILL


def stubs_ended(ends: Sequence[StubEnd]) -> str:
    """Return which processes of Python models ended, and how: a few by name; '' for none."""
    said = [_stub_ended(end) for end in ends[:_MOST_STUBS]]
    if len(ends) > _MOST_STUBS:
        said.append(f"and {len(ends) - _MOST_STUBS} more")
    return "; ".join(said)


def newest(ends: Sequence[StubEnd]) -> StubEnd:
    """Return the one of *ends* that was seen last."""
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
