"""What `tarn new model` writes is served by a real Triton, by the commands that it prints."""

import shlex
from pathlib import Path

import onnx
import pytest
from house import House

pytestmark = pytest.mark.triton


def network(path: Path) -> str:
    """Write a network with open batches: OUT = IN · W, of three numbers two."""
    tensor, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weights = onnx.helper.make_tensor("W", kind, (3, 2), [1.0] * 6)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["IN", "W"], ["OUT"])],
        "net",
        [tensor("IN", kind, ["batch", 3])],
        [tensor("OUT", kind, ["batch", 2])],
        [weights],
    )
    # Versions that the oldest onnxruntime of the tests can read.
    opset = onnx.helper.make_opsetid("", 13)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(path))
    return str(path)


def test_the_commands_that_are_printed_work(house: House) -> None:
    """Two models, one of a program and one of a file: checked, served, asked; none is lost."""
    for words in (("doubler",), ("net", "--from", network(house.root / "net.onnx"))):
        done = house.tarn("new", "model", *words)
        assert done.returncode == 0, done.stderr
    printed = [line.partition(": ")[2].split() for line in done.stderr.splitlines()]
    steps = [shlex.split(" ".join(words))[1:] for words in printed if words[:1] == ["tarn"]]
    assert [step[0] for step in steps] == ["lint", "up", "verify"]
    for step in steps:
        more = ("--for", "2s", "--model", "net") if step[0] == "verify" else ()
        ran = house.tarn(*step, *more)
        assert ran.returncode == 0, ran.stderr
        if step[0] == "verify":
            assert "40 answered, 0 lost" in ran.stdout
    doubled = house.tarn("verify", "-c", "net", "--for", "1s", "--model", "doubler")
    assert "20 answered, 0 lost" in doubled.stdout
    assert house.tarn("down", "-c", "net").returncode == 0
