"""The key that HAProxy finds in a request, by what its Lua program answers."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.haproxy import HAPROXY
from servers.keyed_haproxy import EchoHaproxy, sequence_body, tell_rules
from tritonclient.grpc import service_pb2

from tarn_plugins.discovery.haproxy.affinity_text import HaproxyRules

pytestmark = [
    pytest.mark.one_triton,
    pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed"),
]
INFER, CALL = "/v2/models/acc/infer", "/inference.GRPCInferenceService/ModelInfer"
RULES = [
    {"models": ["acc", "a b:1"], "key": "sequence", "idle_s": 65.0},
    {"models": ["chat"], "key": "json", "path": "messages.0.text", "first_bytes": 8},
    {"models": ["session"], "key": "header", "header": "X-TARN-Affinity", "idle_s": 30.0},
    {"models": ["cached"], "key": "body"},
]


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EchoHaproxy]:
    with EchoHaproxy(tmp_path_factory.mktemp("echo")) as one:
        rules = HaproxyRules.read({"rules": RULES, "complete": True})
        tell_rules(one, *rules.commands)
        yield one


def found(echo: EchoHaproxy, body: bytes, path: str = INFER, **headers: str) -> str:
    status, text = echo.post(
        "http", path, body, {k.replace("_", "-"): v for k, v in headers.items()}
    )
    assert status == 200, text
    return text.split("|")[0]


def infer_json(parameters: Any, **more: Any) -> bytes:
    return json.dumps({"parameters": parameters, "inputs": [], **more}).encode()


@pytest.mark.parametrize(
    ("seq", "key"),
    [
        (1, "s.1"),
        (1234567, "s.1234567"),
        (2**53 + 1, f"s.{2**53 + 1}"),
        (2**64 - 1, f"s.{2**64 - 1}"),
        ("user-7", "s.user-7"),
        ("7", "s.7"),
        (0, ""),
        ("", ""),
    ],
)
def test_an_id_is_found_exactly(echo: EchoHaproxy, seq: object, key: str) -> None:
    assert found(echo, infer_json({"sequence_id": seq})) == key
    assert found(echo, infer_json({}), X_Sequence_Id=str(seq)) == key
    message = service_pb2.ModelInferRequest(model_name="acc")
    field = "string_param" if isinstance(seq, str) else "uint64_param"
    if isinstance(seq, int) and seq < 2**63:
        field = "int64_param"
    setattr(message.parameters["sequence_id"], field, seq)
    message.parameters["sequence_start"].bool_param = True
    assert grpc(echo, message)[1].split("|")[0] == key


@pytest.mark.parametrize("name", ["acc", "%61cc", "a%20b%3a1", "a%20b%3A1"])
def test_a_model_is_known_however_its_name_is_written(echo: EchoHaproxy, name: str) -> None:
    """Triton's clients encode what is not a letter or a digit."""
    assert found(echo, infer_json({"sequence_id": 5}), f"/v2/models/{name}/infer") == "s.5"


def test_ids_that_no_name_should_have_differ(echo: EchoHaproxy) -> None:
    names = ["a b", "a\tb", "é", "x" * 100, "x" * 101]
    keys = [
        found(echo, json.dumps({"parameters": {"sequence_id": n}}, ensure_ascii=False).encode())
        for n in names
        if n != "a\tb"
    ]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("s..") for key in keys)


@pytest.mark.parametrize(
    "body",
    [
        b'{"parameters":{"sequence_id":5},"inputs":[{"data":["\\"sequence_id\\": 9"]}]}',
        b'{"inputs":[{"parameters":{"sequence_id":9},"data":[[1]]}],"parameters":{"sequence_id":5}}',
        b'{"id":"\\"sequence_id\\":9}","parameters" : { "a":[1,"]"], "sequence_id" : 5 } }',
        b'{"parameters":{"sequence_id":5},"parameters":{"sequence_id":9}}',
        b' \n{"parameters":{"deep":{"sequence_id":9},"sequence_id":5}}',
    ],
)
def test_only_the_requests_own_parameter_counts(echo: EchoHaproxy, body: bytes) -> None:
    assert found(echo, body) == "s.5"


@pytest.mark.parametrize(
    "options",
    [
        {"values": 25_000},
        {"values": 250_000},
        {"values": 25_000, "binary": False},
        {"values": 250_000, "binary": False},
    ],
)
def test_large_bodies_are_read_at_their_head(echo: EchoHaproxy, options: dict[str, Any]) -> None:
    body, headers = sequence_body(77, 0, 5, **options)
    status, text = echo.post("http", INFER, body, headers)
    assert (status, text.split("|")[0]) == (200, "s.77")


# Without a time, so that the test has the same name for each worker of pytest-xdist.
GZIPPED = gzip.compress(infer_json({"sequence_id": 7}), mtime=0)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (sequence_body(7, 0, 1, values=25_000, binary=False, first=False)[0], {}),
        (GZIPPED, {"Content-Encoding": "gzip"}),
        (b'{"parameters":{"sequence_id":-7}}', {}),
        (b'{"parameters":{"sequence_id":7.0}}', {}),
        (b'{"parameters":{"sequence_\\u0069d":7}}', {}),
        (b'{"parameters":', {}),
        (b"nothing", {}),
    ],
)
def test_what_cannot_be_read_is_refused(
    echo: EchoHaproxy, body: bytes, headers: dict[str, str]
) -> None:
    status, text = echo.post("http", INFER, body, headers)
    assert status == 400
    assert "X-Sequence-Id" in json.loads(text)["error"]
    status, text = echo.post("http", INFER, body, {**headers, "X-Sequence-Id": "7"})
    assert (status, text.split("|")[0]) == (200, "s.7")


