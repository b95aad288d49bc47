"""What TARN keeps in ZooKeeper: where each node stands, and what it says. Pure.

::

    <path>/<container id>            ephemeral: one instance that may get traffic
    <parent of path>/fleets/<name>   persistent: the master of one cluster, and what it published

The second is never a child of the first: consumers of the Java TARN take every child of ``path``
for an instance. Everybody who reads them finds out what is written in docs/how-to.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, Self

import attrs

from tarn.domain import Endpoint, Epoch, Member
from tarn.domain.address import apart, host_port
from tarn.errors import ConfigError

__all__ = [
    "INSTANCES",
    "FleetNode",
    "InstanceNode",
    "check_ensemble",
    "check_path",
    "fleet_path",
    "instance_payload",
    "parse_payload",
    "valid_name",
]

INSTANCES = "/services/triton/instances"
"""Where the Java TARN registered its instances, and where they are looked for by default."""
FLEETS = "fleets"
_BAD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff/]")
"""What ZooKeeper takes in no name."""

_PORT = r"[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_SERVER = re.compile(rf"(?:\[([0-9A-Fa-f:.]+)\]|[A-Za-z0-9._-]+)(?::(?:{_PORT}))?")


def valid_name(name: str) -> bool:
    """Say whether ZooKeeper takes *name* for one node (no path)."""
    return bool(name) and name not in {".", ".."} and not _BAD.search(name)


def check_ensemble(text: str) -> str:
    """Return *text* when it names servers: ``host:port,host:port``, with or without a chroot.

    Raises:
        ConfigError: It does not.
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
    """Return *path* when instances can be published below it.

    Raises:
        ConfigError: It is not an absolute path of nodes, or lies where others keep theirs.
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
    """One instance, as the payload ``json`` says it."""

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
        """Read what `render` wrote; keys besides these are for later versions.

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
    """Return what the node of *member* says; *kind* is ``hostport`` or ``json``.

    ``host:port`` is the HTTP service, as the Java TARN wrote it: nothing in it moves while the
    instance stays where it is.
    """
    if kind == "hostport":
        return member.endpoint.http.encode()
    node = InstanceNode(
        member.instance_id, cluster, member.endpoint, epoch, revision, member.weight
    )
    return node.render()


def parse_payload(data: bytes) -> tuple[str, int]:
    """Return host and HTTP port of an instance, whichever way its node was written.

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
    """What a master says of itself: it tells "no master" from "no instances"."""

    epoch: Epoch
    """A master with a lower one writes nothing any more."""
    revision: int
    count: int
    """How many instances are published; fewer nodes than that mean that their master is away."""
    api_url: str = ""
    """Base URL of the master's HTTP API; empty where it is not known."""
    nodes: tuple[str, ...] = ()
    """The children of ``path`` that are this cluster's, sorted: ``host:port`` names no owner."""
    owner: str = ""
    """Who runs the master; empty in a node of a TARN that did not say it yet."""

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
        """Read what `render` wrote; keys besides these are for later versions.

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
    except (ValueError, RecursionError) as error:  # of a stranger: it may be anything
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
    """Return host and port of a URL, or of what stands in one before its path."""
    place = url.rpartition("://")[2].partition("/")[0]
    host, port = apart(place)
    if not host or not _is_port(port):
        _wrong("a node of an instance", f"no host and port, but {url[:80]!r}")
    return host, int(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536  # noqa: PLR2004


def _wrong(what: str, found: str) -> NoReturn:
    raise ConfigError(f"{what} holds {found}")
