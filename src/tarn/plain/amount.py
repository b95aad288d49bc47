"""Amounts whose unit the writer chooses: ``12``, ``20ms``, ``50%``.

For options that are held against a signal: which unit is right depends on the signal, which another
option names, so the field's name cannot carry it.
"""

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import attrs

from tarn.plain.units import LONGEST, UNITS

__all__ = ["Amount", "Within", "amount", "amount_text"]

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) *%")
_PER_CENT = 100.0


@attrs.frozen
class Amount:
    """A number, and what the writer said it counts."""

    value: float
    """In seconds where the unit is ``s``; 0.5 where 50% was written."""
    unit: str
    """``s``, ``fraction``, or empty for a bare number."""


def amount(given: float | str) -> Amount:
    """Return what *given* means.

    Raises:
        ValueError: It is neither a number, a duration nor a percentage.
    """
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"{given!r} is not a number, duration or percentage")  # noqa: TRY004
    if not isinstance(given, str):
        return Amount(float(given), "")
    if len(given) > LONGEST:
        raise ValueError(
            f"a text of {len(given)} characters is not a number, duration or percentage"
        )
    percent = _PERCENT.fullmatch(given.strip())
    if percent is not None:
        return Amount(float(percent[1]) / _PER_CENT, "fraction")
    try:
        return Amount(UNITS["_s"].parse(given), "s")
    except ValueError:
        raise ValueError(f"'{given}' is not a number, duration or percentage") from None


def amount_text(value: float, unit: str = "") -> str:
    """Return *value* for people: ``20 ms``, ``1.5 s``, ``50%``, ``12``.

    Args:
        value: In the unit.
        unit: As `tarn.domain.signals.SignalSpec` has it; what it does not know is shown bare.
    """
    if unit == "fraction":
        return f"{value * _PER_CENT:.3g}%"
    if unit != "s":
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004
    if value and abs(value) < 1:
        small = abs(value) < 0.001  # noqa: PLR2004
        return f"{value * 1e6:.3g} us" if small else f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s"


@attrs.frozen
class Within:
    """A validator: an amount, of *unit* where that is given, within bounds that are in words."""

    unit: str | None = None
    """None: any; else ``s`` or ``fraction``. A bare number is right for a fraction only."""
    more_than: float | None = None
    at_least: float | None = None
    less_than: float | None = None
    at_most: float | None = None

    def __call__(self, _instance: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        """Refuse *value* when it is not `right`."""
        if not self.holds(value):
            raise ValueError(f"{field.name} must be {self.right}, not {value!r}")

    def holds(self, value: Any) -> bool:
        """Say whether *value* is right."""
        try:
            given = amount(value)
        except ValueError:
            return False
        fits = {None: True, "fraction": given.unit in ("", "fraction")}
        if not math.isfinite(given.value) or not fits.get(self.unit, given.unit == self.unit):
            return False
        return all(
            bound is None or compare(given.value, bound) for _, compare, bound in self._bounds()
        )

    @property
    def right(self) -> str:
        """What is right, in words."""
        kinds = {None: "a number, a duration (20ms) or a percentage (50%)", "s": "a duration"}
        noun = kinds.get(self.unit, "a fraction (0.5 or 50%)")
        words = [
            f"{word} {amount_text(bound, self.unit or '')}"
            for word, _, bound in self._bounds()
            if bound is not None
        ]
        return f"{noun}, {' and '.join(words)}" if words else noun

    def _bounds(self) -> tuple[tuple[str, Callable[[float, float], bool], float | None], ...]:
        return (
            ("more than", operator.gt, self.more_than),
            ("at least", operator.ge, self.at_least),
            ("less than", operator.lt, self.less_than),
            ("at most", operator.le, self.at_most),
        )
