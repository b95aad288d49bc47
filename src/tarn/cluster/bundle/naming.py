"""The people and machines that are known by name before any text is read."""

import getpass
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tarn import config
from tarn.cluster.bundle.names import Names
from tarn.cluster.surroundings import Surroundings
from tarn.domain import ClusterSpec

__all__ = ["people_and_machines"]


def people_and_machines(spec: ClusterSpec | None, around: Surroundings) -> Names:
    """Return whoever and whatever this process and the spec name."""
    names = Names()
    for host in (socket.getfqdn(), socket.gethostname()):
        names.host(host)
    names.user(around.environ.get("USER") or _user())
    home = Path(around.environ.get("HOME") or "/").name
    names.user(home)
    if spec is not None:
        for user in spec.admins.users:
            names.user(user)
        for proxy in spec.api.trusted_proxies:
            names.host(proxy.address.partition("/")[0])
        for text in _texts(config.dump(spec)):
            for host in _hosts(text):
                names.host(host)
    return names


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return ""


def _texts(plain: object) -> Iterator[str]:
    if isinstance(plain, Mapping):
        for value in plain.values():
            yield from _texts(value)
    elif isinstance(plain, list | tuple):
        for value in plain:
            yield from _texts(value)
    elif isinstance(plain, str):
        yield plain


def _hosts(text: str) -> Iterator[str]:
    """Yield the machines in a URL, or in a list such as ``zk1:2181,zk2:2181``."""
    if "://" in text:
        try:
            yield urlsplit(text).hostname or ""
        except ValueError:
            return
        return
    for one in text.split(","):
        host, colon, port = one.strip().rpartition(":")
        if colon and port.partition("/")[0].isdigit() and "/" not in host and " " not in host:
            yield host
