"""Who we are: the digest's user and password, from where the settings say, and the owner."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import ConfigError
from tarn.zk.acl import Login

__all__ = ["login", "owner"]

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
                next_step="Set it in the master's environment.",
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


def owner(environ: Mapping[str, str]) -> str:
    """Return who runs this master.

    ``USER`` comes first: YARN sets it to who submitted, also where every container runs as one
    user of the system. Then as Hadoop finds it out: ``HADOOP_USER_NAME``, the user of the process.
    """
    if name := environ.get("USER") or environ.get("HADOOP_USER_NAME"):
        return name
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a number that has no name
        return str(number)
