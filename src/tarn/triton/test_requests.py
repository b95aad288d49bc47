"""Test requests: one inference of ours, sent to an instance that seems to fail its users. Pure.

Health checks pass while requests fail, and a counter tells only that some did. A test request tells
whether the instance really fails, before it is replaced. It comes, in this order, from

1. the user's file (``instance.test_request``), which may say what the right answer is;
2. the warm-up request of the model (``instance.warmup``);
3. the model's own configuration, where the model is safe for it: every input zero, or empty.

An answer that refuses the request as wrong says nothing about the instance: then the request is
*unfit*, and the next source is taken. A model may raise for zeros only; so its own error to a made
request counts only after another instance has answered the same one well (it is *proven*).
"""

import enum
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import attrs

from tarn.domain.spec import NO_TEST
from tarn.triton.answers import Blame, blame, error_line

__all__ = [
    "FILE",
    "LONGEST_FILE",
    "MADE",
    "WARM_UP",
    "ExpectedAnswer",
    "Flaw",
    "Judged",
    "MadeFrom",
    "TestRequest",
    "judge",
    "made_from",
    "parse",
]

LONGEST_FILE = 64 * 1024
"""Bytes of the user's file: it travels with the submission. A larger input belongs into a warm-up
request, which lies in the repository."""
FILE, WARM_UP, MADE = "file", "warm-up", "made"
"""Where a test request comes from."""
TOLERANCE = 1e-3
"""By how much a float may differ, relative to the largest one of its output: half precision, and
GPUs that add in another order, stay below."""
MOST_COPIES = 8
"""Copies of a model in one instance (``instance_group``) that are tried, one after another."""
MOST_BYTES = 4 << 20
"""Of a request that is made; a model with larger inputs wants a request of the user's."""
_OPT_OUT = "tarn_test_request"
"""Parameter of a model's ``config.pbtxt``; with the value ``none`` no request is made for it."""

_OK, _NOT_FOUND = 200, 404
_KEYS = ("expect", "id", "inputs", "model", "outputs", "parameters", "version")
_SIZES = {
    "BOOL": 1,
    "UINT8": 1,
    "INT8": 1,
    "UINT16": 2,
    "INT16": 2,
    "FP16": 2,
    "BF16": 2,
    "UINT32": 4,
    "INT32": 4,
    "FP32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FP64": 8,
}
_FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})
_BYTES = "BYTES"
_ELSEWHERE = ("binary_data_size", "shared_memory_region")
Json = Mapping[str, Any]


@attrs.frozen
class ExpectedOutput:
    """One output of the right answer."""

    name: str
    data: tuple[Any, ...]
    """Its elements in a row."""
    shape: tuple[int, ...] | None = None
    datatype: str | None = None


@attrs.frozen
class ExpectedAnswer:
    """The outputs that the right answer has, among others perhaps."""

    outputs: tuple[ExpectedOutput, ...]
    tolerance: float = TOLERANCE

    def differs(self, body: bytes) -> str:
        """Return how the answer *body* differs, in words; empty: not at all."""
        try:
            said = json.loads(body)
            got = {one["name"]: one for one in said["outputs"]}
        except (ValueError, RecursionError, KeyError, TypeError):
            return "the answer is not an inference answer in JSON"
        for wanted in self.outputs:
            if wanted.name not in got:
                return f"the answer has no output '{wanted.name}'"
            if found := self._differs(wanted, got[wanted.name]):
                return f"wrong answer: output '{wanted.name}' {found}"
        return ""

    def _differs(self, wanted: ExpectedOutput, got: Json) -> str:
        for field in ("datatype", "shape"):
            expected, found = getattr(wanted, field), got.get(field)
            found = tuple(found) if isinstance(found, list) else found
            if expected is not None and found != expected:
                return f"has the {field} {_shown(found)}, not {_shown(expected)}"
        data = tuple(_flat(got.get("data")))
        if len(data) != len(wanted.data):
            return f"has {len(data)} elements, not {len(wanted.data)}"
        near = self.tolerance if got.get("datatype") in _FLOATS else 0.0
        near *= max((abs(one) for one in wanted.data if _is_number(one)), default=0.0)
        for number, (found, expected) in enumerate(zip(data, wanted.data, strict=True)):
            if not _same(found, expected, near):
                return f"is {_shown(found)} at {number}, not {_shown(expected)}"
        return ""


