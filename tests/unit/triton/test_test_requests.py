"""Test requests: written by a person, made from a configuration, and what an answer says."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.testing.fake_http import echo
from tarn.triton.test_files import LONGEST_FILE, RequestFlaw, parse
from tarn.triton.test_requests import (
    MADE,
    AnswerVerdict,
    ExpectedAnswer,
    TestRequest,
    judge,
)
from tarn.triton.test_sources import MOST_COPIES, MadeFrom, made_from

INPUT = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [0.5, 1]}
WHOLE = {"model": "m", "inputs": [INPUT]}


def written(**changed: Any) -> bytes:
    return json.dumps({**WHOLE, **changed}).encode()


def one(text: bytes) -> TestRequest:
    requests, flaws = parse(text)
    assert flaws == ()
    return requests[0]


def flaws(text: bytes) -> dict[str, str]:
    requests, found = parse(text)
    assert requests == ()
    assert all(flaw.found and flaw.right for flaw in found)
    return {flaw.where: flaw.found for flaw in found}


# -- the file --------------------------------------------------------------------------------


def test_the_request_is_what_the_file_says_without_our_own_keys() -> None:
    request = one(written(version="3", id="x", expect={"outputs": [{"name": "OUT", "data": [1]}]}))
    assert json.loads(request.body) == {"id": "x", "inputs": [INPUT]}
    assert request.path == "/v2/models/m/versions/3/infer"
    assert request.expect is not None


def test_a_name_is_quoted_in_the_path() -> None:
    assert one(written(model="a b/../c")).path == "/v2/models/a%20b%2F..%2Fc/infer"


def test_a_list_holds_a_request_for_each_of_several_models() -> None:
    both = json.dumps([WHOLE, {**WHOLE, "model": "n"}]).encode()
    assert [request.model for request in parse(both)[0]] == ["m", "n"]


@pytest.mark.parametrize(
    ("text", "where", "found"),
    [
        (b"{", "", "is not JSON: Expecting property name enclosed in double quotes"),
        (b"[]", "", "is an empty list"),
        (b"3", "", "is 3"),
        (b"[" * 100_000, "", "has 100000 bytes"),
        (b"[" * 60_000, "", "is nested too deep"),
        (b'{"model": "m", "inputs": [], "x": NaN}', "", "is not JSON: NaN is not a number of JSON"),
        (b'{"inputs": []}', "model", "is missing"),
        (written(model=3), "model", "is 3"),
        (written(version=1), "version", "is 1"),
        (written(version="latest"), "version", 'is "latest"'),
        (written(id=3), "id", "is 3"),
        (written(parameters=[]), "parameters", "is []"),
        (written(input=[]), "input", "is not a part of a test request"),
        (b'{"model": "m"}', "inputs", "is missing"),
        (written(inputs={}), "inputs", "is {}"),
        (written(inputs=[3]), "inputs[0]", "is 3"),
        (written(inputs=[{**INPUT, "name": ""}]), "inputs[0].name", 'is ""'),
        (written(inputs=[{**INPUT, "datatype": "TYPE_FP32"}]), "inputs[0].datatype", "TYPE_FP32"),
        (written(inputs=[{**INPUT, "datatype": []}]), "inputs[0].datatype", "is []"),
        (written(inputs=[{**INPUT, "shape": [-1]}]), "inputs[0].shape", "is [-1]"),
        (written(inputs=[{**INPUT, "shape": [3]}]), "inputs[0].data", "has 2 elements"),
        (written(inputs=[{**INPUT, "data": 3}]), "inputs[0].data", "is 3"),
        (written(inputs=[{**INPUT, "data": [0, "a"]}]), "inputs[0].data", 'is "a" at 1'),
        (written(inputs=[{**INPUT, "data": [True, 0]}]), "inputs[0].data", "is true at 0"),
        (
            written(inputs=[{**INPUT, "datatype": "INT8", "data": [0, 128]}]),
            "inputs[0].data",
            "is 128 at 1",
        ),
        (
            written(inputs=[{**INPUT, "datatype": "BYTES"}]),
            "inputs[0].data",
            "is 0.5 at 0",
        ),
        (
            written(inputs=[{**INPUT, "parameters": {"binary_data_size": 8}}]),
            "inputs[0].parameters.binary_data_size",
            "refers to data outside of the JSON",
        ),
        (
            written(parameters={"binary_data_output": True}),
            "parameters.binary_data_output",
            "refers to data outside of the JSON",
        ),
        (
            written(outputs=[{"name": "OUT", "parameters": {"binary_data": True}}]),
            "outputs[0].parameters.binary_data",
            "refers to data outside of the JSON",
        ),
        (written(outputs=["OUT"]), "outputs[0]", 'is "OUT"'),
        (written(outputs={}), "outputs", "is {}"),
        (written(expect=[1]), "expect", "is [1]"),
        (written(expect={}), "expect.outputs", "is missing"),
        (written(expect={"outputs": [3]}), "expect.outputs[0]", "is 3"),
        (written(expect={"outputs": [], "rtol": 1}), "expect.rtol", "is not known"),
        (written(expect={"outputs": [{"data": []}]}), "expect.outputs[0].name", "is missing"),
        (written(expect={"outputs": [{"name": "O"}]}), "expect.outputs[0].data", "is missing"),
        (
            written(expect={"outputs": [{"name": "O", "data": [None]}]}),
            "expect.outputs[0].data",
            "is null at 0",
        ),
        (
            written(expect={"outputs": [{"name": "O", "data": [1]}], "tolerance": 1}),
            "expect.tolerance",
            "is 1",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: bytes, where: str, found: str) -> None:
    said = flaws(text)
    assert where in said
    assert found in said[where]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    text = json.dumps([WHOLE, {"model": "", "inputs": [{**INPUT, "shape": "x"}]}, WHOLE]).encode()
    assert set(flaws(text)) == {"[1].model", "[1].inputs[0].shape", "[2].model"}


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["model", "inputs", "name", "datatype", "shape", "data", "expect", "outputs",
                 "parameters", "tolerance", "x"]
            ),
            inner,
            max_size=5,
        ),
        max_leaves=20,
    )
)  # fmt: skip
def test_whatever_is_written_is_read_or_refused(value: object) -> None:
    """Never a traceback; and what is read is what a Triton can read."""
    requests, found = parse(json.dumps(value).encode())
    assert bool(requests) != bool(found)
    for request in requests:
        echo(request.model, request.body, None)


def test_a_file_that_is_too_long_is_not_read() -> None:
    requests, found = parse(b" " * (LONGEST_FILE + 1))
    assert requests == ()
    assert found[0] == RequestFlaw("", f"has {LONGEST_FILE + 1} bytes", found[0].right)


# -- the right answer ------------------------------------------------------------------------


def answer(datatype: str, data: list[Any], **more: Any) -> bytes:
    output = {"name": "OUT", "datatype": datatype, "shape": [len(data)], "data": data, **more}
    return json.dumps({"model_name": "m", "outputs": [output]}).encode()


def expects(data: list[Any], **more: Any) -> ExpectedAnswer:
    tolerance = {"tolerance": more.pop("tolerance")} if "tolerance" in more else {}
    output = {"name": "OUT", "data": data, **more}
    expect = one(written(expect={"outputs": [output], **tolerance})).expect
    assert expect is not None
    return expect


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (expects([1, 2]), answer("INT64", [1, 2])),
        (expects([[1], [2]], shape=[2]), answer("INT64", [1, 2])),
        (expects(["a", ""]), answer("BYTES", ["a", ""])),
        (expects([True]), answer("BOOL", [True])),
        (expects([1.0, 0.0]), answer("FP32", [1.0009, 0.0009])),
        (expects([100], tolerance=0.1), answer("FP16", [109.0])),
        (expects([0.0]), answer("FP32", [0.0])),
        (expects([1], datatype="FP32"), answer("FP32", [1.0])),
    ],
)
def test_an_answer_that_is_near_enough_is_right(expected: ExpectedAnswer, got: bytes) -> None:
    assert expected.differs(got) == ""


@pytest.mark.parametrize(
    ("expected", "got", "found"),
    [
        (expects([1, 2]), answer("INT64", [1, 3]), "wrong answer: output 'OUT' is 3 at 1, not 2"),
        (expects([10**15]), answer("INT64", [10**15 + 1]), "is 1000000000000001 at 0"),
        (expects(["a"]), answer("BYTES", ["A"]), 'is "A" at 0, not "a"'),
        (expects([True]), answer("BOOL", [False]), "is false at 0, not true"),
        (expects([1]), answer("BOOL", [True]), "is true at 0, not 1"),
        (expects([1.0]), answer("FP32", [1.002]), "is 1.002 at 0, not 1.0"),
        (expects([0.0]), answer("FP32", [1e-9]), "is 1e-09 at 0, not 0.0"),
        (expects([1.0]), answer("FP32", [math.nan]), "is NaN at 0, not 1.0"),
        (expects([1]), answer("INT64", [1, 1]), "has 2 elements, not 1"),
        (expects([1], shape=[1, 1]), answer("INT64", [1]), "has the shape [1], not [1, 1]"),
        (expects([1], datatype="INT8"), answer("INT64", [1]), 'has the datatype "INT64"'),
        (expects([1]), answer("INT64", [1], name="X"), "the answer has no output 'OUT'"),
        (expects([1]), b"", "not an inference answer"),
        (expects([1]), b'{"outputs": 3}', "not an inference answer"),
    ],
)
def test_another_answer_is_wrong(expected: ExpectedAnswer, got: bytes, found: str) -> None:
    assert found in expected.differs(got)


# -- what an answer says ---------------------------------------------------------------------


def error(said: str) -> bytes:
    return json.dumps({"error": said}).encode()


RAISED = "Failed to process the request(s) for model 'm_0_0', message: ValueError: empty"


@pytest.mark.parametrize(
    ("status", "body", "judged"),
    [
        (200, b"{}", AnswerVerdict.GOOD),
        (500, error("Stub process 'm_0_0' is not healthy."), AnswerVerdict.BAD),
        (500, error(RAISED), AnswerVerdict.BAD),
        (404, error("Request for unknown model: 'm' has no available versions"), AnswerVerdict.BAD),
        (400, error("unexpected shape for input 'IN'"), AnswerVerdict.UNFIT),
        (500, error("Unable to parse 'data': …"), AnswerVerdict.UNFIT),
        (503, error("Exceeds maximum queue size"), AnswerVerdict.LATER),
        (502, b"<html>", AnswerVerdict.BAD),
    ],
)
def test_an_answer_to_a_written_request(status: int, body: bytes, judged: AnswerVerdict) -> None:
    found, said = judge(one(written()), status, body, proven=False)
    assert found is judged
    assert (said == "") is (judged is AnswerVerdict.GOOD)


def test_a_version_that_nobody_has_makes_the_request_unfit() -> None:
    request = one(written(version="9"))
    said = error("Request for unknown model: 'm' version 9 is not found")
    assert judge(request, 404, said, proven=False)[0] is AnswerVerdict.UNFIT


def test_a_wrong_answer_is_a_failure() -> None:
    request = one(written(expect={"outputs": [{"name": "OUT", "data": [1]}]}))
    assert judge(request, 200, answer("INT64", [2]), proven=False)[0] is AnswerVerdict.BAD
    assert judge(request, 200, answer("INT64", [1]), proven=False) == (AnswerVerdict.GOOD, "")


@pytest.mark.parametrize(
    ("proven", "judged"), [(False, AnswerVerdict.UNPROVEN), (True, AnswerVerdict.BAD)]
)
def test_a_models_own_error_to_zeros_counts_once_the_zeros_are_proven(
    proven: bool, judged: AnswerVerdict
) -> None:
    """A tokenizer may raise for an empty text, and be well."""
    request = MadeFrom("m").request()
    assert request is not None
    assert judge(request, 500, error(RAISED), proven=proven)[0] is judged


# -- made from the configuration -------------------------------------------------------------


def config(*inputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "m", "platform": "", "max_batch_size": 0, "input": list(inputs), **more}


def tensor(data_type: str, dims: list[int], **more: Any) -> dict[str, Any]:
    return {"name": "IN", "data_type": data_type, "dims": dims, "optional": False, **more}


@pytest.mark.parametrize(
    ("batch", "data_type", "dims", "shape", "data"),
    [
        (0, "TYPE_FP32", [-1, 3, -1], [1, 3, 1], bytes(12)),
        (8, "TYPE_FP32", [-1], [1, 1], bytes(4)),
        (8, "TYPE_INT64", [], [1], bytes(8)),
        (0, "TYPE_BOOL", [2], [2], bytes(2)),
        (0, "TYPE_STRING", [2], [2], bytes(8)),
    ],
)
def test_every_input_is_zero_or_empty(
    batch: int, data_type: str, dims: list[int], shape: list[int], data: bytes
) -> None:
    """The batch comes first; a text is empty."""
    request = made_from("m", config(tensor(data_type, dims), max_batch_size=batch)).request()
    assert request is not None
    length = int(dict(request.headers)["Inference-Header-Content-Length"])
    asked = json.loads(request.body[:length])
    assert asked["inputs"][0]["shape"] == shape
    assert request.body[length:] == data
    assert request.source == MADE
    echo("m", request.body, length)


def test_optional_inputs_are_left_out() -> None:
    made = made_from("m", config(tensor("TYPE_FP32", [1], optional=True)))
    assert (made.unsafe, made.inputs) == ("", ())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sequence_batching": {}}, "it keeps a state for each sequence"),
        ({"model_transaction_policy": {"decoupled": True}}, "it is decoupled"),
        ({"platform": "ensemble"}, "it is an ensemble"),
        (
            {"parameters": {"tarn_test_request": {"string_value": "none"}}},
            "its config.pbtxt says tarn_test_request = none",
        ),
        ({"input": [tensor("TYPE_INT32", [1], is_shape_tensor=True)]}, "is a shape"),
        ({"input": [tensor("TYPE_INVALID", [1])]}, "has the type INVALID"),
        ({"input": [tensor("TYPE_FP32", [1 << 20, 2])]}, "more than 4194304 bytes"),
        ({"input": [{"name": "IN"}]}, "has the type none"),
        ({"input": 3}, "cannot be read"),
        ({"input": [tensor("TYPE_FP32", ["x"])]}, "cannot be read"),
        ({"max_batch_size": "x"}, "cannot be read"),
        ({"parameters": [1]}, "cannot be read"),
    ],
)
def test_no_request_is_made_where_it_would_not_be_safe(changed: dict[str, Any], why: str) -> None:
    made = made_from("m", {**config(), **changed})
    assert why in made.unsafe
    assert made.request() is None


@pytest.mark.parametrize("decoupled", [{}, None, {"decoupled": False}])
def test_a_model_that_is_not_decoupled_is_safe(decoupled: object) -> None:
    assert made_from("m", config(model_transaction_policy=decoupled)).unsafe == ""


@pytest.mark.parametrize(
    ("groups", "copies"),
    [
        ([], 1),
        ([{"count": 2, "gpus": []}], 2),
        ([{"count": 2, "gpus": [0, 1]}, {"count": 1}], 5),
        ([{"count": 2, "passive": True}], 1),
        ([{"count": 1000}], MOST_COPIES),
        (3, 1),
        ([{"count": "x"}], 1),
    ],
)
def test_each_copy_of_the_model_gets_one(groups: Any, copies: int) -> None:
    """Of two copies one may be dead: then every second request fails."""
    assert made_from("m", config(instance_group=groups)).copies == copies