def test_a_request_without_a_sequence_is_tritons_to_refuse(echo: EchoHaproxy) -> None:
    assert found(echo, infer_json({})) == ""
    assert found(echo, b'{"inputs":[]}') == ""
    assert found(echo, infer_json({}), X_Sequence_Id="0") == ""


def test_the_last_request_is_known(echo: EchoHaproxy) -> None:
    body, headers = sequence_body(4, 1, 1)
    assert echo.post("http", INFER, body, headers)[1] == "s.4|s.4|1|1"
    body, headers = sequence_body(4, 0, 1)
    assert echo.post("http", "/v2/models/acc/versions/3/infer", body, headers)[1] == "s.4|s.4||1"


def test_other_kinds_of_keys(echo: EchoHaproxy) -> None:
    text = json.dumps({"messages": [{"role": "user", "text": "Summarize this"}]}).encode()
    assert found(echo, text, "/v2/models/chat/generate") == "j.Summariz".replace(
        "Summariz", "Summariz"
    )
    assert found(echo, b'{"messages":[]}', "/v2/models/chat/generate") == ""
    path = "/v2/models/session/infer"
    assert echo.post("http", path, b"{}", {"X-TARN-Affinity": "bob"})[1] == "h.bob|h.bob||1"
    assert found(echo, b"{}", path) == ""
    cached = "/v2/models/cached/infer"
    one, same, other = (found(echo, text, cached) for text in (b'{"a":1}', b'{"a":1}', b'{"a":2}'))
    assert one == same != other
    assert one.startswith("b..")


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        (INFER, "1"),
        ("/v2/models/plain/infer", "1"),
        ("/v2/models/plain", "1"),
        ("/v2/models/plain/ready", ""),
        ("/v2/health/ready", ""),
    ],
)
def test_questions_about_health_do_not_wait(echo: EchoHaproxy, path: str, holds: str) -> None:
    assert echo.post("http", path, b'{"inputs":[]}')[1].split("|")[3] == holds


def test_models_without_a_rule_have_no_key(echo: EchoHaproxy) -> None:
    assert found(echo, infer_json({"sequence_id": 5}), "/v2/models/plain/infer") == ""
    assert found(echo, infer_json({"sequence_id": 5}), "/v2/models/acc/config") == ""


# -- gRPC


def framed(message: Any, compressed: int = 0) -> bytes:
    data = message.SerializeToString()
    return bytes([compressed]) + len(data).to_bytes(4, "big") + data


def grpc(echo: EchoHaproxy, message: Any, compressed: int = 0, **headers: str) -> tuple[int, str]:
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return echo.post("grpc", CALL, framed(message, compressed), named)


def of_acc(seq: int | None, values: int = 0, model: str = "acc") -> Any:
    message = service_pb2.ModelInferRequest(model_name=model, id="x")
    if seq is not None:
        message.parameters["sequence_id"].int64_param = seq
        message.parameters["sequence_end"].bool_param = True
        message.parameters["other"].string_param = "sequence_id"
    tensor = message.inputs.add()
    tensor.name, tensor.datatype = "IN", "FP32"
    tensor.shape.extend([1, values])
    message.raw_input_contents.append(b"\x22\x11\x0a\x0bsequence_id" * values)
    return message


def test_grpc_is_read_at_its_head(echo: EchoHaproxy) -> None:
    for values in (0, 1, 5_000, 70_000):
        assert grpc(echo, of_acc(123456789012, values))[1] == "s.123456789012|s.123456789012|1|1"
    assert grpc(echo, of_acc(5, 9, model="plain"))[1].split("|")[0] == ""
    assert grpc(echo, of_acc(None, 9))[1].split("|")[0] == ""


def test_grpc_that_cannot_be_read_is_refused_in_its_form(echo: EchoHaproxy) -> None:
    status, text = grpc(echo, of_acc(5), compressed=1)
    assert status == 200
    assert "X-Sequence-Id" in text
    assert grpc(echo, of_acc(5), compressed=1, x_sequence_id="5")[1].split("|")[0] == "s.5"
    assert grpc(echo, of_acc(5), compressed=1, x_sequence_id="0")[1].split("|")[0] == ""


# -- what was told


def test_without_a_master_that_tells_rules_a_readable_sequence_is_kept(tmp_path: Path) -> None:
    with EchoHaproxy(tmp_path) as echo:
        tell_rules(echo, *HaproxyRules.read(None).commands)
        assert found(echo, infer_json({"sequence_id": 5})) == "s.5"
        assert found(echo, b"nothing") == ""
        assert grpc(echo, of_acc(6))[1].split("|")[0] == "s.6"
        tell_rules(echo, *HaproxyRules.read({"rules": []}).commands)
        assert found(echo, infer_json({"sequence_id": 5})) == ""
        many = [
            {
                "models": [f"model-{n}-{'x' * 40}" for n in range(2000)] + ["acc"],
                "key": "header",
                "header": "X-User",
            }
        ]
        tell_rules_in_parts(echo, HaproxyRules.read({"rules": many}))
        assert found(echo, b"{}", X_User="eve") == "h.eve"


def tell_rules_in_parts(echo: EchoHaproxy, rules: HaproxyRules) -> None:
    commands = rules.commands
    assert len(commands) > 20
    for command in commands:
        tell_rules(echo, command)
