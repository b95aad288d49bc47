"""The password of a keystore: from where the settings say, and never written down."""

from collections.abc import Mapping
from pathlib import Path

from tarn.domain import Secret
from tarn.errors import ConfigError

__all__ = ["HADOOPS_DEFAULT", "VARIABLE", "password"]

VARIABLE = "HADOOP_CREDSTORE_PASSWORD"
"""From which Hadoop takes it first."""
HADOOPS_DEFAULT = "none"
"""What Hadoop takes where nobody says anything: it guards against nobody."""


def password(source: str, environ: Mapping[str, str]) -> Secret | None:
    """Return what *source* (``options.password``) means.

    Args:
        source: ``default``, ``file:PATH`` or ``env:NAME``.
        environ: The client's environment.

    Returns:
        None: nothing is chosen, and what Hadoop's own configuration says counts.

    Raises:
        ConfigError: The file or the variable is missing or empty; no value is in the message.
    """
    kind, _, name = source.partition(":")
    if kind == "default":
        return Secret(environ[VARIABLE]) if environ.get(VARIABLE) else None
    if kind == "env":
        return _given(environ.get(name, ""), f"the environment variable {name}")
    home = environ.get("HOME", "")
    path = Path(home + name[1:]) if name.startswith("~/") and home else Path(name)
    try:
        return _given(path.read_text("utf-8").strip(), f"the file {path}")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the file {path} is not UTF-8 text", code="TARN-3747", where="options.password"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"the file {path} cannot be read ({error.strerror})",
            code="TARN-3747",
            where="options.password",
            next_step="Make it readable by you, or name another one.",
        ) from error


def _given(text: str, place: str) -> Secret:
    if not text:
        raise ConfigError(
            f"{place} is missing or empty", code="TARN-3747", where="options.password"
        )
    return Secret(text)
