"""The doors for certificates of clients: streams over HTTP, and gRPC with a right to all models."""

import http.client
import itertools
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import attrs
import grpc
import pytest
from servers.guarded_haproxy import TOKEN, AuthorizingMaster, GuardedHaproxy, RecordingTriton
from servers.haproxy import HAPROXY
from servers.process import free_port

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
SERVICE = "inference.GRPCInferenceService"
TWICE = b"\x0a\x04echo\x0a\x04slow"
"""A message whose first field, the model's name, stands twice."""


class Papers:
    """An authority, and what it signed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ca = root / "ca.pem"
        self._make("ca", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE")
        self.sign("lb", "/CN=localhost")
        self.sign("alice", "/O=x/CN=alice")
        self.sign("both", "/CN=alice/CN=root")
        self.sign("odd", "/CN=al ice")
        self.sign("nameless", "/O=alice")
        self._make("stranger", "/CN=alice")

    def _make(self, name: str, subject: str, *more: str) -> None:
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        words += ["-nodes", "-days", "2", "-subj", subject, "-keyout", f"{name}.key"]
        words += ["-out", f"{name}.pem", *more]
        subprocess.run(words, cwd=self.root, check=True, capture_output=True, timeout=30)

    def sign(self, name: str, subject: str) -> None:
        more = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
        self._make(name, subject, *more, "-addext", "subjectAltName=DNS:localhost")
        both = self.root / f"{name}-both.pem"
        both.write_bytes(self.pem(name) + self.key(name))

    def pem(self, name: str) -> bytes:
        return (self.root / f"{name}.pem").read_bytes()

    def key(self, name: str) -> bytes:
        return (self.root / f"{name}.key").read_bytes()

    def context(self, name: str) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(self.ca))
        if name:
            made.load_cert_chain(self.root / f"{name}.pem", self.root / f"{name}.key")
        return made


@attrs.frozen
class Stand:
    """All of it."""

    papers: Papers
    master: AuthorizingMaster
    triton: RecordingTriton
    door: GuardedHaproxy
    called: list[tuple[str, dict[str, str]]]
    clients: list[http.client.HTTPSConnection] = attrs.field(factory=list)

    def get(self, path: str, name: str, method: str = "GET") -> http.client.HTTPResponse:
        port = self.door.certificate_port
        client = http.client.HTTPSConnection(
            "localhost", port, timeout=10, context=self.papers.context(name)
        )
        self.clients.append(client)
        client.request(method, path, headers={"X-TARN-User": "root", "Connection": "close"})
        return client.getresponse()

    def call(self, method: str, name: str, service: str = SERVICE) -> str:
        """Call by gRPC; return the status's name."""
        own = (self.papers.key(name), self.papers.pem(name)) if name else (None, None)
        proof = grpc.ssl_channel_credentials(self.papers.pem("ca"), *own)
        target = f"localhost:{self.door.settings.grpc_port}"
        with grpc.secure_channel(target, proof) as channel:
            try:
                channel.unary_unary(f"/{service}/{method}")(
                    TWICE, timeout=10, metadata=[("x-tarn-user", "root")]
                )
            except grpc.RpcError as error:
                return str(error.code().name)
        return "OK"


