"""The place of a keystore, from all the ways to write it. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.domain import Secret
from tarn.errors import ConfigError
from tarn.plain import masked

__all__ = ["HADOOPS_DEFAULT", "VARIABLE", "HadoopKeystore", "LocalKeystore", "password", "place"]

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_LOCAL = frozenset({"file", "localjceks"})
_OTHERS = {
    "bcfks": "a BCFKS keystore, which TARN does not read",
    "localbcfks": "a BCFKS keystore, which TARN does not read",
    "user": "the credentials of one process, which end with it",
}
_HADOOPS = "jceks"


@attrs.frozen
class LocalKeystore:
    """A keystore on this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@attrs.frozen
class HadoopKeystore:
    """A keystore on a file system of Hadoop's."""

    uri: str
    """The file: ``hdfs://host:8020/user/me/hf.jceks``."""

    @property
    def provider(self) -> str:
        """The name of its provider: ``jceks://hdfs@host:8020/user/me/hf.jceks``."""
        parts = urlsplit(self.uri)
        at = f"@{parts.netloc}" if parts.netloc else ""
        return f"{_HADOOPS}://{parts.scheme}{at}{parts.path}"

    def __str__(self) -> str:
        return masked(self.uri)


def place(text: str) -> LocalKeystore | HadoopKeystore:
    """Return the keystore that *text* names.

    Raises:
        ValueError: It names no keystore that can be read. The message quotes no password.
    """
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        return _file(text)
    if scheme in _OTHERS:
        raise ValueError(f"path = '{masked(text)}' names {_OTHERS[scheme]}; use a JCEKS")
    if not _SCHEME.fullmatch(scheme):
        raise ValueError(f"path = '{masked(text)}' has no scheme that Hadoop could know")
    if scheme in _LOCAL:
        return _file("/" + rest.partition("/")[2])
    if scheme != _HADOOPS:
        return _remote(scheme, rest, text)
    inner, _, path = rest.partition("/")
    scheme, _, authority = inner.partition("@")
    if scheme in _LOCAL:
        return _file(f"/{path}")
    return _remote(scheme, f"{authority}/{path}", text)


def _file(text: str) -> LocalKeystore:
    if not text.startswith("/") or text.endswith("/"):
        raise ValueError(
            f"path = '{text}' is not an absolute path; use one such as /etc/tarn/hf.jceks, or "
            "hdfs:///user/me/hf.jceks"
        )
    return LocalKeystore(Path(text))


def _remote(scheme: str, rest: str, text: str) -> HadoopKeystore:
    authority, slash, path = rest.partition("/")
    if not (scheme and slash and path.strip("/")) or path.endswith("/"):
        raise ValueError(f"path = '{masked(text)}' names no file on Hadoop")
    if ":" in authority.rpartition("@")[0]:
        raise ValueError(f"path = '{masked(text)}' contains a password, which others would see")
    return HadoopKeystore(f"{scheme}://{authority}/{path}")


VARIABLE = "HADOOP_CREDSTORE_PASSWORD"
"""The environment variable where Hadoop looks for the password first."""
HADOOPS_DEFAULT = "none"
"""Hadoop's password if none is configured; everybody knows it."""


def password(source: str, environ: Mapping[str, str]) -> Secret | None:
    """Return the password at *source*; None leaves it to Hadoop's own configuration.

    Args:
        source: ``default``, ``file:PATH`` or ``env:NAME``, as in ``options.password``.
        environ: The client's environment.

    Raises:
        ConfigError: The file or the variable is missing or empty. The message quotes no value.
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
