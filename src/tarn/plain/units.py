"""Parse and format durations, amounts and moments.

A field's name ends in its unit (``_s``, ``_us``, ``_mib``), and so does the text of a user
(``10m``, ``250ms``, ``4GiB``). A number without a unit is refused as ambiguous.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import attrs

from tarn.errors import ConfigError
from tarn.plain.problem import shown

__all__ = [
    "DURATION_PATTERN",
    "LONGEST",
    "MEMORY_PATTERN",
    "UNITS",
    "Amount",
    "Unit",
    "Within",
    "amount",
    "amount_text",
    "key_of",
    "seconds",
    "since",
    "unit_of",
]

LONGEST = 64
"""Characters of a quantity: each part is parsed as a fraction, so a long text would take long."""
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?"
DURATION_PATTERN = rf"^(?:{_NUMBER} *(?:us|ms|s|m|h|d))+$"
"""The pattern of a duration, also for the JSON Schema."""
MEMORY_PATTERN = rf"^{_NUMBER} *(?:KiB|MiB|GiB|TiB)$"
"""The pattern of an amount of memory, also for the JSON Schema."""

# (multiply, divide): in fractions, so that 300ms is exactly 0.3 s
_SECONDS = {"us": (1, 1_000_000), "ms": (1, 1000), "s": (1, 1), "m": (60, 1), "h": (3600, 1)}
_SECONDS["d"] = (86_400, 1)
_MIB = {"KiB": (1, 1024), "MiB": (1, 1), "GiB": (1024, 1), "TiB": (1024**2, 1)}
_DURATION_PART = re.compile(rf"({_NUMBER}) *(us|ms|s|m|h|d)")
_MEMORY = re.compile(rf"({_NUMBER}) *(KiB|MiB|GiB|TiB)")


@attrs.frozen
class Unit:
    """Converts the text of one kind of quantity to a field's number, and back."""

    suffix: str
    """End of the field's name."""
    noun: str
    pattern: str
    example: str
    scale: Mapping[str, tuple[int, int]] = attrs.field(hash=False)
    """Factor (multiply, divide) from each unit of the text to the field's unit."""
    write: tuple[str, ...]
    """Units for writing; the first that gives a whole number is used."""

    def parse(self, text: str) -> float:
        """Return the number in the field's unit.

        Raises:
            ValueError: *text* is not a number with one of the units.
        """
        if len(text) > LONGEST:
            raise ValueError(f"a text of {len(text)} characters is not {self.noun}")
        compact = text.strip()
        if not re.fullmatch(self.pattern, compact):
            raise ValueError(f"'{text}' is not {self.noun}")
        part = _MEMORY if "MiB" in self.scale else _DURATION_PART
        total = sum(
            Fraction(number) * Fraction(*self.scale[unit]) for number, unit in part.findall(compact)
        )
        try:
            return float(total)
        except OverflowError as error:
            raise ValueError(f"'{text}' is too large") from error

    def format(self, value: float) -> str:
        """Return text that `parse` reads back as exactly *value*."""
        if value == 0:
            return f"0{self.write[-1]}"
        for unit in self.write:
            count = Fraction(value) / Fraction(*self.scale[unit])
            if count.denominator == 1 or float(count) == int(count):
                text = f"{int(count)}{unit}"
                if self.parse(text) == value:
                    return text
        return f"{value!r}{self.write[-1]}"

    def bare(self, value: float) -> str:
        """Return how to write the bare number *value*, in the most likely unit."""
        likely = {"_mib": "MiB", "_us": "us"}.get(self.suffix, "s")
        return f"{value:g}{likely}"


_IN_MICROSECONDS = {unit: (many * 1_000_000, one) for unit, (many, one) in _SECONDS.items()}

UNITS = {
    "_s": Unit(
        "_s", "a duration", DURATION_PATTERN, "10m, 1.5s or 250ms", _SECONDS,
        ("d", "h", "m", "s", "ms", "us", "s"),
    ),
    "_us": Unit(
        "_us", "a duration", DURATION_PATTERN, "20ms or 500us", _IN_MICROSECONDS,
        ("s", "ms", "us"),
    ),
    "_mib": Unit(
        "_mib", "an amount of memory", MEMORY_PATTERN, "512MiB, 4GiB or 1TiB", _MIB,
        ("TiB", "GiB", "MiB"),
    ),
}  # fmt: skip
"""The unit by the suffix of a field's name."""