@attrs.frozen
class TestRequest:
    """One inference of ours, ready to be sent to ``/v2/models/<model>/infer``."""

    __test__ = False  # by its name it could be taken for a class of tests

    model: str
    body: bytes = attrs.field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    number: int = 1
    """Counts the test requests to one instance; a new number is a new test."""
    timeout_s: float = 10.0
    """For all of it: connect, ask, answer, of every copy."""
    version: str = ""
    """Of the model; empty: the newest that is served."""
    expect: ExpectedAnswer | None = attrs.field(default=None, repr=False)
    """None: any answer that is not an error is right."""
    source: str = FILE
    """Where it comes from: `FILE`, `WARM_UP` or `MADE`."""
    copies: int = 1
    """How many copies of the model the instance has: Triton gives them requests in turn, so that
    many are sent one after another, and each must be answered well."""

    @property
    def path(self) -> str:
        """Where it is sent."""
        version = f"/versions/{quote(self.version, safe='')}" if self.version else ""
        return f"/v2/models/{quote(self.model, safe='')}{version}/infer"

    @property
    def method(self) -> str:
        """How it is sent."""
        return "POST"


# -- what came of it -------------------------------------------------------------------------


class Judged(enum.Enum):
    """What one answer to a test request says."""

    GOOD = "good"
    BAD = "bad"
    LATER = "later"
    """Nothing yet: the queue is full."""
    UNPROVEN = "unproven"
    """Nothing yet: the model raises, perhaps for the zeros of a made request only."""
    UNFIT = "unfit"
    """Nothing, and the request will never say more: it is wrong itself."""


def judge(request: TestRequest, status: int, body: bytes, *, proven: bool) -> tuple[Judged, str]:
    """Return what an answer to *request* says of the instance, and why in words, empty when good.

    Args:
        request: What was asked.
        status: Of the answer.
        body: The same.
        proven: Another instance has answered the same request well.
    """
    if status == _OK:
        wrong = "" if request.expect is None else request.expect.differs(body)
        return (Judged.BAD, wrong) if wrong else (Judged.GOOD, "")
    said = error_line(body)
    if status == _NOT_FOUND and not request.version:
        return Judged.BAD, said  # suspected of failing a model which it does not even have
    match blame(status, said):
        case Blame.CALLER:
            return Judged.UNFIT, said
        case Blame.NOBODY:
            return Judged.LATER, said
        case Blame.MODEL if request.source == MADE and not proven:
            return Judged.UNPROVEN, said
        case _:
            return Judged.BAD, said


# -- made from the model's configuration -----------------------------------------------------


@attrs.frozen
class MadeFrom:
    """What a model's configuration says of a test request for it."""

    model: str
    copies: int = 1
    """How many copies one instance runs."""
    unsafe: str = ""
    """Why no request is made; empty: one can be."""
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """Name, data type and shape of each input that must be given."""

    def request(self) -> TestRequest | None:
        """Return a request of zeros and empty strings; None where none is safe.

        Source: Triton ``docs/protocol/extension_binary_data.md``: the tensors follow the JSON.
        """
        if self.unsafe:
            return None
        inputs, blobs = [], []
        for name, datatype, shape in self.inputs:
            blob = bytes(_size(datatype) * math.prod(shape))
            blobs.append(blob)
            parameters = {"binary_data_size": len(blob)}
            tensor = {"name": name, "datatype": datatype, "shape": list(shape)}
            inputs.append({**tensor, "parameters": parameters})
        asked = {"inputs": inputs, "parameters": {"binary_data_output": True}}
        head = json.dumps(asked).encode()
        return TestRequest(
            self.model,
            head + b"".join(blobs),
            (("Inference-Header-Content-Length", str(len(head))),),
            "application/octet-stream",
            source=MADE,
            copies=self.copies,
        )


