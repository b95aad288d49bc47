"""Reads the user's file of test requests, and finds all its flaws. Pure."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tarn.triton.test_requests import (
    BYTES,
    FLOATS,
    SIZES,
    TOLERANCE,
    ExpectedAnswer,
    ExpectedOutput,
    TestRequest,
    flat,
    is_number,
    shown,
)

__all__ = ["LONGEST_FILE", "RequestFlaw", "parse"]

LONGEST_FILE = 64 * 1024
"""Bytes of the user's file, which is sent with the submission. A larger input belongs into a
warm-up request in the repository."""

_KEYS = ("expect", "id", "inputs", "model", "outputs", "parameters", "version")
_ELSEWHERE = ("binary_data_size", "shared_memory_region")
Json = Mapping[str, Any]


@attrs.frozen
class RequestFlaw:
    """One flaw of a user's test request."""

    where: str
    """The place in the file, such as ``inputs[0].data``; empty for the whole file."""
    found: str
    right: str


def parse(text: bytes) -> tuple[tuple[TestRequest, ...], tuple[RequestFlaw, ...]]:
    """Return the requests in a file, or none and all its flaws.

    The file contains one request or a list of requests, each for another model.
    """
    if len(text) > LONGEST_FILE:
        right = f"at most {LONGEST_FILE} bytes; use a warm-up request for larger inputs"
        return (), (RequestFlaw("", f"has {len(text)} bytes", right),)
    try:
        read = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        return (), (RequestFlaw("", "is nested too deep", _WHOLE),)
    except ValueError as error:
        return (), (RequestFlaw("", f"is not JSON: {error}", _WHOLE),)
    several = isinstance(read, list)
    requests: list[TestRequest] = []
    flaws: list[RequestFlaw] = []
    models: set[str] = set()
    for number, one in enumerate(read if several else [read]):
        start = f"[{number}]" if several else ""
        found = tuple(_flaws(one))
        flaws += (attrs.evolve(flaw, where=_join(start, flaw.where)) for flaw in found)
        if found:
            continue
        request = _request(one)
        if request.model in models:
            where = _join(start, "model")
            flaws.append(
                RequestFlaw(where, f"'{request.model}' has a request already", "one for each model")
            )
        models.add(request.model)
        requests.append(request)
    if not requests and not flaws:
        flaws.append(RequestFlaw("", "is an empty list", _WHOLE))
    return ((), tuple(flaws)) if flaws else (tuple(requests), ())


_WHOLE = (
    'a JSON object like {"model": "ocr", "inputs": [{"name": "IN", "datatype": "FP32", '
    '"shape": [1], "data": [0.5]}]}, or a list of such objects'
)
_OUTPUT = 'an output of the right answer, like {"name": "OUT", "data": [0.5]}'


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _request(one: Json) -> TestRequest:
    asked = {key: value for key, value in one.items() if key not in ("model", "version", "expect")}
    expect = one.get("expect")
    return TestRequest(
        one["model"],
        json.dumps(asked).encode(),
        version=one.get("version", ""),
        expect=None if expect is None else _expected(expect),
    )


def _expected(expect: Json) -> ExpectedAnswer:
    outputs = tuple(
        ExpectedOutput(
            one["name"],
            tuple(flat(one["data"])),
            tuple(one["shape"]) if "shape" in one else None,
            one.get("datatype"),
        )
        for one in expect["outputs"]
    )
    return ExpectedAnswer(outputs, expect.get("tolerance", TOLERANCE))


def _flaws(one: Any) -> Iterator[RequestFlaw]:
    if not isinstance(one, dict):
        yield RequestFlaw("", f"is {shown(one)}", _WHOLE)
        return
    for key in one:
        if key not in _KEYS:
            yield RequestFlaw(
                _key(key), "is not a part of a test request", f"one of {', '.join(_KEYS)}"
            )
    for key, fits, right in _PARTS:
        if (key in one or key == "model") and not fits(one.get(key)):
            yield RequestFlaw(key, _found(one, key), right)
    parameters = one.get("parameters")
    if isinstance(parameters, dict) and parameters.get("binary_data_output"):
        yield _binary("parameters.binary_data_output")
    yield from _input_flaws(one)
    yield from _output_flaws(one.get("outputs", []))
    if "expect" in one:
        yield from _expect_flaws(one["expect"])


def _is_version(one: Any) -> bool:
    return isinstance(one, str) and one.isascii() and one.isdigit()


_PARTS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "model",
        lambda one: isinstance(one, str) and bool(one),
        "the name of a model of the repository",
    ),
    ("version", _is_version, 'the number of a version as text, like "1"'),
    ("id", lambda one: isinstance(one, str), "a text"),
    ("parameters", lambda one: isinstance(one, dict), "a JSON object"),
)


def _input_flaws(one: Json) -> Iterator[RequestFlaw]:
    inputs = one.get("inputs")
    if not isinstance(inputs, list):
        yield RequestFlaw("inputs", _found(one, "inputs"), "a list of tensors")
        return
    for number, tensor in enumerate(inputs):
        where = f"inputs[{number}]"
        if not isinstance(tensor, dict):
            right = "a tensor with name, datatype, shape and data"
            yield RequestFlaw(where, f"is {shown(tensor)}", right)
            continue
        parameters = tensor.get("parameters")
        for name in _ELSEWHERE:
            if isinstance(parameters, dict) and name in parameters:
                yield _binary(f"{where}.parameters.{name}")
        yield from _tensor_flaws(tensor, where, required=("datatype", "shape"))


