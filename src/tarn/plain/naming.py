"""Names that a person gives: never empty."""

from tarn.errors import ConfigError

__all__ = ["not_empty"]


def not_empty(given: str, where: str) -> str:
    """Return *given*, a name.

    An unset variable of a shell gives an empty name: to take it for "none given" would act on
    something that nobody named.

    Raises:
        ConfigError: It is empty, or blank; the message names *where*.
    """
    if not given.strip():
        step = "Name it, or leave it out; is a variable of the shell unset?"
        raise ConfigError("the name is empty", code="TARN-2002", where=where, next_step=step)
    return given