def made_from(model: str, config: Json) -> MadeFrom:
    """Return what the answer of ``GET /v2/models/<model>/config`` says of a test request."""
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    try:
        copies = min(_copies(config), MOST_COPIES)
    except (TypeError, ValueError, AttributeError):
        copies = 1
    try:
        unsafe = _unsafe(config)
        if not unsafe:
            inputs = tuple(_inputs(config))
            if sum(_size(kind) * math.prod(shape) for _, kind, shape in inputs) > MOST_BYTES:
                unsafe = f"its inputs have more than {MOST_BYTES} bytes"
    except (KeyError, TypeError, ValueError, AttributeError):
        unsafe = "its configuration cannot be read"
    return MadeFrom(model, copies, unsafe, () if unsafe else inputs)


def _unsafe(config: Json) -> str:
    """Return why the model of *config* gets no made request; empty: it may."""
    if config.get("platform") == "ensemble":
        return "it is an ensemble: its parts are tried"
    if "sequence_batching" in config:
        return "it keeps a state for each sequence"
    if (config.get("model_transaction_policy") or {}).get("decoupled"):
        return "it is decoupled: it answers over gRPC only"
    chosen = (config.get("parameters") or {}).get(_OPT_OUT) or {}
    if chosen.get("string_value") == NO_TEST:
        return f"its config.pbtxt says {_OPT_OUT} = {NO_TEST}"
    reasons = (_unsafe_input(tensor) for tensor in config.get("input") or ())
    return next(filter(None, reasons), "")


def _unsafe_input(tensor: Json) -> str:
    if tensor.get("is_shape_tensor"):
        return "one of its inputs is a shape, which cannot be zero"
    datatype = _datatype(tensor)
    known = datatype == _BYTES or datatype in _SIZES
    return "" if known else f"one of its inputs has the type {datatype or 'none'}"


def _inputs(config: Json) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    batch = (1,) if int(config.get("max_batch_size") or 0) > 0 else ()
    for tensor in config.get("input") or ():
        if not tensor.get("optional"):
            dims = tuple(1 if int(size) < 0 else int(size) for size in tensor["dims"])
            yield str(tensor["name"]), _datatype(tensor), (*batch, *dims)


def _datatype(tensor: Json) -> str:
    """Return the data type as requests write it: ``TYPE_STRING`` is ``BYTES``."""
    name = str(tensor.get("data_type") or "").removeprefix("TYPE_")
    return _BYTES if name == "STRING" else name


def _size(datatype: str) -> int:
    """Return the bytes of one element that is zero; of a string, those of its length."""
    return struct.calcsize("<I") if datatype == _BYTES else _SIZES[datatype]


def _copies(config: Json) -> int:
    groups = config.get("instance_group") or ()
    return max(
        1,
        sum(
            int(group.get("count") or 1) * max(1, len(group.get("gpus") or ()))
            for group in groups
            if not group.get("passive")
        ),
    )


# -- written by a person ---------------------------------------------------------------------


@attrs.frozen
class Flaw:
    """One thing that is wrong with a person's test request."""

    where: str
    """Within the file, like ``inputs[0].data``; empty: the whole."""
    found: str
    right: str


