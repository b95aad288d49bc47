"""Durations and amounts of memory, as people write them.

A field's name carries its unit (``_s``, ``_us``, ``_mib``); the text a person writes carries it
too (``10m``, ``250ms``, ``4GiB``). A bare number is refused: nobody can tell what was meant.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

import attrs

__all__ = ["DURATION_PATTERN", "LONGEST", "MEMORY_PATTERN", "UNITS", "Unit", "key_of", "unit_of"]

LONGEST = 64
"""Characters of a quantity. What is longer came from nobody who means one, and costs time: each of
its parts is a fraction of its own."""
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?"
DURATION_PATTERN = rf"^(?:{_NUMBER} *(?:us|ms|s|m|h|d))+$"
"""What a duration looks like; also the pattern in the JSON Schema."""
MEMORY_PATTERN = rf"^{_NUMBER} *(?:KiB|MiB|GiB|TiB)$"
"""What an amount of memory looks like."""

# (multiply, divide): in fractions, so that 300ms is exactly 0.3 s
_SECONDS = {"us": (1, 1_000_000), "ms": (1, 1000), "s": (1, 1), "m": (60, 1), "h": (3600, 1)}
_SECONDS["d"] = (86_400, 1)
_MIB = {"KiB": (1, 1024), "MiB": (1, 1), "GiB": (1024, 1), "TiB": (1024**2, 1)}
_DURATION_PART = re.compile(rf"({_NUMBER}) *(us|ms|s|m|h|d)")
_MEMORY = re.compile(rf"({_NUMBER}) *(KiB|MiB|GiB|TiB)")


@attrs.frozen
class Unit:
    """How the text of one kind of quantity becomes the number in the field, and back."""

    suffix: str
    """End of the field's name."""
    noun: str
    pattern: str
    example: str
    scale: Mapping[str, tuple[int, int]] = attrs.field(hash=False)
    """Unit of the text to (multiply, divide) towards the field's unit."""
    write: tuple[str, ...]
    """Units to write in; the largest that gives a whole number is chosen."""

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
"""Suffix of a field's name to its unit."""


def unit_of(field_name: str) -> Unit | None:
    """Return the unit that the name carries, or None."""
    for suffix, unit in UNITS.items():
        if field_name.endswith(suffix) and field_name != suffix:
            return unit
    return None


def key_of(field_name: str) -> str:
    """Return the key a person writes for a field: its name without the unit."""
    unit = unit_of(field_name)
    return field_name.removesuffix(unit.suffix) if unit else field_name
