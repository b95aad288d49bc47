"""TARN's nodes in ZooKeeper: their paths, contents and ACLs. Pure.

::

    <path>/<container id>            ephemeral: one instance that may get traffic
    <parent of path>/fleets/<name>   persistent: the master of one cluster, and what it published

The second is never below ``path``: consumers of the Java TARN take every child of ``path`` for an
instance.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, Self

import attrs

from tarn.domain import Endpoint, Epoch, Member
from tarn.domain.endpoint import apart, host_port
from tarn.errors import ConfigError

__all__ = [
    "CREATOR_AND_READERS",
    "INSTANCES",
    "AclEntry",
    "CheckVersion",
    "Create",
    "Delete",
    "FleetNode",
    "InstanceNode",
    "Login",
    "Operation",
    "SetData",
    "ZNode",
    "check_ensemble",
    "check_path",
    "fleet_path",
    "instance_payload",
    "parse_payload",
    "size",
    "valid_name",
]

# The default path: where the Java TARN registered its instances.
INSTANCES = "/services/triton/instances"
FLEETS = "fleets"
# Characters that ZooKeeper forbids in a name, and the separator of paths.
_BAD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff/]")

_PORT = r"[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_SERVER = re.compile(rf"(?:\[([0-9A-Fa-f:.]+)\]|[A-Za-z0-9._-]+)(?::(?:{_PORT}))?")


def valid_name(name: str) -> bool:
    """Return whether *name* is a valid name of one node."""
    return bool(name) and name not in {".", ".."} and not _BAD.search(name)


def check_ensemble(text: str) -> str:
    """Return *text* if it is a list of servers: ``host:port,host:port``, perhaps with a chroot.

    Raises:
        ConfigError: It is not.
    """
    servers, slash, chroot = text.partition("/")
    names = chroot.rstrip("/").split("/") if chroot.rstrip("/") else []
    if not all(_is_server(server.strip()) for server in servers.split(",")):
        wrong = "lists no servers"
    elif not all(valid_name(name) for name in names) or (slash and "//" in f"/{chroot}"):
        wrong = "does not end with a chroot such as /services/a"
    else:
        return text
    raise ConfigError(
        f"the ensemble '{text}' {wrong}",
        right="Expected host:port,host:port, optionally with a chroot at the end.",
    )


def _is_server(text: str) -> bool:
    match = _SERVER.fullmatch(text)
    if match is None or match[1] is None:
        return match is not None
    try:
        ipaddress.IPv6Address(match[1])
    except ValueError:
        return False
    return True


def check_path(path: str) -> str:
    """Return *path* if instances can be published below it.

    Raises:
        ConfigError: It is not an absolute path, or is reserved for other nodes.
    """
    names = path.split("/")[1:] if path.startswith("/") else []
    if not names or not all(valid_name(name) for name in names):
        _wrong_path(path, "is not a path of ZooKeeper")
    if names[0] == "zookeeper":
        _wrong_path(path, "belongs to ZooKeeper itself")
    if names[-1] == FLEETS:
        _wrong_path(path, f"is where masters keep their nodes ('{FLEETS}')")
    return path


def _wrong_path(path: str, why: str) -> NoReturn:
    raise ConfigError(
        f"'{path}' {why}",
        right="Expected a path such as /services/triton/instances, with no '/' at its end.",
    )


def fleet_path(path: str, cluster: str) -> str:
    """Return the path of a cluster's own node: ``<parent of path>/fleets/<cluster>``."""
    return f"{path.rpartition('/')[0]}/{FLEETS}/{cluster}"