def parse(text: bytes) -> tuple[tuple[TestRequest, ...], tuple[Flaw, ...]]:
    """Return the requests of a file, and all that is wrong with it: then there are none.

    The file holds one request or a list of requests, each for a model of its own.
    """
    if len(text) > LONGEST_FILE:
        right = f"at most {LONGEST_FILE} bytes; larger inputs fit into a warm-up request"
        return (), (Flaw("", f"has {len(text)} bytes", right),)
    try:
        read = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        return (), (Flaw("", "is nested too deep", _WHOLE),)
    except ValueError as error:
        return (), (Flaw("", f"is not JSON: {error}", _WHOLE),)
    several = isinstance(read, list)
    requests: list[TestRequest] = []
    flaws: list[Flaw] = []
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
            flaws.append(Flaw(where, f"'{request.model}' has a request already", "one for a model"))
        models.add(request.model)
        requests.append(request)
    if not requests and not flaws:
        flaws.append(Flaw("", "is an empty list", _WHOLE))
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
            tuple(_flat(one["data"])),
            tuple(one["shape"]) if "shape" in one else None,
            one.get("datatype"),
        )
        for one in expect["outputs"]
    )
    return ExpectedAnswer(outputs, expect.get("tolerance", TOLERANCE))


def _flaws(one: Any) -> Iterator[Flaw]:
    if not isinstance(one, dict):
        yield Flaw("", f"is {_shown(one)}", _WHOLE)
        return
    for key in one:
        if key not in _KEYS:
            yield Flaw(_key(key), "is not a part of a test request", f"one of {', '.join(_KEYS)}")
    for key, fits, right in _PARTS:
        if (key in one or key == "model") and not fits(one.get(key)):
            yield Flaw(key, _found(one, key), right)
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


def _input_flaws(one: Json) -> Iterator[Flaw]:
    inputs = one.get("inputs")
    if not isinstance(inputs, list):
        yield Flaw("inputs", _found(one, "inputs"), "a list of tensors")
        return
    for number, tensor in enumerate(inputs):
        where = f"inputs[{number}]"
        if not isinstance(tensor, dict):
            right = "a tensor with name, datatype, shape and data"
            yield Flaw(where, f"is {_shown(tensor)}", right)
            continue
        parameters = tensor.get("parameters")
        for name in _ELSEWHERE:
            if isinstance(parameters, dict) and name in parameters:
                yield _binary(f"{where}.parameters.{name}")
        yield from _tensor_flaws(tensor, where, required=("datatype", "shape"))


def _output_flaws(outputs: Any) -> Iterator[Flaw]:
    if not isinstance(outputs, list):
        yield Flaw("outputs", f"is {_shown(outputs)}", "a list of outputs, like [{'name': 'OUT'}]")
        return
    for number, output in enumerate(outputs):
        where = f"outputs[{number}]"
        if not isinstance(output, dict) or not isinstance(output.get("name"), str):
            yield Flaw(where, f"is {_shown(output)}", 'an output, like {"name": "OUT"}')
            continue
        parameters = output.get("parameters")
        for name in ("binary_data", "shared_memory_region"):
            if isinstance(parameters, dict) and parameters.get(name):
                yield _binary(f"{where}.parameters.{name}")


def _expect_flaws(expect: Any) -> Iterator[Flaw]:
    if not isinstance(expect, dict):
        yield Flaw("expect", f"is {_shown(expect)}", 'an object, like {"outputs": [...]}')
        return
    for key in expect:
        if key not in ("outputs", "tolerance"):
            yield Flaw(_join("expect", _key(key)), "is not known", "one of outputs, tolerance")
    tolerance = expect.get("tolerance", 0.0)
    if not _is_number(tolerance) or not 0 <= tolerance < 1:
        found = f"is {_shown(tolerance)}"
        yield Flaw("expect.tolerance", found, "a fraction of at least 0 and below 1, like 0.001")
    outputs = expect.get("outputs")
    if not isinstance(outputs, list) or not outputs:
        yield Flaw("expect.outputs", _found(expect, "outputs"), f"a list with {_OUTPUT}")
        return
    for number, output in enumerate(outputs):
        where = f"expect.outputs[{number}]"
        if not isinstance(output, dict):
            yield Flaw(where, f"is {_shown(output)}", _OUTPUT)
            continue
        yield from _tensor_flaws(output, where, required=())


