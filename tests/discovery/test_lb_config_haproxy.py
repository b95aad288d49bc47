"""The rendered haproxy.cfg, as the real HAProxy takes it."""

import http.client
import json
import shutil
import socket
import ssl
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.testing.fake_triton import FakeTriton
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.keyed_routing import DOOR_LUA, KeyedRouting, door_text

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.skipif(shutil.which("haproxy") is None, reason="no haproxy on PATH"),
]
LIVE = "/inference.GRPCInferenceService/ServerLive"
WORDS = 40
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


def _ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def _settings(place: Path, **more: Any) -> HaproxyCfgSettings:
    http_port, grpc_port, stats_port = _ports(3)
    plain = {
        "address": "127.0.0.1",
        "http_port": http_port,
        "grpc_port": grpc_port,
        "stats_port": stats_port,
        "socket": str(place / "ha.sock"),
        "user": "",
        "group": "",
    }
    return HaproxyCfgSettings(**{**plain, **more})


class Running:
    """A HAProxy with a rendered file, and what a client or an operator does with it."""

    def __init__(self, place: Path, rendered: HaproxyCfgSettings) -> None:
        self.settings = rendered
        file = place / "haproxy.cfg"
        file.write_text(render(rendered))
        with (place / "haproxy.log").open("w") as log:
            self.process = subprocess.Popen(["haproxy", "-db", "-f", str(file)], stdout=log)
        until(lambda: Path(rendered.socket).is_socket() and self._listens(), what="haproxy")

    def _listens(self) -> bool:
        assert self.process.poll() is None
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.settings.http_port)) == 0

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)

    def tell(self, *commands: str) -> str:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(self.settings.socket)
            one.sendall(";".join(commands).encode() + b"\n")
            with one.makefile() as answers:
                return answers.read().strip()

    def ask(
        self, path: str = "/v2/health/ready", tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        port = self.settings.http_port
        if tls is None:
            door = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        else:
            door = http.client.HTTPSConnection("localhost", port, timeout=20, context=tls)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        door.request("GET", path, headers=named)
        answer = door.getresponse()
        body = answer.read()
        door.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, body

    def add(self, backend: str, name: str, port: int, how: str = "") -> None:
        server = f"{backend}/{name}"
        how = f"check inter 200ms rise 1 fall 3 {how}"
        assert "New server" in self.tell(f"add server {server} 127.0.0.1:{port} {how}")
        assert self.tell(f"enable health {server}", f"set server {server} state ready") == ""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ha", dir="/tmp") as short:  # for a Unix socket
        yield Path(short)


@pytest.fixture
def running(place: Path) -> Iterator[Running]:
    one = Running(place, _settings(place))
    yield one
    one.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tls")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    make += ["-keyout", "key", "-out", "chain", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(make, cwd=place, check=True, capture_output=True, timeout=60)
    (place / "lb.pem").write_text((place / "chain").read_text() + (place / "key").read_text())
    return place / "lb.pem"


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", fullmatch=True)
PATHS = st.from_regex(r"/[A-Za-z0-9_./@+=-]{1,79}", fullmatch=True)


@given(
    plain=st.fixed_dictionaries(
        {
            "cluster": st.from_regex(r"[a-z0-9-]{0,40}", fullmatch=True),
            "address": st.just("*") | st.ip_addresses(v=4).map(str),
            "grpc_port": st.sampled_from([0, 8081]),
            "stats_port": st.sampled_from([0, 8404]),
            "socket": PATHS,
            "backend": NAMES.map("a{}".format).map(lambda name: name[:64]),
            "grpc_backend": NAMES.map("b{}".format).map(lambda name: name[:64]),
            "slots": st.integers(0, 64),
            "slot_prefix": NAMES,
            "longest_s": st.integers(1, 86_400),
            "log": st.sampled_from(["stdout", "syslog"]),
            "user": st.sampled_from(["", "root"]),
            "group": st.sampled_from(["", "root"]),
            "answers": st.booleans(),
        }
    ),
    keyed=st.none()
    | st.fixed_dictionaries(
        {
            "hold_s": st.sampled_from([0, 60]),
            "imbalance": st.sampled_from([0, 125]),
            "peers_port": st.sampled_from([0, 8406]),
        }
    ),
    secure=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_haproxy_takes_every_variant_without_a_warning(
    plain: dict[str, Any],
    keyed: dict[str, int] | None,
    secure: bool,
    certificate: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What `HaproxyCfgSettings` lets through, `haproxy -c` finds valid."""
    folder = tmp_path_factory.getbasetemp()
    (folder / DOOR_LUA).write_text(door_text())
    routing = None if keyed is None else KeyedRouting(door_lua=str(folder / DOOR_LUA), **keyed)
    rendered = HaproxyCfgSettings(
        **plain, keyed=routing, certificate=str(certificate) if secure else ""
    )
    file = folder / "every-variant.cfg"
    file.write_text(render(rendered))
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), render(rendered)


def test_from_zero_clients_are_told_to_come_again(running: Running) -> None:
    """HTTP: 503 with Retry-After and an error in Triton's form; gRPC: UNAVAILABLE."""
    status, headers, body = running.ask()
    assert (status, headers["retry-after"]) == (503, "2")
    assert json.loads(body) == {"error": "no Triton instance is free"}
    with grpc.insecure_channel(f"127.0.0.1:{running.settings.grpc_port}") as channel:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(LIVE)(b"", timeout=10)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_server_added_through_the_socket_answers(running: Running) -> None:
    """A dynamic one, that the backend's own health check finds; when it is gone, 503 again."""
    with FakeTriton() as triton:
        running.add("triton_backend", "a", triton.endpoint.http_port)
        until(lambda: running.ask()[0] == 200, what="a first answer")
        looks = triton.looks
        triton.crash()
    assert looks >= 0
    until(lambda: running.ask()[0] == 503, what="its end")


def test_a_slot_is_filled_for_http_and_for_grpc(place: Path) -> None:
    """Placeholders take address, port and the port of their check; the others stay in maint."""
    running = Running(place, _settings(place, slots=3))
    try:
        with FakeTriton() as triton, _grpc_server() as port:
            ready = triton.endpoint.http_port
            running.tell(f"set server triton_backend/triton-1 addr 127.0.0.1 port {ready}")
            grpc_slot = "set server triton_grpc_backend/triton-2"
            running.tell(f"{grpc_slot} addr 127.0.0.1 port {port}")
            # who looks sees that the check has a port of its own
            states = running.tell("show servers state triton_grpc_backend").splitlines()[2:]
            assert [state.split()[21] for state in states] == ["1", "1", "1"]
            assert running.tell(f"{grpc_slot} check-port {ready}") == ""
            running.tell(
                "set server triton_backend/triton-1 state ready", f"{grpc_slot} state ready"
            )
            assert running.ask()[0] == 200
            assert _call(running) == b"alive"
            lines = running.tell("show stat").splitlines()
            maint = [line for line in lines if ",triton-" in line and ",MAINT," in line]
            assert len(maint) == 4
            until(lambda: running.tell("show stat").count("L7OK") == 2, what="two good checks")
    finally:
        running.close()


def test_a_refused_connection_costs_a_client_nothing(running: Running) -> None:
    """The request goes to another instance at once, without the second of a usual retry."""
    (dead,) = _ports(1)
    with FakeTriton() as triton:
        running.add("triton_backend", "alive", triton.endpoint.http_port)
        running.add("triton_backend", "dead", dead, "inter 60s")
        answers = [running.ask()[0] for _ in range(20)]
    assert answers == [200] * 20
    rows = running.tell("show stat").splitlines()
    columns = rows[0].lstrip("# ").split(",")
    stats = {row.split(",")[1]: dict(zip(columns, row.split(","), strict=True)) for row in rows[1:]}
    assert float(stats["alive"]["ttime"]) < 500


def test_an_inference_that_was_sent_is_never_sent_again(running: Running) -> None:
    """Its instance dies with it: 502 in Triton's form, and no other instance gets it."""
    with _dying_server() as one, _dying_server() as two:
        for name, server in (("a", one), ("b", two)):
            running.tell(f"add server triton_backend/{name} 127.0.0.1:{server.port}")
            running.tell(f"set server triton_backend/{name} state ready")
        status, _, body = running.ask()
        assert status == 502
        assert "error" in json.loads(body)
        assert one.requests + two.requests == 1


def test_what_only_tarn_says_is_dropped_at_both_doors(running: Running) -> None:
    """In any spelling; other headers pass."""
    with _echo_server() as port, _grpc_server() as grpc_port:
        running.tell(f"add server triton_backend/e 127.0.0.1:{port}")
        running.tell("set server triton_backend/e state ready")
        body = running.ask("/", X_TARN_User="eve", x_tarn_gate="x", Request_Id="7")[2]
        heard = {name.lower() for name in json.loads(body)}
        assert "request-id" in heard
        assert not [name for name in heard if name.startswith("x-tarn")]

        running.tell(f"add server triton_grpc_backend/g 127.0.0.1:{grpc_port} proto h2")
        running.tell("set server triton_grpc_backend/g state ready")
        seen = _call(running, [("x-tarn-user", "eve"), ("request-id", "7")], b"metadata")
        names = json.loads(seen)
        assert "request-id" in names
        assert "x-tarn-user" not in names


def test_a_stream_outlives_the_drain_of_its_server(running: Running) -> None:
    """It stays where it began; what is new goes elsewhere; deleted only when it ended."""
    go_on = threading.Event()
    with FakeTriton() as triton, _grpc_server(go_on) as one, _grpc_server(go_on) as two:
        how = f"proto h2 check-proto h1 port {triton.endpoint.http_port}"
        running.add("triton_grpc_backend", "a", one, how)
        with grpc.insecure_channel(f"127.0.0.1:{running.settings.grpc_port}") as channel:
            stream = channel.unary_stream(STREAM)(b"", timeout=30)
            assert next(stream) == str(one).encode()
            running.add("triton_grpc_backend", "b", two, how)
            running.tell("set server triton_grpc_backend/a state drain")
            assert {_call(running, body=b"port") for _ in range(8)} == {str(two).encode()}
            running.tell("set server triton_grpc_backend/a state maint")
            refused = running.tell("del server triton_grpc_backend/a")
            assert "still has connections" in refused
            go_on.set()
            assert list(stream) == [str(one).encode()]


def test_words_of_a_streamed_answer_are_passed_on_at_once(running: Running) -> None:
    """Over HTTP and over gRPC: held back by HAProxy they would come 200 ms late, in bunches."""
    with _echo_server() as port, _grpc_server() as grpc_port:
        running.tell(f"add server triton_backend/e 127.0.0.1:{port}")
        running.tell("set server triton_backend/e state ready")
        with socket.create_connection(("127.0.0.1", running.settings.http_port), 10) as door:
            door.sendall(b"GET /words HTTP/1.1\r\nHost: lb\r\nConnection: close\r\n\r\n")
            with door.makefile("rb") as lines:
                over_http = [_lag(line) for line in lines if line.startswith(b"word")]
        running.tell(f"add server triton_grpc_backend/g 127.0.0.1:{grpc_port} proto h2")
        running.tell("set server triton_grpc_backend/g state ready")
        with grpc.insecure_channel(f"127.0.0.1:{running.settings.grpc_port}") as channel:
            over_grpc = [_lag(word) for word in channel.unary_stream(STREAM)(b"words", timeout=10)]
    assert (len(over_http), len(over_grpc)) == (WORDS, WORDS)
    assert statistics.median(over_http) < 0.15
    assert statistics.median(over_grpc) < 0.15


def _lag(word: bytes) -> float:
    return time.time() - float(word.split()[1])


def _words() -> Iterator[bytes]:
    pause = threading.Event()
    for _ in range(WORDS):
        yield f"word {time.time()}\n".encode()
        pause.wait(0.01)


def test_both_doors_speak_tls_with_a_certificate(place: Path, certificate: Path) -> None:
    """And nothing older than TLS 1.2."""
    running = Running(place, _settings(place, certificate=str(certificate)))
    try:
        trusted = ssl.create_default_context(cafile=str(certificate))
        assert running.ask(tls=trusted)[0] == 503
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        target = f"localhost:{running.settings.grpc_port}"
        with _grpc_server() as port, grpc.secure_channel(target, credentials) as channel:
            running.tell(f"add server triton_grpc_backend/g 127.0.0.1:{port} proto h2")
            running.tell("set server triton_grpc_backend/g state ready")
            assert channel.unary_unary(LIVE)(b"", timeout=10) == b"alive"
    finally:
        running.close()


def test_the_statistics_can_be_read_here_and_not_changed(running: Running) -> None:
    """At 127.0.0.1; a form for administrators is not there."""
    door = ("127.0.0.1", running.settings.stats_port)
    page = http.client.HTTPConnection(*door, timeout=10)
    page.request("GET", "/")
    assert b"triton_grpc_backend" in page.getresponse().read()
    page.request("POST", "/", "s=a&action=drain&b=%233", {"Content-Length": "24"})
    answer = page.getresponse()
    assert "DENY" in answer.headers["Location"]
    page.close()


def _call(
    running: Running, metadata: list[tuple[str, str]] | None = None, body: bytes = b""
) -> bytes:
    with grpc.insecure_channel(f"127.0.0.1:{running.settings.grpc_port}") as channel:
        answer: bytes = channel.unary_unary(LIVE)(body, timeout=10, metadata=metadata)
    return answer


class _grpc_server:  # noqa: N801 (used as a function)
    """A gRPC server of bytes: says "alive", its port or the metadata it got; streams its port."""

    def __init__(self, go_on: threading.Event | None = None) -> None:
        self._go_on = go_on
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers = {
            "ServerLive": grpc.unary_unary_rpc_method_handler(self._live),
            "ModelStreamInfer": grpc.unary_stream_rpc_method_handler(self._stream),
        }
        service = "inference.GRPCInferenceService"
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, handlers)]
        )
        self._port = self._server.add_insecure_port("127.0.0.1:0")

    def _live(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        if body == b"metadata":
            return json.dumps([key for key, _ in context.invocation_metadata()]).encode()
        return str(self._port).encode() if body == b"port" else b"alive"

    def _stream(self, body: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        if body == b"words":
            yield from _words()
            return
        yield str(self._port).encode()
        assert self._go_on is not None
        self._go_on.wait(20)
        yield str(self._port).encode()

    def __enter__(self) -> int:
        self._server.start()
        return self._port

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait(10)


class _dying_server:  # noqa: N801 (used as a function)
    """Takes requests and closes their connections without an answer."""

    def __init__(self) -> None:
        self.requests = 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            one, _ = self._door.accept()
            with one:
                if not (said := one.recv(65536)):
                    return
                self.requests += said.startswith(b"GET")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join(10)
        self._door.close()


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True
        if self.path == "/words":
            self._speak()
            return
        body = json.dumps(dict(self.headers.items())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _speak(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for word in _words():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(word), word))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


class _echo_server:  # noqa: N801 (used as a function)
    """An HTTP server that answers with the headers that it got."""

    def __enter__(self) -> int:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self._server.server_address[1]

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()
