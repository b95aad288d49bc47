"""An inference request that any model takes."""

import json

import pytest

from tarn.testing.fake_http import echo
from tarn.triton.test_requests import Canary, canary, given


def _parts(shot: Canary) -> tuple[dict[str, object], bytes]:
    length = int(dict(shot.headers)["Inference-Header-Content-Length"])
    return json.loads(shot.body[:length]), shot.body[length:]


def _metadata(datatype: str, shape: list[int]) -> dict[str, object]:
    return {"name": "m", "inputs": [{"name": "IN", "datatype": datatype, "shape": shape}]}


@pytest.mark.parametrize(
    ("datatype", "shape", "expected"),
    [
        ("FP32", [-1, 3, -1], bytes(12)),
        ("BOOL", [2], bytes(2)),
        ("BF16", [4], bytes(8)),
        ("INT64", [], bytes(8)),
        ("FP64", [0], b""),
        ("BYTES", [-1, 2], b"\x01\x00\x00\x000" * 2),
    ],
)
def test_every_input_is_zero_and_its_dynamic_dimensions_one(datatype, shape, expected):
    """By data type and shape; a text is the shortest that is also a number."""
    asked, data = _parts(canary(_metadata(datatype, shape)))
    (tensor,) = asked["inputs"]
    assert tensor["shape"] == [1 if size < 0 else size for size in shape]
    assert tensor["parameters"] == {"binary_data_size": len(data)}
    assert data == expected


def test_several_inputs_follow_one_another_as_triton_reads_them():
    """The fake, which reads as Triton does, gives back what was sent."""
    inputs = [
        {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 2]},
        {"name": "INPUT1", "datatype": "BYTES", "shape": [1]},
    ]
    shot = canary({"name": "m", "inputs": inputs})
    length = int(dict(shot.headers)["Inference-Header-Content-Length"])
    body, head = echo("m", shot.body, length)
    answer = json.loads(body[:head])
    shapes = {output["name"]: output["shape"] for output in answer["outputs"]}
    assert shapes == {"OUTPUT0": [1, 2], "OUTPUT1": [1]}
    assert body[head:] == bytes(8) + b"\x01\x00\x00\x000"


def test_a_type_that_nobody_knows_is_an_error():
    """Better no request than one that fails for our sake."""
    with pytest.raises(ValueError, match="FP8"):
        canary(_metadata("FP8", [1]))


def test_a_given_body_goes_as_it_is():
    """Its writer knows the model."""
    assert given("m", b"{}") == Canary("m", b"{}", (("Content-Type", "application/json"),))
    assert "secret" not in repr(given("m", b"secret"))
