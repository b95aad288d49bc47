"""The fleet's gRPC service: each method is the HTTP request that asks the same."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fake_master import TOKEN, FakeMaster
from triton_stub import TritonStub, fleet_of, stub_answers

from tarn.http import grpc_service
from tarn.http.grpc_service import METHODS, GrpcListener
from tarn.plain.credentials import load_balancer_token
from tarn.triton.restricted import Keys
from tarn.triton.server_questions import QuestionKind, question_at

grpc = pytest.importorskip("tritonclient.grpc", exc_type=ImportError)
utils = pytest.importorskip("tritonclient.utils", exc_type=ImportError)
messages = grpc.service_pb2

OF_LB = {"x-tarn-token": load_balancer_token(TOKEN).decode()}
OWNER = {"authorization": f"Bearer {TOKEN.decode()}"}
RESTRICTED = Keys((("trace", "tarn-key", "k"),))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with TritonStub(stub_answers(3)) as one, TritonStub(stub_answers(4)) as two:
        listener = GrpcListener("127.0.0.1")
        master = FakeMaster(fleet_of((one, two)), grpc=listener, keys_of=lambda _id: RESTRICTED)
        with master:
            port = grpc_port(master)
            assert port == grpc_port(master)
            one_client = grpc.InferenceServerClient(f"127.0.0.1:{port}")
            yield one_client
            one_client.close()


def grpc_port(master: FakeMaster) -> int:
    answer = httpx.get(
        f"{master.url}/api/v1/load-balancer?grpc=true", headers=OWNER, trust_env=False
    )
    said = answer.json()
    assert said["grpc_lack"] == "", said
    return int(said["grpc_port"])


def test_it_answers_as_over_http(client: Any) -> None:
    (row,) = client.get_inference_statistics(headers=OF_LB).model_stats
    assert row.inference_count == 7
    assert client.get_server_metadata(headers=OF_LB).name == "triton"
    assert client.is_model_ready("echo", headers=OF_LB)
    assert client.get_model_metadata("echo", headers=OF_LB).name == "echo"
    (model,) = client.get_model_repository_index(headers=OWNER).models
    assert (model.name, model.state) == ("echo", "READY")
    assert client.get_log_settings(headers=OWNER).settings["log_info"].bool_param is True
    assert client.get_trace_settings(headers=OWNER).settings["trace_rate"].value == ["1"]


def test_errors_have_the_codes_that_triton_gives(client: Any) -> None:
    def refused(ask: Any) -> tuple[str, str]:
        with pytest.raises(utils.InferenceServerException) as caught:
            ask()
        return str(caught.value.status()), caught.value.message()

    status, text = refused(lambda: client.get_model_metadata("nowhere", headers=OF_LB))
    assert (status, text) == ("StatusCode.NOT_FOUND", "Not Found")
    assert refused(client.get_server_metadata)[0] == "StatusCode.UNAUTHENTICATED"
    status, text = refused(lambda: client.get_trace_settings(headers=OF_LB))
    assert status == "StatusCode.PERMISSION_DENIED"
    assert "Authorization: Bearer" in text


def asked(called: str, **fields: Any) -> tuple[str, str, Any]:
    (method,) = [one for one in METHODS if one.name == called]
    return method.ask(getattr(messages, f"{called}Request")(**fields))


def test_requests_become_those_of_http() -> None:
    assert asked("ModelConfig", name="a/b", version="3") == (
        "GET",
        "/v2/models/a%2Fb/versions/3/config",
        {},
    )
    assert asked("ModelStatistics") == ("GET", "/v2/models/stats", {})
    assert asked("RepositoryIndex", ready=True)[2] == {"ready": True}
    parameters = {
        "config": messages.ModelRepositoryParameter(string_param="{}"),
        "file:1/a": messages.ModelRepositoryParameter(bytes_param=b"x"),
    }
    _, path, body = asked("RepositoryModelLoad", model_name="m", parameters=parameters)
    assert path == "/v2/repository/models/m/load"
    assert body["parameters"] == {"config": "{}", "file:1/a": base64.b64encode(b"x").decode()}
    value = messages.TraceSettingRequest.SettingValue
    settings = {"trace_rate": value(value=["5"]), "trace_count": value()}
    assert asked("TraceSetting", settings=settings, model_name="m") == (
        "POST",
        "/v2/models/m/trace/setting",
        {"trace_rate": "5", "trace_count": None},
    )
    assert asked("LogSettings") == ("GET", "/v2/logging", {})


def test_every_method_asks_what_the_fleet_answers() -> None:
    kinds = set()
    for method in METHODS:
        request = getattr(messages, f"{method.name}Request")()
        for name in ("name", "model_name"):
            if name in request.DESCRIPTOR.fields_by_name:
                setattr(request, name, "m")
        verb, path, _ = method.ask(request)
        question = question_at(path)
        assert question is not None
        assert verb in question.methods
        kinds.add(question.kind)
    assert kinds == set(QuestionKind)


@pytest.mark.anyio
async def test_without_the_messages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacking() -> Any:
        raise ImportError("no tritonclient")

    monkeypatch.setattr(grpc_service, "_imported", lacking)
    listener = GrpcListener("127.0.0.1")
    assert await listener.port() == 0
    assert "tarn-orchestrator[grpc]" in listener.lack
    await listener.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_settings_that_differ_are_texts() -> None:
    (method,) = [one for one in METHODS if one.name == "LogSettings"]
    told = method.tell(200, {"a": 1, "b": True, "c": "x", "d": -1})
    assert json.loads(json.dumps(told))["settings"] == {
        "a": {"uint32_param": 1},
        "b": {"bool_param": True},
        "c": {"string_param": "x"},
        "d": {"string_param": "-1"},
    }
