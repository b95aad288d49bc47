"""Where a keystore lies, from all the ways to write it. Pure."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.plain import masked

__all__ = ["HadoopKeystore", "LocalKeystore", "place"]

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
        """Return the name of its provider: ``jceks://hdfs@host:8020/user/me/hf.jceks``."""
        parts = urlsplit(self.uri)
        at = f"@{parts.netloc}" if parts.netloc else ""
        return f"{_HADOOPS}://{parts.scheme}{at}{parts.path}"

    def __str__(self) -> str:
        return masked(self.uri)


def place(text: str) -> LocalKeystore | HadoopKeystore:
    """Return where *text* means; messages quote no password of a URI.

    Raises:
        ValueError: It means no keystore that can be read.
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
