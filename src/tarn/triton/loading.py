"""How far a starting Triton is, read from its log: its ports open only once all are loaded."""

import re
from collections.abc import Iterable

__all__ = ["loading"]

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
