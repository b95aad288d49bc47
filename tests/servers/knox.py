"""A real Knox with a HAProxy and a ZooKeeper behind it; one for a session, on loopback only."""

import contextlib
import json
import subprocess
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from servers import knox_jar, zookeeper
from servers.guarded_haproxy import GATE, GuardedHaproxy, guarded
from servers.haproxy import HaproxyServer
from servers.process import ServerProcess, free_port, free_ports
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.wait import until
from tarn_plugins.discovery.knox.rendering import Balancers, Ensemble, Shape, files

MASTER = "knox-secret"
ALICE, BOB = ("alice", "alice-pw"), ("bob", "bob-pw")
OPENED = (
    *("java.lang", "java.lang.reflect", "java.net", "java.util", "sun.security.x509"),
    "sun.security.util",
)
"""Packages of java.base into which Knox 2.0.0 reaches."""


class KnoxBackends(HaproxyServer):
    """A HAProxy with backends without servers, and a frontend for each."""

    BACKENDS = ("scaled", "real", "empty")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ports = dict(zip(self.BACKENDS, free_ports(len(self.BACKENDS)), strict=True))
        fronts = "".join(
            f"frontend of-{name}\n bind 127.0.0.1:{port}\n default_backend {name}\n"
            f"backend {name}\n balance roundrobin\n"
            for name, port in self.ports.items()
        )
        self.file.write_text(
            f"global\n stats socket {self.socket} mode 600 level admin\n"
            "defaults\n mode http\n timeout connect 2s\n timeout client 60s\n timeout server 60s\n"
            " option redispatch\n retries 3\n"
            " http-error status 503 content-type application/json string '{}' hdr Retry-After 2\n"
            f"{fronts}"
        )

    def url(self, backend: str) -> str:
        return f"http://127.0.0.1:{self.ports[backend]}"

    def remove(self, server: str) -> None:
        """Drain ``backend/name``, wait until nothing is open, delete."""
        backend, _, name = server.partition("/")
        self.command(f"set server {server} state drain")
        until(lambda: self.statistics(backend)[name]["scur"] == "0", 30, f"{server} quiet")
        self.command(f"set server {server} state maint")
        until(lambda: "deleted" in self.command(f"del server {server}"), 10, f"{server} deleted")


