"""How long: a duration as a person gives it."""

from tarn.errors import ConfigError
from tarn.plain import UNITS

__all__ = ["seconds"]


def seconds(given: str | float, where: str = "timeout") -> float:
    """Return *given* in seconds: text with a unit (``5m``), or a number of seconds.

    Raises:
        ConfigError: It is neither; the message names *where*.
    """
    if isinstance(given, str):
        unit = UNITS["_s"]
        try:
            return unit.parse(given)
        except ValueError as error:
            raise ConfigError(
                str(error), code="TARN-2002", where=where, right=f"Right would be {unit.example}."
            ) from error
    if not given >= 0:
        raise ConfigError(f"{given} is not a number of seconds", code="TARN-2002", where=where)
    return float(given)
