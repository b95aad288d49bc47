"""What a user names for Knox, checked before it stands in a file. Pure."""

import re
from urllib.parse import urlsplit

import attrs

from tarn.errors import ConfigError

__all__ = ["ROLE", "VERSION", "Balancers", "Ensemble", "Shape", "check_acl", "check_name"]

ROLE = "TRITON"
VERSION = "2.0.0"
"""Of the service definition; Knox wants one."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}")
_PATH = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_ACL = re.compile(r"[^;\s<>&]+(?:;[^;\s<>&]+){2}")


@attrs.frozen
class Balancers:
    """Knox asks one HAProxy, or the next of several when one does not answer."""

    urls: tuple[str, ...]

    def __attrs_post_init__(self) -> None:
        """Refuse what is not a base URL."""
        for url in self.urls:
            _check_url(url)


@attrs.frozen
class Ensemble:
    """Knox finds the instances in ZooKeeper; it needs the URLManager's jar."""

    servers: str
    """``host:port``, separated by commas."""
    namespace: str
    """The path of the instances' nodes."""

    def __attrs_post_init__(self) -> None:
        """Refuse what Knox would cut at its ``;`` and ``=``, or not understand."""
        if not all(_SERVER.fullmatch(server) for server in self.servers.split(",")):
            raise ConfigError(
                f"'{self.servers}' is not a ZooKeeper ensemble",
                where="--zookeeper",
                right="Expected zk1:2181,zk2:2181, without spaces; a chroot belongs in front of "
                "--zookeeper-namespace.",
            )
        if not _PATH.fullmatch(self.namespace):
            raise ConfigError(
                f"'{self.namespace}' is not a path that Knox accepts",
                where="--zookeeper-namespace",
                right="Expected a path such as /services/triton/instances.",
            )


Shape = Balancers | Ensemble
"""How Knox reaches the instances."""


def check_name(name: str) -> str:
    """Return the name of a topology, which is a part of every client's URL.

    Raises:
        ConfigError: It has signs that a URL or a file name would not keep.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"'{name}' is not a valid topology name",
            where="--name",
            right="Use at most 64 letters, digits, '-' and '_'.",
        )
    return name


def check_acl(acl: str) -> str:
    """Return who may use the service, as Knox's AclsAuthz writes it.

    Raises:
        ConfigError: It has not three parts.
    """
    if not _ACL.fullmatch(acl):
        raise ConfigError(
            f"'{acl}' is not an access list",
            where="--acl",
            right="Use 'users;groups;addresses', each a list with commas or '*'.",
        )
    return acl


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
    clean = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain or not clean:
        raise ConfigError(
            f"'{url}' is not a base URL",
            where="--url",
            right="Expected http://lb1:8080, with nothing after the port.",
        )
    if port == 0:
        raise ConfigError(f"'{url}' has port 0, at which nobody listens", where="--url")
