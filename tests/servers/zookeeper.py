"""Real ZooKeeper servers for tests: one, an ensemble of three, one behind TLS.

Import the fixtures into a folder's conftest.py. The jars are fetched once, by Maven, into the
user's cache.
"""

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import attrs
import pytest
from kazoo.client import KazooClient

from servers.maven import jars
from servers.process import ServerProcess, free_ports

VERSION = "3.9.4"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tarn</groupId><artifactId>zookeeper</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId>
<version>{VERSION}</version></dependency>
<dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId>
<version>1.1.10.7</version></dependency>
<dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId>
<version>4.2.30</version></dependency>
</dependencies></project>
"""
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_COMMON = """tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
initLimit=10
syncLimit=5
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""


def library() -> Path:
    """Return the folder of ZooKeeper's jars; Maven brings them once, into the cache."""
    return jars(f"zookeeper/{VERSION}", _POM)


class ZooKeeperServer(ServerProcess):
    """One ZooKeeper.

    Args:
        directory: For its file, its data and its log.
        port: Where clients come.
        lines: Its file.
    """

    def __init__(self, directory: Path, port: int, lines: str) -> None:
        file = directory / "zoo.cfg"
        small = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        super().__init__(
            ["java", *small, "-cp", f"{library()}/*", _MAIN, str(file)], directory / "log"
        )
        self.directory, self.port, self.lines, self._file = directory, port, lines, file

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def begin(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._file.write_text(self.lines)
        super().begin()

    def answers(self) -> bool:
        return bool(self.mode())

    def mode(self) -> str:
        """Return ``standalone``, ``leader`` or ``follower``; empty while it does not serve."""
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self.port), 1) as link:
                link.sendall(b"srvr")
                link.settimeout(1)
                said = b"".join(iter(lambda: link.recv(4096), b"")).decode()
            for line in said.splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ")
        return ""


@attrs.frozen
class Ensemble:
    """Servers that are one ZooKeeper."""

    servers: tuple[ZooKeeperServer, ...]

    @property
    def address(self) -> str:
        return ",".join(server.address for server in self.servers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start those that do not run; back when all serve."""
        try:
            for server in self.servers:
                if not server.runs:
                    server.begin()
            for server in self.servers:
                server.wait()
        except BaseException:
            self.stop()
            raise

    def leader(self) -> ZooKeeperServer:
        return next(s for s in self.servers if s.mode() in {"leader", "standalone"})

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


def standalone(directory: Path) -> Ensemble:
    (port,) = free_ports(1)
    lines = f"{_COMMON}dataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
    return Ensemble((ZooKeeperServer(directory, port, lines),))


def three(directory: Path) -> Ensemble:
    ports = free_ports(9)
    members = "".join(f"server.{n + 1}=127.0.0.1:{ports[3 + n]}:{ports[6 + n]}\n" for n in range(3))
    servers = []
    for n in range(3):
        home = directory / str(n + 1)
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(str(n + 1))
        own = f"dataDir={home}/data\nclientPort={ports[n]}\nclientPortAddress=127.0.0.1\n"
        servers.append(ZooKeeperServer(home, ports[n], _COMMON + own + members))
    return Ensemble(tuple(servers))


@attrs.frozen
class Secured:
    """One server behind TLS that wants to know its clients, with everybody's files."""

    ensemble: Ensemble
    address: str
    ca: str
    cert: str
    key: str
    other_ca: str
    """Of somebody else: it signed nothing here."""


def secured(directory: Path) -> Secured:
    """Make authority, certificates and one server; it is not started yet."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("ca", "other"):
        _openssl(
            directory,
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN=tarn-{name}"),
        )
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        new = ("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost")
        _openssl(directory, *new, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        _openssl(
            directory,
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", "9", "-extfile", "names", "-out", f"{name}.crt"),
        )
    both = (directory / "server.key").read_text() + (directory / "server.crt").read_text()
    (directory / "server.pem").write_text(both)
    plain, port = free_ports(2)
    lines = _COMMON + (
        f"dataDir={directory}/data\nclientPort={plain}\nclientPortAddress=127.0.0.1\n"
        f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"ssl.keyStore.location={directory}/server.pem\n"
        f"ssl.trustStore.location={directory}/ca.pem\n"
        "ssl.hostnameVerification=false\nssl.clientAuth=need\n"
    )
    files = (str(directory / one) for one in ("ca.pem", "client.crt", "client.key", "other.pem"))
    return Secured(
        Ensemble((ZooKeeperServer(directory, plain, lines),)), f"localhost:{port}", *files
    )


def _openssl(directory: Path, *arguments: str) -> None:
    assert shutil.which("openssl"), "these tests make certificates with openssl"
    subprocess.run(["openssl", *arguments], check=True, cwd=directory, capture_output=True)


@contextlib.contextmanager
def client(address: str, **options: object) -> Iterator[KazooClient]:
    """Yield a client of somebody else."""
    one = KazooClient(address, timeout=10, **options)
    one.start(20)
    try:
        yield one
    finally:
        one.stop()
        one.close()


class Watcher:
    """A consumer that looks all the time, and is told of every change: what did it ever miss?"""

    def __init__(self, address: str, path: str, names: set[str]) -> None:
        self.names = names
        self.missing: list[str] = []
        self.looks = 0
        self._over = threading.Event()
        self._client = KazooClient(
            address, timeout=30, connection_retry={"max_tries": -1, "max_delay": 0.2}
        )
        self._client.start(20)
        self._client.ChildrenWatch(path, self._saw)
        self._path = path
        self._thread = threading.Thread(target=self._poll, name="watcher", daemon=True)
        self._thread.start()

    def _saw(self, children: list[str]) -> None:
        self.missing.extend(self.names - set(children))

    def _poll(self) -> None:
        while not self._over.wait(0.002):
            with contextlib.suppress(Exception):  # the servers may be away: that is not a deletion
                self._saw(self._client.get_children_async(self._path).get(timeout=2))
                self.looks += 1

    def close(self) -> None:
        """Stop looking; call it while the servers answer."""
        self._over.set()
        self._thread.join(5)
        self._client.stop()
        self._client.close()


@contextlib.contextmanager
def watched(address: str, path: str, *names: str) -> Iterator[Watcher]:
    """Fail when one of *names* was missing at any moment inside."""
    watcher = Watcher(address, path, set(names))
    try:
        yield watcher
    finally:
        watcher.close()
    assert watcher.looks
    assert not watcher.missing


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One server for the session: nobody kills it; each test takes a path of its own."""
    with standalone(tmp_path_factory.mktemp("zookeeper")) as one:
        yield one


@pytest.fixture
def zookeeper_alone(tmp_path: Path) -> Iterator[Ensemble]:
    """One server for one test, which may kill it."""
    with standalone(tmp_path / "zookeeper") as one:
        yield one


@pytest.fixture(scope="module")
def zookeeper_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """An ensemble of three; whoever stops a member starts it again (`Ensemble.start`)."""
    with three(tmp_path_factory.mktemp("ensemble")) as one:
        yield one


@pytest.fixture(scope="session")
def zookeeper_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One server behind TLS."""
    one = secured(tmp_path_factory.mktemp("secured"))
    with one.ensemble:
        yield one
