"""A real Knox with a HAProxy and a ZooKeeper behind it; one for a session, on loopback only."""

import contextlib
import socket
import subprocess
import threading
import time
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import knox_jars
import pytest
from kazoo.client import KazooClient

from tarn_plugins.discovery.knox.places import Balancers, Ensemble, Shape
from tarn_plugins.discovery.knox.rendering import files

MASTER = "knox-secret"
ALICE, BOB = ("alice", "alice-pw"), ("bob", "bob-pw")
START_S, DEPLOY_S = 120.0, 60.0
OPENED = (
    *("java.lang", "java.lang.reflect", "java.net", "java.util", "sun.security.x509"),
    "sun.security.util",
)
"""Packages of java.base into which Knox 2.0.0 reaches."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(true, within_s: float, what: str):
    """Return the first true answer; fail when there is none in time."""
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while True:
        if answer := true():
            return answer
        if time.monotonic() > end_s:
            pytest.fail(f"{what} did not come true within {within_s:g} s")
        pause.wait(0.05)


def listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


class Daemon:
    """A process of the stage, and its log."""

    def __init__(self, directory: Path, name: str, argv: list[str]) -> None:
        self.log = directory / f"{name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=directory)

    def alive(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return True

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


class ZooKeeper(Daemon):
    """One server, from Knox's own jars."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.ensemble = f"127.0.0.1:{self.port}"
        data = directory / "zookeeper"
        data.mkdir()
        (directory / "zoo.cfg").write_text(
            f"tickTime=500\ndataDir={data}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        classes = f"{knox_jars.library()}/*"
        argv = ["java", "-Xmx128m", "-cp", classes, main, str(directory / "zoo.cfg")]
        super().__init__(directory, "zookeeper", argv)
        wait_for(lambda: self.alive() and listens(self.port), 30, "ZooKeeper")

    @contextlib.contextmanager
    def client(self) -> Iterator[KazooClient]:
        one = KazooClient(self.ensemble, timeout=4.0)
        one.start(timeout=30)
        try:
            yield one
        finally:
            one.stop()
            one.close()


class HAProxy(Daemon):
    """One without servers; `say` talks to its Runtime API."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.socket = directory / "haproxy.sock"
        (directory / "haproxy.cfg").write_text(
            f"global\n stats socket {self.socket} mode 600 level admin\n"
            "defaults\n mode http\n timeout connect 2s\n timeout client 60s\n timeout server 60s\n"
            " option redispatch\n retries 3\n"
            " http-error status 503 content-type application/json string '{}' hdr Retry-After 2\n"
            f"frontend f\n bind 127.0.0.1:{self.port}\n default_backend b\n"
            "backend b\n balance roundrobin\n"
        )
        argv = ["haproxy", "-db", "-f", str(directory / "haproxy.cfg")]
        super().__init__(directory, "haproxy", argv)
        wait_for(lambda: self.alive() and listens(self.port), 10, "HAProxy")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def say(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(5)
            one.connect(str(self.socket))
            one.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: one.recv(65536), b"")).decode().strip()

    def add(self, name: str, port: int) -> None:
        self.say(f"add server b/{name} 127.0.0.1:{port}")
        self.say(f"set server b/{name} state ready")

    def remove(self, name: str) -> None:
        """Drain, wait until nothing is open, delete."""
        self.say(f"set server b/{name} state drain")
        wait_for(lambda: self._open(name) == 0, 30, f"{name} quiet")
        self.say(f"set server b/{name} state maint")
        wait_for(lambda: "deleted" in self.say(f"del server b/{name}"), 10, f"{name} deleted")

    def _open(self, name: str) -> int:
        rows = (line.split(",") for line in self.say("show stat").splitlines())
        return next(int(row[4]) for row in rows if row[:2] == ["b", name])


class Knox(Daemon):
    """Knox with our service definition and our jar, and no topology but that of its health."""

    def __init__(self, directory: Path) -> None:
        self.port, self.home = free_port(), directory / "knox"
        self.conf = self.home / "conf"
        self._lay_out()
        self._java("org.apache.knox.gateway.util.KnoxCLI", "create-master", "--master", MASTER)
        self.began_s = time.monotonic()
        main = "org.apache.knox.gateway.GatewayServer"
        super().__init__(directory, "knox", self._command(main))
        self.client = httpx.Client(verify=False, trust_env=False, timeout=30)
        wait_for(lambda: self.alive() and self._healthy(), START_S, "Knox")
        self.started_in_s = time.monotonic() - self.began_s

    def end(self) -> None:
        self.client.close()
        super().end()

    def url(self, topology: str, path: str) -> str:
        return f"https://127.0.0.1:{self.port}/gateway/{topology}/{path}"

    def deploy(
        self, name: str, shape: Shape, acl: str = "alice;*;*", *, authenticates: bool = True
    ) -> None:
        """Write the topology as `tarn lb knox config` renders it, with Shiro's users in it."""
        root = ET.fromstring(files(shape, name, acl)[f"topologies/{name}.xml"])
        if authenticates:
            root.find("gateway").insert(0, shiro(dict((ALICE, BOB))))
        self.put(name, ET.tostring(root))

    def put(self, name: str, topology: bytes) -> None:
        """Put a topology's file there, and wait until Knox knows it."""
        part = self.conf / f"{name}.part"
        part.write_bytes(topology)
        part.rename(self.conf / "topologies" / f"{name}.xml")
        asked = self.url(name, "triton/v2")
        wait_for(lambda: self.client.get(asked).status_code != 404, DEPLOY_S, f"topology {name}")

    def get(self, topology: str, path: str, user: tuple[str, str] | None = ALICE) -> httpx.Response:
        return self.client.get(self.url(topology, f"triton/{path}"), auth=user)

    def _healthy(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.client.get(self.url("health", "v1/ping")).status_code == 200
        return False

    def _lay_out(self) -> None:
        data = self.home / "data"
        for one in ("topologies", "shared-providers", "descriptors", "META-INF/services"):
            (self.conf / one).mkdir(parents=True)
        for one in ("data/security/keystores", "data/deployments", "data/applications", "logs"):
            (self.home / one).mkdir(parents=True)
        (self.home / "ext").mkdir()
        knox_jars.build(self.home / "ext" / "tarn-knox.jar")
        made = files(Balancers(("http://lb:1",)))
        for path, text in made.items():
            if path.startswith("services/"):
                (data / path).parent.mkdir(parents=True, exist_ok=True)
                (data / path).write_text(text)
        self._take_health(data)
        site = {"gateway.port": self.port, "gateway.host": "127.0.0.1", "gateway.path": "gateway"}
        configuration = ET.Element("configuration")
        for name, value in site.items():
            row = ET.SubElement(configuration, "property")
            ET.SubElement(row, "name").text = name
            ET.SubElement(row, "value").text = str(value)
        (self.conf / "gateway-site.xml").write_bytes(ET.tostring(configuration))
        # Only in Knox's own distribution, which is not on Maven Central.
        services = self.conf / "META-INF/services/org.apache.knox.gateway.services.GatewayServices"
        services.write_text("org.apache.knox.gateway.services.DefaultGatewayServices\n")
        (self.conf / "gateway-log4j2.xml").write_text(
            f"""<Configuration><Appenders><File name="F" fileName="{self.home}/logs/gateway.log">
            <PatternLayout pattern="%d{{ISO8601}} %-5p %c{{2}} - %m%n%ex{{12}}"/></File></Appenders>
            <Loggers><Logger name="audit" level="OFF"/><Logger name="tarn" level="INFO"/>
            <Root level="WARN"><AppenderRef ref="F"/></Root></Loggers></Configuration>"""
        )
        self._certificate(data / "security/keystores/gateway.jks")

    def _take_health(self, data: Path) -> None:
        stock = knox_jars.library() / "gateway-service-definitions-2.0.0.jar"
        with zipfile.ZipFile(stock) as jar:
            jar.extractall(data, [one for one in jar.namelist() if "/health/" in one])
        (self.conf / "topologies/health.xml").write_text(
            "<topology><name>health</name><gateway><provider><role>authentication</role>"
            "<name>Anonymous</name><enabled>true</enabled></provider></gateway>"
            "<service><role>HEALTH</role></service></topology>"
        )

    @staticmethod
    def _certificate(store: Path) -> None:
        """Make what Knox 2.0.0 cannot make for itself on Java 17."""
        subprocess.run(
            [
                *("keytool", "-genkeypair", "-alias", "gateway-identity", "-keyalg", "RSA"),
                *("-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-storetype", "JKS"),
                *("-keystore", str(store), "-storepass", MASTER, "-keypass", MASTER),
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def _command(self, *arguments: str) -> list[str]:
        # Two bindings of slf4j: without logback, Knox's own log4j is the one.
        jars = [str(j) for j in knox_jars.library().glob("*.jar") if "logback" not in j.name]
        classes = ":".join([str(self.conf), f"{self.home}/ext/*", *jars])
        opened = [f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in OPENED]
        return [
            *("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened),
            *(f"-DGATEWAY_HOME={self.home}", f"-Dorg.apache.knox.gateway.data.dir={self.home}/data"),
            f"-Dlog4j2.configurationFile={self.conf}/gateway-log4j2.xml",
            *("-cp", classes, *arguments),
        ]

    def _java(self, *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments), check=False, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


def shiro(users: dict[str, str]) -> ET.Element:
    """Return a provider of basic authentication with users of its own: for tests only."""
    provider = ET.Element("provider")
    rows = {"sessionTimeout": "30", **{f"users.{name}": word for name, word in users.items()}}
    for tag, text in (("role", "authentication"), ("name", "ShiroProvider"), ("enabled", "true")):
        ET.SubElement(provider, tag).text = text
    for name, value in {**rows, "urls./**": "authcBasic"}.items():
        row = ET.SubElement(provider, "param")
        ET.SubElement(row, "name").text = name
        ET.SubElement(row, "value").text = value
    return provider


class Perimeter:
    """Knox, HAProxy and ZooKeeper, started side by side."""

    INSTANCES = "/services/triton/instances"

    def __init__(self, directory: Path) -> None:
        with contextlib.ExitStack() as started:
            self.zookeeper = ZooKeeper(directory)
            started.callback(self.zookeeper.end)
            self.haproxy = HAProxy(directory)
            started.callback(self.haproxy.end)
            self.knox = Knox(directory)
            started.callback(self.knox.end)
            self.end = started.pop_all().close


@pytest.fixture(scope="session")
def perimeter(tmp_path_factory) -> Iterator[Perimeter]:
    one = Perimeter(tmp_path_factory.mktemp("perimeter"))
    yield one
    one.end()
