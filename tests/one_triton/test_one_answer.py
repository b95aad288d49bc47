"""What concerns the whole fleet is answered through HAProxy as one Triton answers it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from house import MODELS, House, clear, until
from proxied_fleet import Fleet, FleetAgent, followed
from servers.haproxy import HAPROXY, RenderedHaproxy
from servers.triton import needed
from tritonclient.utils import InferenceServerException

from tarn.domain import Secret
from tarn.plain.master_files import TRITON_SECRET
from tarn.triton.restricted import HEADER, key

pytestmark = [
    *needed,
    pytest.mark.one_triton,
    pytest.mark.timeout(300),
    pytest.mark.skipif(HAPROXY is None, reason="needs haproxy"),
]

NAME = "answers"
SIZE = 3
WITHIN_S = 120.0
SENT = 60


@attrs.frozen
class Door:
    """A fleet behind HAProxy, and clients of the door and of one Triton."""

    house: House
    haproxy: RenderedHaproxy
    fleet: Fleet
    token: str

    @property
    def proof(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def one(self) -> str:
        """Return the HTTP address of one instance."""
        return min(self.fleet.ready())


def model(repository: Path, name: str) -> None:
    shutil.copytree(MODELS / "echo", repository / name)
    config = repository / name / "config.pbtxt"
    config.write_text(config.read_text().replace('name: "echo"', f'name: "{name}"'))


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    house = House(tmp_path_factory.mktemp("one"))
    repository = house.root / "models"
    model(repository, "echo")
    model(repository, "later")
    spec = house.spec(
        NAME,
        models={"repository": str(repository), "serve": ["echo"], "control": "explicit"},
        replicas={"min": 1, "max": 4, "initial": SIZE},
        triton={"args": {"id": "ours"}},
        **followed(),
    )
    try:
        done = house.tarn("up", "-f", spec, "--timeout", "120s", timeout_s=150)
        assert done.returncode == 0, done.stderr
        with (
            RenderedHaproxy(house.root, NAME) as haproxy,
            FleetAgent(house, haproxy, NAME) as agent,
            Fleet(house, NAME) as fleet,
        ):
            token = (house.directory(NAME) / "api_token").read_text().strip()
            try:
                agent.heard("for the whole fleet")
                until(lambda: len(fleet.ready()) == SIZE, WITHIN_S, f"{SIZE} instances")
                fleet.settled(haproxy, SIZE)
                until(lambda: len(haproxy.taking("tarn_answers_grpc")) == 1, WITHIN_S, "gRPC")
                yield Door(house, haproxy, fleet, token)
            finally:
                clear(house)
    finally:
        clear(house)


@pytest.fixture
def http(door: Door) -> Iterator[over_http.InferenceServerClient]:
    client = over_http.InferenceServerClient(door.haproxy.address, network_timeout=120)
    yield client
    client.close()


@pytest.fixture
def grpc(door: Door) -> Iterator[over_grpc.InferenceServerClient]:
    client = over_grpc.InferenceServerClient(door.haproxy.grpc_address)
    yield client
    client.close()


def infer(door: Door, client: Any, kind: Any, times: int, name: str = "echo") -> None:
    metadata = over_http.InferenceServerClient(door.one())
    (first,) = metadata.get_model_metadata(name)["inputs"]
    metadata.close()
    shape = [1 if size < 0 else size for size in first["shape"]]
    tensor = kind.InferInput(first["name"], shape, first["datatype"])
    kinds = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}
    tensor.set_data_from_numpy(np.ones(shape, kinds[first["datatype"]]))
    for _ in range(times):
        client.infer(name, [tensor])


def of_one(door: Door, ask: Callable[[Any], Any]) -> Any:
    """Return what one Triton answers over HTTP."""
    client = over_http.InferenceServerClient(door.one())
    try:
        return ask(client)
    finally:
        client.close()


def of_one_grpc(door: Door, ask: Callable[[Any], Any]) -> Any:
    """Return what one Triton answers over gRPC."""
    row = door.fleet.ready()[door.one()]
    client = over_grpc.InferenceServerClient(str(row["grpc"]))
    try:
        return ask(client)
    finally:
        client.close()


def counted(statistics: Any, name: str = "echo") -> tuple[int, int, int]:
    (row,) = [one for one in statistics["model_stats"] if one["name"] == name]
    sizes = sum(int(one["compute_infer"]["count"]) for one in row["batch_stats"])
    return int(row["inference_count"]), int(row["inference_stats"]["success"]["count"]), sizes


READS: dict[str, Callable[[Any], Any]] = {
    "server metadata": lambda c: c.get_server_metadata(),
    "model metadata": lambda c: c.get_model_metadata("echo"),
    "model metadata of a version": lambda c: c.get_model_metadata("echo", "1"),
    "model configuration": lambda c: c.get_model_config("echo"),
    "ready": lambda c: c.is_model_ready("echo"),
    "not ready": lambda c: c.is_model_ready("later"),
    "unknown": lambda c: c.is_model_ready("nowhere"),
}


@pytest.mark.parametrize("what", READS)
def test_reads_answer_as_one_triton_does(door: Door, http: Any, grpc: Any, what: str) -> None:
    ask = READS[what]
    assert ask(http) == of_one(door, ask)
    assert ask(grpc) == of_one_grpc(door, ask)


def test_the_name_is_the_configured_one(http: Any) -> None:
    assert http.get_server_metadata()["name"] == "ours"


ERRORS: dict[str, Callable[[Any], Any]] = {
    "metadata": lambda c: c.get_model_metadata("nowhere"),
    "configuration": lambda c: c.get_model_config("nowhere"),
    "a version": lambda c: c.get_model_metadata("echo", "9"),
    "statistics": lambda c: c.get_inference_statistics("nowhere"),
    "statistics of a version": lambda c: c.get_inference_statistics("echo", "9"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_those_of_one_triton(door: Door, http: Any, grpc: Any, what: str) -> None:
    def said(client: Any) -> tuple[str | None, str]:
        with pytest.raises(InferenceServerException) as caught:
            ERRORS[what](client)
        return caught.value.status(), caught.value.message()

    assert said(http) == of_one(door, said)
    assert said(grpc) == of_one_grpc(door, said)


def test_statistics_count_what_was_sent_to_all(door: Door, http: Any, grpc: Any) -> None:
    shares = {one: counted(of_one_at(one))[0] for one in door.fleet.ready()}
    before = counted(http.get_inference_statistics())
    infer(door, http, over_http, SENT // 2)
    infer(door, grpc, over_grpc, SENT // 2)
    after = http.get_inference_statistics()
    assert [n - m for n, m in zip(counted(after), before, strict=True)] == [SENT, SENT, SENT]
    assert counted(grpc.get_inference_statistics(as_json=True)) == counted(after)
    assert http.get_inference_statistics("echo", "1") == http.get_inference_statistics("echo")

    def fields(row: Any) -> Any:
        if isinstance(row, dict):
            return {name: fields(value) for name, value in row.items()}
        return [fields(one) for one in row] if isinstance(row, list) else type(row)

    assert fields(after) == fields(of_one(door, lambda c: c.get_inference_statistics()))
    grown = [counted(of_one_at(one))[0] - told for one, told in shares.items()]
    assert sum(grown) == SENT
    assert min(grown) > 0


def of_one_at(address: str) -> Any:
    client = over_http.InferenceServerClient(address)
    try:
        return client.get_inference_statistics()
    finally:
        client.close()


CLOSED: dict[str, Callable[[Any, dict[str, str]], Any]] = {
    "index": lambda c, h: c.get_model_repository_index(headers=h),
    "trace settings": lambda c, h: c.get_trace_settings(headers=h),
    "trace settings of a model": lambda c, h: c.get_trace_settings("echo", headers=h),
    "log settings": lambda c, h: c.get_log_settings(headers=h),
}


@pytest.mark.parametrize("what", CLOSED)
def test_restricted_reads_answer_as_one_triton_does(
    door: Door, http: Any, grpc: Any, what: str
) -> None:
    ask = CLOSED[what]
    secret = Secret((door.house.directory(NAME) / TRITON_SECRET).read_text().strip())
    opens = key(secret, str(door.fleet.ready()[door.one()]["id"]))
    own = {HEADER: opens}
    assert ask(http, door.proof) == of_one(door, lambda c: ask(c, own))
    own = {f"triton-grpc-protocol-{HEADER}": opens}
    assert ask(grpc, door.proof) == of_one_grpc(door, lambda c: ask(c, own))


def test_loads_reach_all_and_those_that_come_later(door: Door, http: Any, grpc: Any) -> None:
    headers = door.proof
    http.load_model("later", headers=headers)
    assert http.is_model_ready("later")
    for address in door.fleet.ready():
        client = over_http.InferenceServerClient(address)
        assert client.is_model_ready("later"), address
        client.close()
    infer(door, http, over_http, 6, "later")
    grpc.update_log_settings({"log_verbose_level": 1}, headers=headers)
    assert http.get_log_settings(headers=headers)["log_verbose_level"] == 1
    http.update_trace_settings(settings={"trace_rate": "77"}, headers=headers)
    told = grpc.get_trace_settings(headers=headers, as_json=True)["settings"]
    assert told["trace_rate"] == {"value": ["77"]}
    assert http.get_trace_settings("echo", headers=headers)["trace_rate"] == "77"
    door.fleet.api.scale(SIZE + 1)
    door.fleet.settled(door.haproxy, SIZE + 1)
    assert http.is_model_ready("later")
    assert http.get_log_settings(headers=headers)["log_verbose_level"] == 1
    assert grpc.get_trace_settings(headers=headers, as_json=True)["settings"] == told
    grpc.unload_model("later", headers=headers)
    assert not http.is_model_ready("later")
    grpc.update_log_settings({"log_verbose_level": 0}, headers=headers)


def test_what_no_instance_can_load_names_them_and_tritons_reason(
    door: Door, http: Any, grpc: Any
) -> None:
    for client in (http, grpc):
        with pytest.raises(InferenceServerException) as caught:
            client.load_model("nowhere", headers=door.proof)
        said = caught.value.message()
        assert "failed to load 'nowhere', failed to poll from model repository" in said
        names = {str(row["id"]) for row in door.fleet.ready().values()}
        assert names
        assert all(f"{name}: 500 " in said for name in names)


def test_who_proves_nothing_gets_what_every_triton_tells_everybody(
    door: Door, http: Any, grpc: Any
) -> None:
    """The repository, trace and log are restricted: only the master has the key."""
    closed: tuple[Callable[[Any], Any], ...] = (
        lambda c: c.load_model("later"),
        lambda c: c.get_model_repository_index(),
        lambda c: c.update_log_settings({"log_verbose_level": 1}),
        lambda c: c.get_trace_settings(),
    )
    for client in (http, grpc):
        for ask in closed:
            with pytest.raises(InferenceServerException, match="Authorization"):
                ask(client)
        with pytest.raises(InferenceServerException, match="token"):
            client.load_model("later", headers={"authorization": "Bearer wrong"})
        assert client.get_server_metadata()


def test_a_drain_takes_no_counts_away(door: Door, http: Any) -> None:
    door.fleet.settled(door.haproxy, len(door.fleet.ready()))
    before = counted(http.get_inference_statistics())
    infer(door, http, over_http, 20)
    door.fleet.api.scale(1)
    infer(door, http, over_http, 20)
    until(lambda: len(door.fleet.all()) == 1, WITHIN_S, "one instance")
    infer(door, http, over_http, 20)
    after = counted(http.get_inference_statistics())
    assert [n - m for n, m in zip(after, before, strict=True)] == [60, 60, 60]


def test_inference_never_goes_to_the_master(door: Door, http: Any, grpc: Any) -> None:
    infer(door, http, over_http, 6)
    infer(door, grpc, over_grpc, 6)
    assert http.get_server_metadata()
    lines = door.haproxy.lines()
    inferences = [one for one in lines if "/infer " in one.request or "ModelInfer" in one.request]
    assert {"master"}.isdisjoint(one.server for one in inferences)
    assert len(inferences) >= 12
    assert any(one.server == "master" for one in lines)
