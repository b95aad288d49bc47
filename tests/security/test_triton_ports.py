"""44: whoever reached a Triton of the Java TARN could empty it, read its log, map its memory."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from asking import ask
from house import MODELS, House, clear, ids, kill, until
from servers.triton import needed, real_triton

from tarn.domain.spec import RESTRICTABLE
from tarn.testing.fake_state import part

pytestmark = needed

PATHS = (
    ("GET", "/v2"),
    ("GET", "/v2/models/nap"),
    ("GET", "/v2/models/nap/versions/1"),
    ("GET", "/v2/models/nap/config"),
    ("GET", "/v2/models/nap/versions/1/config"),
    ("GET", "/v2/models/nap/stats"),
    ("GET", "/v2/models/nap/versions/1/stats"),
    ("GET", "/v2/models/stats"),
    ("POST", "/v2/models/nap/infer"),
    ("POST", "/v2/models/nap/versions/1/infer"),
    ("GET", "/v2/models/nap/trace/setting"),
    ("GET", "/v2/trace/setting"),
    ("POST", "/v2/trace/setting"),
    ("GET", "/v2/logging"),
    ("POST", "/v2/logging"),
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/nap/load"),
    ("POST", "/v2/repository/models/nap/unload"),
    ("GET", "/v2/systemsharedmemory/status"),
    ("POST", "/v2/systemsharedmemory/region/x/register"),
    ("POST", "/v2/systemsharedmemory/unregister"),
    ("GET", "/v2/cudasharedmemory/status"),
    ("POST", "/v2/cudasharedmemory/region/x/register"),
)
CLOSED = ("model-repository", "logging", "trace", "shared-memory")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One instance of one cluster, with a key of the user's own for statistics."""
    one = House(tmp_path_factory.mktemp("ports"))
    spec = one.spec(
        "ports",
        models={"repository": str(MODELS), "serve": ["echo"], "control": "explicit"},
        replicas={"min": 1, "max": 2, "initial": 1},
        triton={"args": {"http-restricted-api": "statistics,trace:mine=k1"}},
    )
    done = one.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    until(lambda: ids(one.status("ports")), 60, "an instance is ready")
    yield one
    clear(one)


def port(fleet: House, service: str = "http") -> int:
    (instance,) = fleet.status("ports")["instances"]
    return int(str(instance[service]).rpartition(":")[2])


def with_header(at: int, method: str, path: str, **headers: str) -> int:
    """Return the status of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", at, timeout=10)
    try:
        connection.request(method, path, b"{}", headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path"), [p for p in PATHS if part(p[1][1:].split("/")) in CLOSED]
)
def test_what_changes_a_server_is_refused_without_the_key(
    fleet: House, method: str, path: str
) -> None:
    """403, before anything of the request is looked at."""
    status, _, body = ask(port(fleet), method, path, b"{}")
    assert status == 403
    assert b"This API is restricted" in body


def test_what_users_need_is_open(fleet: House) -> None:
    """And the user's own key opens what they named, and nothing of ours."""
    at = port(fleet)
    assert ask(at, "GET", "/v2/models/echo")[0] == 200
    assert ask(at, "GET", "/v2/health/ready")[0] == 200
    assert ask(port(fleet, "metrics"), "GET", "/metrics")[0] == 200
    assert with_header(at, "GET", "/v2/models/echo/stats") == 403
    assert with_header(at, "GET", "/v2/models/echo/stats", mine="k1") == 200
    assert with_header(at, "GET", "/v2/trace/setting", mine="k1") == 200
    assert with_header(at, "GET", "/v2/logging", mine="k1") == 403


def test_grpc_is_no_way_around_it(fleet: House) -> None:
    """Its metadata has another name; without it each of the four is refused."""
    grpc = pytest.importorskip("tritonclient.grpc")
    client = grpc.InferenceServerClient(f"127.0.0.1:{port(fleet, 'grpc')}")
    asks = (
        client.get_model_repository_index,
        client.get_log_settings,
        client.get_trace_settings,
        client.get_system_shared_memory_status,
        client.get_cuda_shared_memory_status,
    )
    try:
        for question in asks:
            with pytest.raises(grpc.InferenceServerException, match="protocol is restricted"):
                question()
        with pytest.raises(grpc.InferenceServerException, match="protocol is restricted"):
            client.unload_model("echo")
        assert client.is_model_ready("echo")
    finally:
        client.close()


def test_no_service_listens_beyond_this_machine(fleet: House) -> None:
    """Unless somebody asks for more, gRPC and metrics included."""
    (pid,) = fleet.tritons("ports")
    listens = {
        c.laddr.ip.removeprefix("::ffff:")
        for c in psutil.Process(pid).net_connections("tcp")
        if c.status == "LISTEN"
    }
    assert listens == {"127.0.0.1"}


def test_a_new_master_has_the_keys_of_the_instances_it_finds(fleet: House) -> None:
    """It is killed; the next one sees the models of the same instance, and empties it."""
    (before,) = ids(fleet.status("ports"))
    ref = fleet.ref("ports")
    (master,) = [p for p, argv in fleet.processes("ports").items() if "tarn.master" in argv]
    kill(master)
    until(lambda: _epoch(fleet) != ref["epoch"], 30, "a new master")
    until(lambda: ids(fleet.status("ports")) == {before}, 30, "it sees the models")
    assert fleet.tarn("scale", "-c", "ports", "2").returncode == 0
    until(lambda: len(ids(fleet.status("ports"))) == 2, 60, "a second one")
    assert fleet.tarn("scale", "-c", "ports", "1").returncode == 0
    until(lambda: len(fleet.tritons("ports")) == 1, 60, "one was emptied and ended")
    (left,) = ids(fleet.status("ports"))
    (ended,) = {"ports-0001", "ports-0002"} - {left}
    log = (fleet.directory("ports") / "logs" / ended / "triton.stderr").read_text()
    unloaded, signalled = (
        log.find("successfully unloaded 'echo'"),
        log.find("Waiting for in-flight"),
    )
    assert 0 <= unloaded < signalled, log


def _epoch(fleet: House) -> str:
    try:
        return str(fleet.ref("ports")["epoch"])
    except (OSError, ValueError):
        return ""


def test_every_path_belongs_to_the_part_that_we_think(tmp_path: Path) -> None:
    """A real Triton with a key for each part names the one that a path wants."""
    parts = [name for name in RESTRICTABLE if name != "health"]
    wanted = [f"--http-restricted-api={name}:for-{name}=k" for name in parts]
    with real_triton(tmp_path, 5, *wanted) as (_, endpoint):
        for method, path in PATHS:
            status, _, body = ask(endpoint.http_port, method, path, b"{}")
            named = f"expecting header 'for-{part(path[1:].split('/'))}'"
            assert (status, named in body.decode()) == (403, True), (path, body)