def _output_flaws(outputs: Any) -> Iterator[RequestFlaw]:
    if not isinstance(outputs, list):
        yield RequestFlaw(
            "outputs", f"is {shown(outputs)}", "a list of outputs, like [{'name': 'OUT'}]"
        )
        return
    for number, output in enumerate(outputs):
        where = f"outputs[{number}]"
        if not isinstance(output, dict) or not isinstance(output.get("name"), str):
            yield RequestFlaw(where, f"is {shown(output)}", 'an output, like {"name": "OUT"}')
            continue
        parameters = output.get("parameters")
        for name in ("binary_data", "shared_memory_region"):
            if isinstance(parameters, dict) and parameters.get(name):
                yield _binary(f"{where}.parameters.{name}")


def _expect_flaws(expect: Any) -> Iterator[RequestFlaw]:
    if not isinstance(expect, dict):
        yield RequestFlaw("expect", f"is {shown(expect)}", 'an object, like {"outputs": [...]}')
        return
    for key in expect:
        if key not in ("outputs", "tolerance"):
            yield RequestFlaw(
                _join("expect", _key(key)), "is not known", "one of outputs, tolerance"
            )
    tolerance = expect.get("tolerance", 0.0)
    if not is_number(tolerance) or not 0 <= tolerance < 1:
        found = f"is {shown(tolerance)}"
        yield RequestFlaw(
            "expect.tolerance", found, "a fraction of at least 0 and below 1, like 0.001"
        )
    outputs = expect.get("outputs")
    if not isinstance(outputs, list) or not outputs:
        yield RequestFlaw("expect.outputs", _found(expect, "outputs"), f"a list with {_OUTPUT}")
        return
    for number, output in enumerate(outputs):
        where = f"expect.outputs[{number}]"
        if not isinstance(output, dict):
            yield RequestFlaw(where, f"is {shown(output)}", _OUTPUT)
            continue
        yield from _tensor_flaws(output, where, required=())


def _tensor_flaws(tensor: Json, where: str, *, required: tuple[str, ...]) -> Iterator[RequestFlaw]:
    """Yield the flaws of a tensor in a request or an expected answer."""
    if not isinstance(tensor.get("name"), str) or not tensor["name"]:
        yield RequestFlaw(
            f"{where}.name", _found(tensor, "name"), "the name of a tensor of the model"
        )
    datatype, shape = tensor.get("datatype"), tensor.get("shape")
    if ("datatype" in (*tensor, *required)) and datatype not in (*SIZES, BYTES):
        right = f"one of {', '.join((*SIZES, BYTES))}"
        yield RequestFlaw(f"{where}.datatype", _found(tensor, "datatype"), right)
        datatype = None
    if ("shape" in (*tensor, *required)) and not _is_shape(shape):
        right = "a list of whole numbers, like [1, 3]; the batch size is one of them"
        yield RequestFlaw(f"{where}.shape", _found(tensor, "shape"), right)
        shape = None
    if not isinstance(tensor.get("data"), list):
        yield RequestFlaw(f"{where}.data", _found(tensor, "data"), "a list of the elements")
        return
    yield from _data_flaws(tuple(flat(tensor["data"])), datatype, shape, f"{where}.data")


def _is_shape(one: Any) -> bool:
    return isinstance(one, list) and all(_is_whole(size) and size >= 0 for size in one)


def _data_flaws(
    data: tuple[Any, ...], datatype: str | None, shape: list[int] | None, where: str
) -> Iterator[RequestFlaw]:
    if shape is not None and len(data) != math.prod(shape):
        right = f"{math.prod(shape)}, as the shape {shape} says"
        yield RequestFlaw(where, f"has {len(data)} elements", right)
    fits, right = _FITS.get(datatype or "", (_is_element, "numbers, texts, or true and false"))
    for number, element in enumerate(data):
        if not fits(element):
            yield RequestFlaw(where, f"is {shown(element)} at {number}", right)
            return


def _whole_of(bits: int, *, signed: bool) -> tuple[Callable[[Any], bool], str]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    right = f"whole numbers from {low} to {high}"
    return (lambda one: _is_whole(one) and low <= one <= high), right


def _is_whole(one: Any) -> bool:
    return isinstance(one, int) and not isinstance(one, bool)


def _is_element(one: Any) -> bool:
    return isinstance(one, str | bool) or is_number(one)


_FITS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "BOOL": (lambda one: isinstance(one, bool), "true or false"),
    BYTES: (lambda one: isinstance(one, str), "texts"),
    **dict.fromkeys(FLOATS, (is_number, "numbers")),
    **{f"INT{bits}": _whole_of(bits, signed=True) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": _whole_of(bits, signed=False) for bits in (8, 16, 32, 64)},
}


def _binary(where: str) -> RequestFlaw:
    return RequestFlaw(
        where, "refers to data outside of the JSON", "every tensor's data in the file"
    )


def _found(one: Json, key: str) -> str:
    return f"is {shown(one[key])}" if key in one else "is missing"


def _key(key: str) -> str:
    return key if key.isidentifier() and len(key) <= 60 else shown(key)  # noqa: PLR2004


def _join(start: str, rest: str) -> str:
    return f"{start}.{rest}" if start and rest else start or rest