def _tensor_flaws(tensor: Json, where: str, *, required: tuple[str, ...]) -> Iterator[Flaw]:
    """Yield what is wrong with a tensor of a request, or of an answer that is expected."""
    if not isinstance(tensor.get("name"), str) or not tensor["name"]:
        yield Flaw(f"{where}.name", _found(tensor, "name"), "the name of a tensor of the model")
    datatype, shape = tensor.get("datatype"), tensor.get("shape")
    if ("datatype" in (*tensor, *required)) and datatype not in (*_SIZES, _BYTES):
        right = f"one of {', '.join((*_SIZES, _BYTES))}"
        yield Flaw(f"{where}.datatype", _found(tensor, "datatype"), right)
        datatype = None
    if ("shape" in (*tensor, *required)) and not _is_shape(shape):
        right = "a list of whole numbers, like [1, 3]; the batch is one of them"
        yield Flaw(f"{where}.shape", _found(tensor, "shape"), right)
        shape = None
    if not isinstance(tensor.get("data"), list):
        yield Flaw(f"{where}.data", _found(tensor, "data"), "a list of the elements")
        return
    yield from _data_flaws(tuple(_flat(tensor["data"])), datatype, shape, f"{where}.data")


def _is_shape(one: Any) -> bool:
    return isinstance(one, list) and all(_is_whole(size) and size >= 0 for size in one)


def _data_flaws(
    data: tuple[Any, ...], datatype: str | None, shape: list[int] | None, where: str
) -> Iterator[Flaw]:
    if shape is not None and len(data) != math.prod(shape):
        right = f"{math.prod(shape)}, as the shape {shape} says"
        yield Flaw(where, f"has {len(data)} elements", right)
    fits, right = _FITS.get(datatype or "", (_is_element, "numbers, texts, or true and false"))
    for number, element in enumerate(data):
        if not fits(element):
            yield Flaw(where, f"is {_shown(element)} at {number}", right)
            return


def _whole_of(bits: int, *, signed: bool) -> tuple[Callable[[Any], bool], str]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    right = f"whole numbers from {low} to {high}"
    return (lambda one: _is_whole(one) and low <= one <= high), right


def _is_whole(one: Any) -> bool:
    return isinstance(one, int) and not isinstance(one, bool)


def _is_number(one: Any) -> bool:
    return isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)


def _is_element(one: Any) -> bool:
    return isinstance(one, str | bool) or _is_number(one)


_FITS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "BOOL": (lambda one: isinstance(one, bool), "true or false"),
    _BYTES: (lambda one: isinstance(one, str), "texts"),
    **dict.fromkeys(_FLOATS, (_is_number, "numbers")),
    **{f"INT{bits}": _whole_of(bits, signed=True) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": _whole_of(bits, signed=False) for bits in (8, 16, 32, 64)},
}


def _binary(where: str) -> Flaw:
    return Flaw(where, "asks for data outside of the JSON", "every tensor's data in the file")


def _flat(data: Any) -> Iterator[Any]:
    """Yield the elements of nested lists in a row, however deep they are."""
    waiting = [iter(data if isinstance(data, list) else [])]
    while waiting:
        for one in waiting[-1]:
            if isinstance(one, list):
                waiting.append(iter(one))
                break
            yield one
        else:
            waiting.pop()


def _same(found: Any, expected: Any, near: float) -> bool:
    if _is_number(found) and _is_number(expected):
        return bool(abs(found - expected) <= near)
    return type(found) is type(expected) and bool(found == expected)


def _found(one: Json, key: str) -> str:
    return f"is {_shown(one[key])}" if key in one else "is missing"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 (fits on a line)


def _key(key: str) -> str:
    return key if key.isidentifier() and len(key) <= 60 else _shown(key)  # noqa: PLR2004


def _join(start: str, rest: str) -> str:
    return f"{start}.{rest}" if start and rest else start or rest
