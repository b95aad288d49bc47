"""Since when: a moment as a person gives it. Pure."""

from datetime import UTC, datetime

from tarn.errors import ConfigError
from tarn.plain.span import seconds

__all__ = ["since"]

_RIGHT = "Expected a duration (10m means ten minutes ago) or a time (2026-01-31T12:00:00Z)."


def since(given: str, now: float, where: str = "since") -> float:
    """Return *given* in Unix seconds: a duration before *now*, or a time in ISO 8601.

    A time without a zone is in UTC, as everything is that TARN writes.

    Raises:
        ConfigError: It is neither; the message names *where*.
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
