"""Masters' discoveries over a real ZooKeeper, and what a consumer finds there."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tarn.domain import DiscoveryView, Endpoint, Epoch, Member
from tarn.testing.context import cluster_spec, master_context
from tarn.zk.nodes import FleetNode, fleet_path
from tarn_plugins.discovery.zookeeper import ZooKeeperSettings
from tarn_plugins.discovery.zookeeper.discovery import LOOK_EVERY_S, ZooKeeper

EPOCH = Epoch(1_700_000_000_000, 1)


def fresh_path() -> str:
    """Return a path that nobody else uses."""
    return f"/services/{secrets.token_hex(4)}/instances"


def member(number: int) -> Member:
    endpoint = Endpoint("127.0.0.1", 8000 + 3 * number, 8001 + 3 * number, 8002 + 3 * number)
    return Member(f"fleet-{number:04d}", f"container_{number}", endpoint, "aaaaaaaaaaaa")


def view(
    revision: int, *numbers: int, epoch: Epoch = EPOCH, complete: bool = True
) -> DiscoveryView:
    members = tuple(member(number) for number in numbers)
    return DiscoveryView(epoch, revision, complete=complete, members=members)


def names(*numbers: int) -> set[str]:
    return {f"container_{number}" for number in numbers}


@attrs.define
class Masters:
    """Makes discoveries, and closes what a test left open."""

    root: Path
    address: str
    path: str = attrs.field(factory=fresh_path)
    _made: list[ZooKeeper] = attrs.field(factory=list)

    def make(
        self,
        *,
        epoch: Epoch = EPOCH,
        cluster: str = "fleet",
        environ: Mapping[str, str] | None = None,
        look_every_s: float = LOOK_EVERY_S,
        **options: Any,
    ) -> ZooKeeper:
        plain = {"ensemble": self.address, "path": self.path, "session_timeout_s": 2.0, **options}
        context = master_context(self.root, spec=cluster_spec(cluster), epoch=epoch)
        context = attrs.evolve(context, environ={**context.environ, **(environ or {})})
        one = ZooKeeper(ZooKeeperSettings(**plain), context, look_every_s=look_every_s)
        self._made.append(one)
        return one

    def close(self) -> None:
        for one in self._made:
            one.close(withdraw=False)


@contextlib.contextmanager
def masters(root: Path, address: str) -> Iterator[Masters]:
    some = Masters(root, address)
    try:
        yield some
    finally:
        some.close()


def children(client: KazooClient, path: str) -> set[str]:
    try:
        return set(client.get_children(path))
    except NoNodeError:
        return set()


def fleet(client: KazooClient, path: str, cluster: str = "fleet") -> FleetNode:
    return FleetNode.parse(client.get(fleet_path(path, cluster))[0])