@attrs.frozen
class InstanceNode:
    """The node of one instance with the payload ``json``."""

    instance: str
    cluster: str
    endpoint: Endpoint
    epoch: Epoch
    """Of the master that wrote the node."""
    revision: int
    """Of the view with which it was written."""
    weight: int = 100

    def render(self) -> bytes:
        """Return the node's content: JSON, ASCII, keys in this order."""
        at = self.endpoint
        plain = {
            "url": f"http://{host_port(at.host, at.http_port)}",
            "grpc": host_port(at.host, at.grpc_port),
            "metrics": f"http://{host_port(at.host, at.metrics_port)}/metrics",
            "epoch": str(self.epoch),
            "revision": self.revision,
            "cluster": self.cluster,
            "instance": self.instance,
            "weight": self.weight,
        }
        return json.dumps(plain).encode("ascii")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what `render` wrote; other keys are ignored, for later versions.

        Raises:
            ConfigError: It is something else.
        """
        plain = _object(data)
        (host, http), (_, grpc), (_, metrics) = (
            _split(_text(plain, key)) for key in ("url", "grpc", "metrics")
        )
        endpoint = Endpoint(host, http, grpc, metrics)
        return cls(
            _text(plain, "instance"),
            _text(plain, "cluster"),
            endpoint,
            _epoch(plain),
            _number(plain, "revision"),
            _number(plain, "weight"),
        )


def instance_payload(
    member: Member, *, cluster: str, epoch: Epoch, revision: int, kind: str = "hostport"
) -> bytes:
    """Return the content of the node of *member*; *kind* is ``hostport`` or ``json``."""
    # As the Java TARN wrote it, so it does not change with a new master or view.
    if kind == "hostport":
        return member.endpoint.http.encode()
    node = InstanceNode(
        member.instance_id, cluster, member.endpoint, epoch, revision, member.weight
    )
    return node.render()


def parse_payload(data: bytes) -> tuple[str, int]:
    """Return host and HTTP port of an instance from either kind of payload.

    Raises:
        ConfigError: It is neither ``host:port`` nor TARN's JSON.
    """
    if data.lstrip().startswith(b"{"):
        endpoint = InstanceNode.parse(data).endpoint
        return endpoint.host, endpoint.http_port
    try:
        return _split(data.decode().strip())
    except UnicodeDecodeError as error:
        raise ConfigError("a node of an instance holds no text") from error


@attrs.frozen
class FleetNode:
    """The node of a master; with it, readers can tell "no master" from "no instances"."""

    epoch: Epoch
    """A master with a lower epoch must not write any more."""
    revision: int
    count: int
    """How many instances are published; if there are fewer nodes, their master is away."""
    api_url: str = ""
    """Base URL of the master's HTTP API; empty if it is not known."""
    nodes: tuple[str, ...] = ()
    """This cluster's children of ``path``, sorted; with ``host:port`` they do not name it."""
    owner: str = ""
    """The user who runs the master; empty in nodes of older versions."""

    def render(self) -> bytes:
        """Return the node's content: JSON, ASCII."""
        plain = {
            "epoch": str(self.epoch),
            "revision": self.revision,
            "count": self.count,
            "api_url": self.api_url,
            "nodes": list(self.nodes),
            "owner": self.owner,
        }
        return json.dumps(plain).encode("ascii")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what `render` wrote; other keys are ignored, for later versions.

        Raises:
            ConfigError: It is something else.
        """
        plain = _object(data)
        nodes = plain.get("nodes", [])
        if not isinstance(nodes, list) or not all(isinstance(n, str) and n for n in nodes):
            _wrong("the node of a fleet", "'nodes' that are not a list of names")
        api_url, owner = plain.get("api_url", ""), plain.get("owner", "")
        for key, value in (("api_url", api_url), ("owner", owner)):
            if not isinstance(value, str):
                _wrong("the node of a fleet", f"'{key}' that is not text")
        return cls(
            _epoch(plain),
            _number(plain, "revision"),
            _number(plain, "count"),
            api_url,
            tuple(nodes),
            owner,
        )


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:  # other programs may have written anything
        raise ConfigError(f"a node of ZooKeeper holds no JSON: {data[:80]!r}") from error
    if not isinstance(plain, dict):
        _wrong("a node of ZooKeeper", f"no JSON object, but {data[:80]!r}")
    return plain


def _text(plain: Mapping[str, Any], key: str) -> str:
    value = plain.get(key)
    if not isinstance(value, str) or not value:
        _wrong("a node of ZooKeeper", f"no text '{key}'")
    return value


def _number(plain: Mapping[str, Any], key: str) -> int:
    value = plain.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        _wrong("a node of ZooKeeper", f"no number '{key}' of 0 or more")
    return value


def _epoch(plain: Mapping[str, Any]) -> Epoch:
    text = _text(plain, "epoch")
    try:
        return Epoch.parse(text)
    except ValueError as error:
        raise ConfigError(f"a node of ZooKeeper holds '{text[:80]}' for its epoch") from error


def _split(url: str) -> tuple[str, int]:
    """Return host and port of a URL, or of ``host:port``."""
    place = url.rpartition("://")[2].partition("/")[0]
    host, port = apart(place)
    digits = port.isascii() and port.isdigit() and len(port) <= 5  # noqa: PLR2004
    if not (host and digits and 0 < int(port) < 65_536):  # noqa: PLR2004
        _wrong("a node of an instance", f"no host and port, but {url[:80]!r}")
    return host, int(port)


def _wrong(what: str, found: str) -> NoReturn:
    raise ConfigError(f"{what} holds {found}")


@attrs.frozen
class Login:
    """User and password of the scheme ``digest``; no ``repr`` shows the password."""

    user: str
    password: str = attrs.field(repr=False)

    @property
    def text(self) -> str:
        """``user:password``, as ZooKeeper expects it. A secret."""
        return f"{self.user}:{self.password}"

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read ``user:password``; *where* names its source in errors.

        Raises:
            ConfigError: It is something else; the message does not quote it.
        """
        user, colon, password = text.strip().partition(":")
        if not (user and colon and password):
            raise ConfigError("does not hold user:password", where=where)
        return cls(user, password)


