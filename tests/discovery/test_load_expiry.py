"""ZooKeeper in trouble while HAProxy serves: whoever comes through HAProxy notices nothing."""

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
from house import House, clear, until
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from proxied_fleet import Fleet, FleetAgent, followed, soon
from proxied_load import HttpLoad
from servers.haproxy import RenderedHaproxy, poured
from servers.lb_agent import fake_tritons
from servers.zookeeper import Ensemble, client

pytestmark = [pytest.mark.discovery, pytest.mark.timed]

RATE = 100.0
SESSION_S = 2.0


class Wire:
    """A way to a server on this machine that can be cut; it keeps its own address."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._whole = True
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._relays: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, name="wire", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in (self._thread, *self._relays):
            thread.join(10)

    @property
    def address(self) -> str:
        """Where it begins."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """End all connections, and each new one at once."""
        with self._lock:
            self._whole = False
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def mend(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._whole = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(
                target=self._relay, args=(near,), name="wire-one", daemon=True
            )
            self._relays.append(thread)
            thread.start()

    def _relay(self, near: socket.socket) -> None:
        """Hand on both ways, until one side ends or the wire is cut."""
        with near, contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self._to), 5) as far:
                with self._lock:
                    if not self._whole:
                        return
                    self._open.append(near)
                back = threading.Thread(target=poured, args=(far, near), daemon=True)
                back.start()
                poured(near, far)
                back.join(10)


@attrs.frozen
class Stage:
    """A cluster that is found in two ways."""

    door: RenderedHaproxy
    fleet: Fleet
    path: str

    def nodes(self, other: KazooClient) -> set[str]:
        """Return the instances that ZooKeeper names."""
        try:
            return set(other.retry(other.get_children, self.path))  # its own session may end, too
        except NoNodeError:
            return set()

    def trouble(self) -> str:
        """Return what the status says of the discovery ``zookeeper``."""
        rows: list[dict[str, Any]] = self.fleet.api.status()["followers"]
        return next((str(row["error"]) for row in rows if row["name"] == "zookeeper"), "")


@contextlib.contextmanager
def staged(root: Path, ensemble: str, straight: str) -> Iterator[Stage]:
    """Bring up two fakes; the master reaches ZooKeeper by *ensemble*, the agent *straight*."""
    house = House(root)
    path = f"/services/{secrets.token_hex(4)}/instances"
    zookeeper = {
        "use": "zookeeper",
        "options": {"ensemble": ensemble, "path": path, "session_timeout": f"{SESSION_S:g}s"},
    }
    keys = {
        **fake_tritons(root),
        "replicas": {"min": 1, "max": 4, "initial": 2},
        "drain": {"timeout": "30s", "quiesce": "100ms"},
        "discovery": [zookeeper, *followed()["discovery"]],
    }
    try:
        done = house.tarn("up", "-f", house.spec("both", **keys), "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        token = ("--token-file", str(house.directory("both") / "api_token"))
        way = ("--zookeeper", straight, "--zookeeper-path", path, *token)
        with RenderedHaproxy(root) as door, FleetAgent(house, door, "both", *way) as agent:
            with Fleet(house, "both") as fleet:
                try:
                    fleet.settled(door, 2)
                    yield Stage(door, fleet, path)
                finally:
                    print(agent.said())
                    clear(house)
    finally:
        clear(house)


def test_an_expired_session_fails_no_request(tmp_path: Path, zookeeper: Ensemble) -> None:
    """The servers end the master's session: the nodes go and come back, HAProxy stays as it is."""
    with (
        Wire(zookeeper.servers[0].port) as wire,
        client(zookeeper.address) as other,
        staged(tmp_path, wire.address, zookeeper.address) as stage,
        HttpLoad(stage.door.address, RATE) as load,
    ):
        until(lambda: len(stage.nodes(other)) == 2, 30, "two nodes")
        before = stage.nodes(other)
        servers = set(stage.door.servers())
        wire.cut()
        until(lambda: not stage.nodes(other), 30, "the end of the session")
        load.pass_(100)
        assert set(stage.door.taking()) == set(stage.fleet.ready())
        wire.mend()
        until(lambda: stage.nodes(other) == before, 30, "the nodes again")
        load.pass_(100)
        assert set(stage.door.servers()) == servers
    assert load.missed == []


def test_one_discovery_down_holds_up_nothing(tmp_path: Path, zookeeper_alone: Ensemble) -> None:
    """ZooKeeper dies: HAProxy follows at once, decisions go on, and people can see it."""
    with (
        client(zookeeper_alone.address) as other,
        staged(tmp_path, zookeeper_alone.address, zookeeper_alone.address) as stage,
        HttpLoad(stage.door.address, RATE) as load,
    ):
        until(lambda: len(stage.nodes(other)) == 2, 30, "two nodes")
        zookeeper_alone.stop()
        stage.fleet.api.scale(3)
        until(lambda: len(stage.fleet.ready()) == 3, 30, "a third instance")
        soon(lambda: len(stage.door.taking()) == 3, 5, "a third server")
        until(stage.trouble, 30, "an error in the status")
        status, said = stage.fleet.health
        assert status == 200
        assert "zookeeper" in said.lower()
        at = stage.fleet.api.status()["at"]
        until(lambda: stage.fleet.api.status()["at"] > at, 5, "another decision")
        stage.fleet.api.scale(2)
        stage.fleet.settled(stage.door, 2)
        zookeeper_alone.start()
        until(lambda: not stage.trouble(), 30, "the end of the trouble")
        until(lambda: len(stage.nodes(other)) == 2, 30, "two nodes")
    assert load.missed == []
