"""Read single values: strings, numbers, quantities with a unit, members of an enumeration."""

import contextlib
import enum
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from tarn.plain.mask import secret_path
from tarn.plain.problem import BAD_VALUE, Problem, did_you_mean, in_quotes, shown
from tarn.plain.units import Unit

__all__ = ["is_scalar", "needs", "one_of", "scalar"]

# Common spellings of units, and the correct ones.
_GUESSES = {
    "_mib": {
        **dict.fromkeys(("k", "kb", "kib"), "KiB"), **dict.fromkeys(("m", "mb", "mib"), "MiB"),
        **dict.fromkeys(("g", "gb", "gib"), "GiB"), **dict.fromkeys(("t", "tb", "tib"), "TiB"),
    },
    "_s": {
        **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
        **dict.fromkeys(("h", "hr", "hour", "hours"), "h"),
        **dict.fromkeys(("d", "day", "days"), "d"),
        **dict.fromkeys(("ms", "msec", "millis"), "ms"), "µs": "us", "us": "us",
    },
}  # fmt: skip


def is_scalar(kind: Any) -> bool:
    """Tell whether `scalar` reads *kind*."""
    return kind in _READERS or (isinstance(kind, type) and issubclass(kind, enum.Enum))


def scalar(kind: Any, value: object, path: str, unit: Unit | None) -> Any:
    """Return *value* as *kind*, or a `Problem`."""
    if unit is not None and kind in (int, float):
        return _quantity(kind, value, path, unit)
    if kind in _READERS:
        return _READERS[kind](value, path)
    known = {str(member.value): member for member in kind}
    if isinstance(value, str) and value in known:
        return known[value]
    return one_of(path, value, known)


def needs(path: str, value: object, needed: str, next_step: str = "") -> Problem:
    """Return the problem that *value* is not what is *needed*."""
    return Problem(path, BAD_VALUE, f": {needed} is needed", "", next_step, shown(value, path))


def one_of(path: str, value: object, known: Iterable[object]) -> Problem:
    """Return the problem that *value* is not one of the *known* words."""
    words = [str(word) for word in known]
    right = " or ".join(f"'{word}'" for word in words)
    return needs(path, value, right, did_you_mean(value, words))


def _boolean(value: object, path: str) -> Any:
    return value if isinstance(value, bool) else needs(path, value, "true or false")


def _path(value: object, path: str) -> Any:
    return Path(value) if isinstance(value, str) else needs(path, value, "a path")


def _nothing(value: object, path: str) -> Any:
    return None if value is None else needs(path, value, "null")


def _text(value: object, path: str) -> Any:
    if isinstance(value, str):
        return value
    problem = needs(path, value, "text")
    if not isinstance(value, bool | int | float) or secret_path(path):
        return problem
    step = in_quotes(str(value).lower() if isinstance(value, bool) else str(value))
    return attrs.evolve(problem, next_step=step, wants_text=True)


def _whole(value: object, path: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return needs(path, value, "a whole number", _unquote(value))


def _real(value: object, path: str) -> Any:
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # a whole number may be too large for a float
            number = float(value)
    return number if math.isfinite(number) else needs(path, value, "a number", _unquote(value))


def _quantity(kind: Any, value: object, path: str, unit: Unit) -> Any:
    example = f"for example {unit.example}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f": {unit.noun} needs its unit"
        step = f"Write {example}"
        if 0 <= value < 1e9:  # noqa: PLR2004 (a larger number is a mistake in any unit)
            step = f"Write {unit.bare(value)}, or {example}"
        return Problem(path, BAD_VALUE, text, next_step=step, value=shown(value, path))
    if not isinstance(value, str):
        return needs(path, value, unit.noun, f"Write {example}")
    try:
        number = unit.parse(value)
    except ValueError:
        step = _repair(value, unit) or f"Write {example}"
        text = f" is not {unit.noun}"
        return Problem(path, BAD_VALUE, text, next_step=step, value=shown(value, path))
    if kind is int and number != int(number):
        return needs(path, value, "a whole number of MiB")
    return kind(number)


def _unquote(value: object) -> str:
    """Return a hint if *value* is a number in quotes, else ''."""
    if isinstance(value, str) and value.strip().lstrip("-").replace(".", "", 1).isdigit():
        return "Write it without quotes"
    return ""


def _repair(value: str, unit: Unit) -> str:
    """Return a hint with the likely quantity, or ''."""
    compact = value.strip()
    number = compact.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ ")
    letters = compact[len(number) :].strip().lower()
    bare = "MiB" if unit.suffix == "_mib" else "s"
    guesses = _GUESSES["_mib" if unit.suffix == "_mib" else "_s"]
    guess = guesses.get(letters) if letters else bare
    try:
        unit.parse(f"{number}{guess}")
    except ValueError:
        return ""
    return f"Did you mean '{number}{guess}'?"


_READERS = {
    bool: _boolean,
    int: _whole,
    float: _real,
    str: _text,
    Path: _path,
    type(None): _nothing,
}