class KnoxServer(ServerProcess):
    """Knox with our service and jar. It is started once: what it knew is gone with it.

    Args:
        directory: For all its files and its log.
        topologies: Name to XML.
        others: Path in ``conf`` to text.
    """

    within_s = 120.0

    def __init__(
        self, directory: Path, topologies: Mapping[str, ET.Element], others: Mapping[str, str]
    ) -> None:
        self.port, self.home = free_port(), directory / "knox"
        self.conf = self.home / "conf"
        self._lay_out()
        for name, root in topologies.items():
            (self.conf / "topologies" / f"{name}.xml").write_bytes(ET.tostring(root))
        for path, text in others.items():
            (self.conf / path).write_text(text)
        self._topologies = tuple(topologies)
        self.started_in_s = 0.0
        self._java("org.apache.knox.gateway.util.KnoxCLI", "create-master", "--master", MASTER)
        main = "org.apache.knox.gateway.GatewayServer"
        super().__init__(self._command(main), directory / "knox.log")
        # Shiro's cookie would let the next user in as the last one.
        forgetful = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        limits = httpx.Limits(max_connections=64)
        self.client = httpx.Client(
            verify=False, trust_env=False, timeout=30, cookies=forgetful, limits=limits
        )

    def start(self) -> None:
        """Start it; back when it has every topology."""
        began_s = time.monotonic()
        super().start()
        self.started_in_s = time.monotonic() - began_s

    def stop(self) -> None:
        self.client.close()
        super().stop()

    def answers(self) -> bool:
        return all(self._knows(name) for name in self._topologies)

    def url(self, topology: str, path: str) -> str:
        return f"https://127.0.0.1:{self.port}/gateway/{topology}/{path}"

    def get(self, topology: str, path: str, user: tuple[str, str] | None = ALICE) -> httpx.Response:
        return self.client.get(self.url(topology, f"triton/{path}"), auth=user)

    def _knows(self, topology: str) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.client.get(self.url(topology, "triton/v2")).status_code != 404
        return False

    def _lay_out(self) -> None:
        data = self.home / "data"
        for one in ("topologies", "shared-providers", "descriptors", "META-INF/services"):
            (self.conf / one).mkdir(parents=True)
        for one in ("data/security/keystores", "data/deployments", "data/applications", "logs"):
            (self.home / one).mkdir(parents=True)
        (self.home / "ext").mkdir()
        knox_jar.build(self.home / "ext" / "tarn-knox.jar")
        made = files(Balancers(("http://lb:1",)), gate=GATE)
        for path, text in made.items():
            if path.startswith("services/"):
                (data / path).parent.mkdir(parents=True, exist_ok=True)
                (data / path).write_text(text)
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
        jars = [str(j) for j in knox_jar.library().glob("*.jar") if "logback" not in j.name]
        classes = ":".join([str(self.conf), f"{self.home}/ext/*", *jars])
        opened = [f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in OPENED]
        return [
            *("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened),
            *(
                f"-DGATEWAY_HOME={self.home}",
                f"-Dorg.apache.knox.gateway.data.dir={self.home}/data",
            ),
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


def rendered(
    shape: Shape, name: str, users: Mapping[str, str] | None = None, acl: str = "alice;*;*"
) -> ET.Element:
    """Return a topology as `tarn lb knox config` writes it; with Shiro's users in it, if any."""
    root = ET.fromstring(files(shape, name, acl)[f"topologies/{name}.xml"])
    if users:
        root.find("gateway").insert(0, shiro(users))
    return root


def described(shape: Shape, name: str, users: Mapping[str, str]) -> dict[str, str]:
    """Return a descriptor and its providers as they are rendered, with Shiro's users in them."""
    found = files(shape, name, "alice;*;*")
    made = {path: json.loads(text) for path, text in found.items() if path.endswith(".json")}
    rows = {row.findtext("name"): row.findtext("value") for row in shiro(users).iter("param")}
    provider = {"role": "authentication", "name": "ShiroProvider", "enabled": "true"}
    made[f"shared-providers/{name}-providers.json"]["providers"].insert(
        0, {**provider, "params": rows}
    )
    return {path: json.dumps(plain) for path, plain in made.items()}


class Perimeter:
    """Knox, HAProxy and ZooKeeper, and topologies that everybody may ask.

    ========== =====================================================================
    scaled     as rendered for a HAProxy, whose servers a test brings
    real       the same, for a real Triton
    empty      the same, without any server
    zk0..zk6   as rendered for ZooKeeper; a namespace for each, so for each a test
    nobody     as rendered, with no authentication provider
    lines      for ZooKeeper, with the value on several lines, as the Java TARN's guide has it
    away       for a ZooKeeper that is not there; with the URL of `still`
    plain      two URLs, and no HaProvider
    lazy       two URLs, and a HaProvider without enableLoadBalancing
    recorder   the URL of `recorder`
    described  two URLs, from a descriptor and its providers
    guarded    a HAProxy that asks whether requests may pass: `master`, `triton` and `door`
    guarded2   the same under two URLs
    manned     one that leads to a real master, too, which a test brings: `manned`; bob may come
    ========== =====================================================================
    """

    NAMESPACES = tuple(f"zk{number}" for number in range(7))

    def __init__(self, directory: Path) -> None:
        with contextlib.ExitStack() as started:
            self.zookeeper = started.enter_context(zookeeper.standalone(directory / "zookeeper"))
            self.haproxy = started.enter_context(KnoxBackends(directory))
            self.still = [started.enter_context(FakeTriton()) for _ in range(2)]
            self.recorder = Recorder()
            started.callback(self.recorder.end)
            still = Balancers(tuple(f"http://{one.endpoint.http}" for one in self.still))
            directory.joinpath("guarded").mkdir()
            three = started.enter_context(guarded(directory / "guarded", grace_s=0))
            self.master, self.triton, self.door = three
            directory.joinpath("manned").mkdir()
            more = {"api": True, "grace_s": 0}
            manned = GuardedHaproxy(directory / "manned", None, self.triton.port, more)
            self.manned = started.enter_context(manned)
            others = described(still, "described", dict((ALICE, BOB)))
            self.knox = started.enter_context(KnoxServer(directory, self._topologies(), others))
            self.stop = started.pop_all().close

    def _topologies(self) -> dict[str, ET.Element]:
        users = dict((ALICE, BOB))
        still = tuple(f"http://{one.endpoint.http}" for one in self.still)
        made = {
            name: rendered(Ensemble(self.zookeeper.address, f"/{name}/instances"), name, users)
            for name in self.NAMESPACES
        }
        for name in KnoxBackends.BACKENDS:
            made[name] = rendered(Balancers((self.haproxy.url(name),)), name, users)
        door = (f"http://127.0.0.1:{self.door.http_port}",)
        made["guarded"] = rendered(Balancers(door), "guarded", users)
        again = (*door, f"http://localhost:{self.door.http_port}")
        made["guarded2"] = rendered(Balancers(again), "guarded2", users)
        door = (f"http://127.0.0.1:{self.manned.http_port}",)
        made["manned"] = rendered(Balancers(door), "manned", users, "*;*;*")
        made["nobody"] = rendered(Balancers(still), "nobody")
        made["recorder"] = rendered(Balancers((self.recorder.url,)), "recorder", users)
        made["lines"] = rendered(Ensemble(self.zookeeper.address, "/zk0/instances"), "lines", users)
        for value in made["lines"].iter("value"):
            value.text = (
                value.text.replace(";", ";\n        ") if "zoo" in value.text else value.text
            )
        nowhere = Ensemble(f"127.0.0.1:{free_port()}", "/zk0/instances")
        made["away"] = rendered(nowhere, "away", users)
        ET.SubElement(made["away"].find("service"), "url").text = still[0]
        made["plain"] = rendered(Balancers(still), "plain", users)
        gateway = made["plain"].find("gateway")
        gateway.remove(next(one for one in gateway if one.findtext("role") == "ha"))
        made["lazy"] = rendered(Balancers(still), "lazy", users)
        for value in made["lazy"].iter("value"):
            value.text = value.text.replace("enableLoadBalancing=true;", "")
        return made


class Recorder:
    """A server that keeps the heads of what it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Mapping[str, str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                seen.append((self.path, dict(self.headers)))
                self._read()
                self.send_response(200)
                if "stream" in self.path:
                    self.send_header("Content-Type", "text/event-stream")
                    self.end_headers()
                    for number in range(4):
                        self.wfile.write(f"data: {number}\n\n".encode())
                        self.wfile.flush()
                        threading.Event().wait(0.2)
                else:
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def _read(self) -> None:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    self.rfile.read(int(self.headers.get("Content-Length", 0)))
                    return
                while size := int(self.rfile.readline(), 16):
                    self.rfile.read(size + 2)
                self.rfile.readline()

        return Handler


@pytest.fixture(scope="session")
def perimeter(tmp_path_factory) -> Iterator[Perimeter]:
    one = Perimeter(tmp_path_factory.mktemp("perimeter"))
    yield one
    one.stop()