@attrs.frozen
class AclEntry:
    """One line of an ACL."""

    scheme: str
    id: str
    permissions: str
    """Some of ``c`` create, ``d`` delete, ``r`` read, ``w`` write, ``a`` admin."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``scheme:id:permissions``, as in ZooKeeper's ``setAcl``.

        Raises:
            ConfigError: It is something else.
        """
        scheme, _, rest = text.partition(":")
        name, colon, permissions = rest.rpartition(":")
        letters = set(permissions)
        if not scheme or not colon or not letters or not letters <= set("cdrwa"):
            raise ConfigError(
                f"'{text}' is not a line of an ACL",
                right="Expected scheme:id:permissions: world:anyone:r, auth::cdrwa.",
            )
        return cls(scheme, name, permissions)


# The creator of a node may do everything with it, and everybody may read it.
CREATOR_AND_READERS = (AclEntry("auth", "", "cdrwa"), AclEntry("world", "anyone", "r"))


# Bytes of one operation without path and data: headers, lengths, flags and a short ACL.
_FRAME = 96


@attrs.frozen
class ZNode:
    """The content of one node."""

    data: bytes
    version: int
    owner: int
    """The session of an ephemeral node; 0 for a persistent one."""


@attrs.frozen
class Create:
    """Create a node; fails if it exists."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@attrs.frozen
class Delete:
    """Delete a node; fails if it does not exist."""

    path: str
    data: bytes = b""
    """Always empty; see `size`."""


@attrs.frozen
class SetData:
    """Write a node; fails if it has another version (-1: any version)."""

    path: str
    data: bytes = b""
    version: int = -1


@attrs.frozen
class CheckVersion:
    """Fail if a node has another version."""

    path: str
    version: int
    data: bytes = b""
    """Always empty; see `size`."""


Operation = Create | Delete | SetData | CheckVersion


def size(operation: Operation) -> int:
    """Return an upper bound of the bytes of an operation on the wire, with a short ACL."""
    return _FRAME + len(operation.path.encode()) + len(operation.data)
