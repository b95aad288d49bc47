"""How long: a duration as a person gives it, in a notebook, on a command line or over HTTP."""

from tarn.errors import ConfigError
from tarn.plain.problem import shown
from tarn.plain.units import UNITS

__all__ = ["seconds"]

LONGEST_S = 366 * 86400.0
"""A year: whoever means longer means for ever."""


def seconds(given: object, where: str = "timeout") -> float:
    """Return *given* in seconds: text with a unit (``5m``), or a number of seconds.

    Raises:
        ConfigError: It is neither, or below 0 or beyond a year; the message names *where*.
    """
    unit = UNITS["_s"]
    right = f"Right would be {unit.example}, or a number of seconds."
    if isinstance(given, str):
        try:
            value = unit.parse(given)
        except ValueError as error:
            raise ConfigError(str(error), code="TARN-2002", where=where, right=right) from error
    elif isinstance(given, int | float) and not isinstance(given, bool):
        value = float(min(max(given, -1), LONGEST_S + 1))
    else:
        found = "is missing" if given is None else f"{shown(given, where)} is no duration"
        raise ConfigError(found, code="TARN-2002", where=where, right=right)
    if not 0 <= value <= LONGEST_S:
        said = given if isinstance(given, str) else f"{value:g}"
        found = f"{said} is not between 0 and 366 days"
        raise ConfigError(found, code="TARN-2002", where=where, right=right)
    return value
