"""The digest's user and password, from where the settings say."""

from collections.abc import Mapping
from pathlib import Path

from tarn.errors import ConfigError
from tarn.zk.acl import Login

__all__ = ["login"]

_WHERE = "discovery zookeeper: digest"


def login(source: str, environ: Mapping[str, str]) -> Login | None:
    """Return who we are for ZooKeeper; None where *source* is empty.

    Args:
        source: ``file:PATH``, ``env:NAME`` or empty.
        environ: The master's environment.

    Raises:
        ConfigError: The place is missing, or holds no ``user:password``; its content is not told.
    """
    kind, _, name = source.partition(":")
    if not source:
        return None
    if kind == "env":
        if name not in environ:
            raise ConfigError(
                f"the environment variable {name} is not set",
                where=_WHERE,
                next_step="It is the master's environment that counts.",
            )
        return Login.parse(environ[name], f"{_WHERE} (the environment variable {name})")
    try:
        text = Path(name).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise ConfigError(
            f"the file {name} cannot be read ({why})",
            where=_WHERE,
            next_step="It must be on the master's machine, and readable by the master's user.",
        ) from error
    return Login.parse(text, f"{_WHERE} (the file {name})")