class _Any(grpc.GenericRpcHandler):
    def __init__(self, called: list[tuple[str, dict[str, str]]]) -> None:
        self._called = called

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        said = dict(details.invocation_metadata)
        self._called.append((details.method, said))
        return grpc.unary_unary_rpc_method_handler(lambda body, _context: body)


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    root = tmp_path_factory.mktemp("papers")
    papers = Papers(root)
    called: list[tuple[str, dict[str, str]]] = []
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[_Any(called)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    more = {"client_ca": str(papers.ca), "grpc_all_models": True}
    whole = {"certificate": str(root / "lb-both.pem"), "grpc_port": free_port()}
    with AuthorizingMaster() as master, RecordingTriton() as triton:
        with GuardedHaproxy(root, master, triton.port, more, **whole) as door:
            door.command(f"add server triton_grpc_backend/g 127.0.0.1:{port} proto h2")
            door.command("set server triton_grpc_backend/g state ready")
            yield Stand(papers, master, triton, door, called)
        server.stop(0).wait(10)


@pytest.fixture
def fresh(stand: Stand) -> Iterator[Stand]:
    stand.master.asked.clear()
    stand.triton.seen.clear()
    stand.called.clear()
    yield stand
    stand.master.rights = lambda _asked: True
    while stand.clients:
        stand.clients.pop().close()


def test_the_common_name_is_the_user(fresh: Stand) -> None:
    """And nothing else is: not a header, not a parameter."""
    assert fresh.get("/v2/models/named?user.name=root", "alice").status == 200
    assert fresh.master.asked == [("alice", "metadata", "named")]
    assert fresh.triton.last("x-tarn-user") == ["alice"]
    assert fresh.triton.paths == ["/v2/models/named"]


@pytest.mark.parametrize("name", ["both", "odd", "nameless"])
def test_a_certificate_without_one_clear_name_is_nobodys(fresh: Stand, name: str) -> None:
    """Signed as they are: it is not guessed who is meant."""
    assert fresh.get("/v2/models/odd", name).status == 403
    assert fresh.call("ModelInfer", name) == "PERMISSION_DENIED"
    assert (fresh.master.asked, fresh.triton.seen, fresh.called) == ([], [], [])


@pytest.mark.parametrize("name", ["", "stranger"])
def test_without_a_signed_certificate_there_is_no_door(fresh: Stand, name: str) -> None:
    """None, or one that signed itself: the handshake fails."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        fresh.get("/v2/models/stranger", name)
    assert fresh.call("ServerLive", name) == "UNAVAILABLE"
    assert (fresh.master.asked, fresh.triton.seen, fresh.called) == ([], [], [])


def test_a_stream_comes_event_by_event(fresh: Stand) -> None:
    """What Knox holds back until the end is passed on as it comes."""
    answer = fresh.get("/v2/models/words/generate_stream", "alice", "POST")
    came = [time.monotonic() for line in answer if line.startswith(b"data")]
    assert len(came) == 4
    assert all(after - before > 0.05 for before, after in itertools.pairwise(came))


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_over_http_2_a_path_is_the_same(fresh: Stand) -> None:
    """The instance, which speaks HTTP/1.1, gets the path alone."""
    port, root = fresh.door.certificate_port, fresh.papers.root
    done = subprocess.run(
        [
            *("curl", "-s", "--http2", "--cacert", "ca.pem", "--noproxy", "*"),
            *("--cert", "alice.pem", "--key", "alice.key", "-w", " %{http_version} %{http_code}"),
            f"https://localhost:{port}/v2/models/second?x=1",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == "ok 2 200", done
    assert fresh.triton.paths == ["/v2/models/second"]


def test_a_call_of_grpc_needs_a_right_to_all_models(fresh: Stand) -> None:
    """Any model that its message names, and however often: the question is about '*'."""
    fresh.master.rights = lambda asked: asked[2] == "*"
    assert fresh.call("ModelInfer", "alice") == "OK"
    assert fresh.master.asked == [("alice", "infer", "*")]
    (method, said) = fresh.called[0]
    assert method == f"/{SERVICE}/ModelInfer"
    assert said["x-tarn-user"] == "alice"


def test_a_right_to_one_model_is_none_at_the_door_for_grpc(fresh: Stand) -> None:
    """Of the right that is asked about there is no other sort."""
    fresh.master.rights = lambda asked: asked[2] != "*"
    assert fresh.call("ModelMetadata", "alice") == "PERMISSION_DENIED"
    assert ("alice", "metadata", "*") in fresh.master.asked
    assert not [method for method, _ in fresh.called if method.endswith("ModelMetadata")]


@pytest.mark.parametrize(
    ("method", "service"),
    [
        ("RepositoryModelLoad", SERVICE),
        ("RepositoryModelUnload", SERVICE),
        ("SystemSharedMemoryRegister", SERVICE),
        ("TraceSetting", SERVICE),
        ("LogSettings", SERVICE),
        ("ModelInfer", "other.Service"),
        ("Watch", "grpc.health.v1.Health"),
        ("ServerReflectionInfo", "grpc.reflection.v1alpha.ServerReflection"),
    ],
)
def test_what_rules_a_triton_is_nobodys(fresh: Stand, method: str, service: str) -> None:
    """Denied without a question, whoever asks."""
    assert fresh.call(method, "alice", service) == "PERMISSION_DENIED"
    assert (fresh.master.asked, fresh.called) == ([], [])


def test_whether_it_lives_is_told_to_whoever_has_a_certificate(fresh: Stand) -> None:
    """Clients look at it before they ask anything else."""
    fresh.master.rights = lambda _asked: False
    assert fresh.call("ServerLive", "alice") == "OK"
    assert fresh.call("Check", "alice", "grpc.health.v1.Health") == "OK"
    assert fresh.master.asked == []


def test_a_master_that_is_away_is_unavailable_by_grpc(fresh: Stand) -> None:
    """A client of gRPC knows that it may come again."""
    fresh.master.stop()
    try:
        assert fresh.call("RepositoryIndex", "alice") == "UNAVAILABLE"
    finally:
        fresh.master.start()


@pytest.mark.parametrize(("trusted", "status"), [("ca", 200), ("stranger", 503)])
def test_a_master_that_speaks_https_is_asked_where_its_certificate_is_proven(
    stand: Stand, tmp_path: Path, trusted: str, status: int
) -> None:
    """By the file that is named, and by no other: the token goes to nobody who is not it."""
    papers = stand.papers
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.root / "lb.pem", papers.root / "lb.key")
    more = {"master_ca": str(papers.root / f"{trusted}.pem")}
    with (
        AuthorizingMaster(context) as master,
        GuardedHaproxy(tmp_path, master, stand.triton.port, more) as door,
    ):
        assert door.knox("/v2/models/secret").status == status
        assert master.tokens == ({TOKEN} if status == 200 else set())
