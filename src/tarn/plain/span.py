"""How long: a duration as a person gives it, in a notebook, on a command line or over HTTP."""

import re

from tarn.errors import ConfigError
from tarn.plain.problem import shown
from tarn.plain.units import UNITS

__all__ = ["seconds"]

_BARE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)
LONGEST_S = 366 * 86400.0
"""A year: whoever means longer means for ever."""


def seconds(given: object, where: str = "timeout") -> float:
    """Return *given* in seconds: text with a unit (``5m``), or a number of seconds.

    Text carries its unit wherever it is written, in a file, on a command line or in Python: whoever
    writes ``30`` may mean minutes. Only a number of a program counts seconds.

    Raises:
        ConfigError: It is neither, or below 0 or beyond a year; the message names *where*.
    """
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