def unit_of(field_name: str) -> Unit | None:
    """Return the unit at the end of the name, or None."""
    for suffix, unit in UNITS.items():
        if field_name.endswith(suffix) and field_name != suffix:
            return unit
    return None


def key_of(field_name: str) -> str:
    """Return the key of a field in a configuration: its name without the unit."""
    unit = unit_of(field_name)
    return field_name.removesuffix(unit.suffix) if unit else field_name


_BARE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)
# A year: a longer time is a mistake, or means no limit.
LONGEST_S = 366 * 86400.0


def seconds(given: object, where: str = "timeout") -> float:
    """Return *given* in seconds: text with a unit (``5m``), or a number of seconds.

    Raises:
        ConfigError: *given* is neither, or is below 0 or over a year; the message names *where*.
    """
    # Text needs a unit everywhere, since ``30`` may mean minutes; only numbers are seconds.
    unit = UNITS["_s"]
    right = f"Expected {unit.example}."
    if isinstance(given, str):
        try:
            value = unit.parse(given)
        except ValueError as error:
            bare = given.strip()
            found = str(error)
            if _BARE.fullmatch(bare):
                found = f"'{bare}' has no unit"
                right = f"Write {bare}s for seconds, {bare}m for minutes or {bare}h for hours."
            raise ConfigError(found, code="TARN-2002", where=where, right=right) from error
    elif isinstance(given, int | float) and not isinstance(given, bool):
        value = float(min(max(given, -1), LONGEST_S + 1))
    else:
        found = "is missing" if given is None else f"{shown(given, where)} is not a duration"
        right = f"Expected {unit.example}, or a number of seconds."
        raise ConfigError(found, code="TARN-2002", where=where, right=right)
    if not 0 <= value <= LONGEST_S:
        said = given if isinstance(given, str) else f"{value:g}"
        found = f"{said} is not between 0 and 366 days"
        raise ConfigError(found, code="TARN-2002", where=where, right=right)
    return value


_RIGHT = "Expected a duration (10m means ten minutes ago) or a time (2026-01-31T12:00:00Z)."


def since(given: str, now: float, where: str = "since") -> float:
    """Return *given* in Unix seconds: a duration before *now*, or a time in ISO 8601.

    A time without a zone is in UTC, like every time that TARN writes.

    Raises:
        ConfigError: *given* is neither; the message names *where*.
    """
    text = given.strip()
    try:
        moment = datetime.fromisoformat(text) if "-" in text else None
    except ValueError:
        moment = None
    if moment is not None:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    try:
        return now - seconds(text, where)
    except ConfigError as error:
        found = f"'{given}' is not a moment"
        raise ConfigError(found, code="TARN-2002", where=where, right=_RIGHT) from error


_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) *%")
_PER_CENT = 100.0


@attrs.frozen
class Amount:
    """A number with its written unit: ``12``, ``20ms``, ``50%``.

    For options that are compared with a signal: the unit depends on the signal, which another
    option names, so it cannot be in the field's name.
    """

    value: float
    """In seconds if the unit is ``s``; 0.5 for 50%."""
    unit: str
    """``s``, ``fraction``, or empty for a bare number."""


def amount(given: float | str) -> Amount:
    """Return *given* as an amount.

    Raises:
        ValueError: *given* is not a number, a duration or a percentage.
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
    """Return *value* as text: ``20 ms``, ``1.5 s``, ``50%``, ``12``.

    Args:
        value: The number, in the unit.
        unit: As in `tarn.domain.signals.SignalSpec`; any other unit is not shown.
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
    """A validator of an amount with a certain unit, between bounds."""

    unit: str | None = None
    """``s`` or ``fraction``; None: any. A number without a unit is valid for a fraction only."""
    more_than: float | None = None
    at_least: float | None = None
    less_than: float | None = None
    at_most: float | None = None

    def __call__(self, _instance: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        """Raise ``ValueError`` unless *value* is `right`."""
        if not self.holds(value):
            raise ValueError(f"{field.name} must be {self.right}, not {value!r}")

    def holds(self, value: Any) -> bool:
        """Tell whether *value* is valid."""
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
        """The valid values, as a phrase."""
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
