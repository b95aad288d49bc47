"""A value that a file may mean in two ways. Pure."""

from typing import Any

import attrs

from tarn.plain.mask import MASK, secret_path
from tarn.plain.problem import BAD_VALUE, Problem, in_quotes
from tarn.plain.units import Unit

__all__ = ["Doubtful", "doubt"]


@attrs.frozen
class Doubtful:
    """What YAML 1.1 and YAML 1.2 read differently: no value, wherever it stands."""

    text: str
    older: str
    """What YAML 1.1 reads, in words."""
    newer: str
    """What YAML 1.2 reads, in words."""
    right: tuple[str, ...] = ()
    """How to write what either of them reads, unless that is text."""

    @property
    def found(self) -> str:
        """Return both readings."""
        return f"YAML 1.1 reads it as {self.older}, YAML 1.2 as {self.newer}"


def doubt(kind: Any, value: Doubtful, path: str, unit: Unit | None) -> Problem:
    """Return the problem that *value* stands where a *kind* is wanted."""
    if secret_path(path):
        found, step = "YAML 1.1 and YAML 1.2 read it differently", "Write it in quotes"
        return Problem(path, BAD_VALUE, f": {found}", "", step, MASK)
    return Problem(path, BAD_VALUE, f": {value.found}", "", _step(kind, value, unit), value.text)


def _step(kind: Any, value: Doubtful, unit: Unit | None) -> str:
    if unit is not None:
        return f"Write {unit.noun}, for example {unit.example}"
    values = " or ".join(value.right)
    if kind is str or not values:
        return in_quotes(value.text)
    if kind in (int, float, bool):
        return f"Write {values}"
    return f'Write {values}, or "{value.text}" for text'
