"""A ZooKeeper made of a dictionary, and sessions with it: for what needs no network."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from tarn.errors import DiscoveryError
from tarn.zk.nodes import Create, Delete, Operation, SetData, ZNode
from tarn.zk.session import NodesChangedError


class Conflict(Exception):  # noqa: N818 (what a server says)
    """The servers refused a transaction."""


@attrs.define
class Servers:
    """A tree of nodes, and transactions that are done wholly or not at all."""

    nodes: dict[str, ZNode] = attrs.field(factory=dict)
    _sessions: Any = attrs.field(factory=lambda: itertools.count(1))

    def commit(self, operations: Iterable[Operation], session: int) -> None:
        after = dict(self.nodes)
        for operation in operations:
            self._do(after, operation, session)
        self.nodes = after

    def _do(self, nodes: dict[str, ZNode], operation: Operation, session: int) -> None:
        path, there = operation.path, nodes.get(operation.path)
        wanted = getattr(operation, "version", None)
        if (there is None) != isinstance(operation, Create):
            raise Conflict(path)
        if there is not None and wanted not in {None, there.version}:
            raise Conflict(path)
        match operation:
            case Create(_, data, ephemeral):
                nodes[path] = ZNode(data, 0, session if ephemeral else 0)
            case Delete():
                del nodes[path]
            case SetData(_, data, version):
                assert there is not None
                nodes[path] = ZNode(data, version + 1, there.owner)

    def children(self, path: str) -> set[str]:
        return {at.rpartition("/")[2] for at in self.nodes if at.rpartition("/")[0] == path}

    def expire(self, session: int) -> None:
        self.nodes = {p: n for p, n in self.nodes.items() if n.owner != session}

    def session(
        self, ensemble: str, *, changed: Callable[[], None], **_options: Any
    ) -> "FakeSession":
        """Stand in for `tarn.zk.session.ZooKeeperSession`."""
        return FakeSession(self, ensemble, changed, next(self._sessions))


@attrs.define
class FakeSession:
    """What `tarn.zk.session.ZooKeeperSession` does, over the dictionary."""

    servers: Servers
    ensemble: str
    changed: Callable[[], None]
    number: int
    broken: bool = False
    unanswered: bool = False
    """Transactions are done, and no answer comes."""
    refused_s: list[float] | None = None
    """When transactions were refused; None: they are not."""

    @property
    def connected(self) -> bool:
        return not self.broken

    @property
    def id(self) -> int:
        return 0 if self.broken else self.number

    def connect(self, within_s: float = 0.0) -> None:
        if self.broken:
            raise DiscoveryError("zookeeper", "no answer")

    def lose(self, number: int) -> None:
        """Be another session from now on."""
        self.servers.expire(self.number)
        self.number = number
        self.changed()

    def close(self, within_s: float = 0.0) -> None:
        self.servers.expire(self.number)
        self.broken = True

    def abandon(self, within_s: float = 0.0) -> None:
        self.broken = True

    def ensure(self, path: str, within_s: float = 0.0) -> None:
        self.connect()

    def get(self, path: str, within_s: float = 0.0) -> ZNode | None:
        self.connect()
        return self.servers.nodes.get(path)

    def get_all(self, paths: Iterable[str], within_s: float = 0.0) -> dict[str, ZNode]:
        self.connect()
        return {path: self.servers.nodes[path] for path in paths if path in self.servers.nodes}

    def children(self, path: str, within_s: float = 0.0) -> tuple[str, ...]:
        self.connect()
        return tuple(sorted(self.servers.children(path)))

    def commit(
        self, operations: Sequence[Operation], session_id: int, within_s: float = 0.0
    ) -> None:
        self.connect()
        assert session_id == self.number
        if self.refused_s is not None:
            self.refused_s.append(time.monotonic())
            raise DiscoveryError("zookeeper", "this user may not")
        try:
            self.servers.commit(operations, session_id)
        except Conflict as error:
            raise NodesChangedError("zookeeper", str(error)) from error
        if self.unanswered:
            raise DiscoveryError("zookeeper", "no answer")
