"""Real ZooKeeper servers for tests: one, an ensemble of three, one behind TLS.

Import the fixtures into a folder's conftest.py. The jars are fetched once, by Maven, into the
user's cache.
"""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from kazoo.client import KazooClient
from one_maven import one_maven

from tarn import config
from tarn.testing.wait import until

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


def jars() -> Path:
    """Return the directory of ZooKeeper's jars; fetched once."""
    target = config.paths(config.environ()).cache / "zookeeper" / VERSION
    with one_maven():
        if not (target / f"zookeeper-{VERSION}.jar").is_file():
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        (Path(made) / "pom.xml").write_text(_POM)
        subprocess.run(
            [
                "mvn",
                "-q",
                "--batch-mode",
                "-f",
                f"{made}/pom.xml",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={made}/jars",
            ],
            check=True,
            timeout=300,
        )
        with contextlib.suppress(OSError):  # somebody was faster
            Path(made, "jars").rename(target)


@attrs.define
class Server:
    """One ZooKeeper in a process of its own."""

    directory: Path
    port: int
    lines: str
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; it may not serve yet when this returns."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "zoo.cfg").write_text(self.lines)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "java",
                    "-Xmx128m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    f"{jars()}/*",
                    _MAIN,
                    str(self.directory / "zoo.cfg"),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a lost machine does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

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

    def wait(self, within_s: float = 30.0) -> None:
        until(self.mode, within_s, f"ZooKeeper at {self.address}")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it hang for a while (SIGSTOP), and go on afterwards."""
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)


@attrs.frozen
class Ensemble:
    """Servers that are one ZooKeeper."""

    servers: tuple[Server, ...]

    @property
    def address(self) -> str:
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait()

    def leader(self) -> Server:
        return next(s for s in self.servers if s.mode() in {"leader", "standalone"})

    def restart(self) -> None:
        """Bring back whoever was killed."""
        for server in self.servers:
            if server.process is None:
                server.start()
        for server in self.servers:
            server.wait()

    def stop(self) -> None:
        for server in self.servers:
            server.kill()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [link.getsockname()[1] for link in links]


def standalone(directory: Path) -> Ensemble:
    (port,) = free_ports(1)
    lines = f"{_COMMON}dataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
    return Ensemble((Server(directory, port, lines),))


def three(directory: Path) -> Ensemble:
    ports = free_ports(9)
    members = "".join(f"server.{n + 1}=127.0.0.1:{ports[3 + n]}:{ports[6 + n]}\n" for n in range(3))
    servers = []
    for n in range(3):
        home = directory / str(n + 1)
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(str(n + 1))
        own = f"dataDir={home}/data\nclientPort={ports[n]}\nclientPortAddress=127.0.0.1\n"
        servers.append(Server(home, ports[n], _COMMON + own + members))
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
    return Secured(Ensemble((Server(directory, plain, lines),)), f"localhost:{port}", *files)


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
            with contextlib.suppress(Exception):  # the servers may be away: that is no deletion
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
    one = standalone(tmp_path_factory.mktemp("zookeeper"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def zookeeper_alone(tmp_path: Path) -> Iterator[Ensemble]:
    """One server for one test, which may kill it."""
    one = standalone(tmp_path / "zookeeper")
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def zookeeper_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """An ensemble of three; whoever kills a member brings it back (`Ensemble.restart`)."""
    one = three(tmp_path_factory.mktemp("ensemble"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def zookeeper_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One server behind TLS."""
    one = secured(tmp_path_factory.mktemp("secured"))
    one.ensemble.start()
    yield one
    one.ensemble.stop()
