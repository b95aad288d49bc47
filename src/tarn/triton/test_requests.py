"""Test requests: inferences that the master sends to an instance that seems to fail. Pure.

Health checks pass while requests fail, and a counter shows only that some did. A test request shows
whether the instance really fails, before it is replaced. It comes, in this order, from

1. the user's file (``instance.test_request``), which may contain the right answer;
2. the warm-up request of the model (``instance.warmup``);
3. the model's configuration, if that is safe for the model: every input zero or empty.

If the answer says that the request is wrong, it says nothing about the instance: the request is
*unfit*, and the next source is used. A model may raise an error only for zeros; so its error for a
made request counts only after another instance has answered it well, that is, it is *proven*.
"""

import enum
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import attrs

from tarn.triton.answers import Culprit, blame, error_line

__all__ = [
    "BYTES",
    "FILE",
    "FLOATS",
    "MADE",
    "SIZES",
    "TOLERANCE",
    "WARM_UP",
    "AnswerVerdict",
    "Canary",
    "ExpectedAnswer",
    "ExpectedOutput",
    "TestRequest",
    "canary",
    "flat",
    "given",
    "in_binary",
    "is_number",
    "judge",
    "shown",
]

SIZES = {
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
"""Bytes of one element by data type; elements of `BYTES` contain their length."""
FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})
BYTES = "BYTES"


def in_binary(inputs: Iterable[tuple[str, str, list[int], bytes]]) -> tuple[bytes, int]:
    """Return the body of a request with *inputs* in binary, and the length of its JSON.

    Args:
        inputs: Name, data type, shape and content of each.

    Source: Triton ``docs/protocol/extension_binary_data.md``: the tensors follow the JSON.
    """
    tensors, blobs = [], []
    for name, datatype, shape, blob in inputs:
        blobs.append(blob)
        tensor = {"name": name, "datatype": datatype, "shape": shape}
        tensors.append({**tensor, "parameters": {"binary_data_size": len(blob)}})
    asked = {"inputs": tensors, "parameters": {"binary_data_output": True}}
    head = json.dumps(asked).encode()
    return head + b"".join(blobs), len(head)


def flat(data: Any) -> Iterator[Any]:
    """Yield the elements of nested lists, at any depth."""
    waiting = [iter(data if isinstance(data, list) else [])]
    while waiting:
        for one in waiting[-1]:
            if isinstance(one, list):
                waiting.append(iter(one))
                break
            yield one
        else:
            waiting.pop()


def is_number(one: Any) -> bool:
    """Return whether *one* is a finite number of JSON."""
    return isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)


def shown(value: Any) -> str:
    """Return *value* as JSON, shortened to fit on a line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 (fits on a line)


FILE, WARM_UP, MADE = "file", "warm-up", "made"
"""The sources of a test request."""
TOLERANCE = 1e-3
"""The allowed difference of floats, relative to the largest one of the output: half precision, and
GPUs that add in another order, stay below it."""

_OK, _NOT_FOUND = 200, 404
Json = Mapping[str, Any]


@attrs.frozen
class ExpectedOutput:
    """One output of the right answer."""

    name: str
    data: tuple[Any, ...]
    """Its elements, flat."""
    shape: tuple[int, ...] | None = None
    datatype: str | None = None


@attrs.frozen
class ExpectedAnswer:
    """The expected outputs; the answer may have others."""

    outputs: tuple[ExpectedOutput, ...]
    tolerance: float = TOLERANCE

    def differs(self, body: bytes) -> str:
        """Return how the answer *body* differs, as text; empty if it does not."""
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
                return f"has the {field} {shown(found)}, not {shown(expected)}"
        data = tuple(flat(got.get("data")))
        if len(data) != len(wanted.data):
            return f"has {len(data)} elements, not {len(wanted.data)}"
        near = self.tolerance if got.get("datatype") in FLOATS else 0.0
        near *= max((abs(one) for one in wanted.data if is_number(one)), default=0.0)
        for number, (found, expected) in enumerate(zip(data, wanted.data, strict=True)):
            if not _same(found, expected, near):
                return f"is {shown(found)} at {number}, not {shown(expected)}"
        return ""


@attrs.frozen
class TestRequest:
    """One test request to ``/v2/models/<model>/infer``."""

    __test__ = False  # for collectors of tests, which look at names only

    model: str
    body: bytes = attrs.field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    number: int = 1
    """The number of the test of one instance; a new number is a new test."""
    timeout_s: float = 10.0
    """For the whole test, of all copies."""
    version: str = ""
    """The model's version; empty for the newest that is served."""
    expect: ExpectedAnswer | None = attrs.field(default=None, repr=False)
    """The expected answer; None if every answer without an error is right."""
    source: str = FILE
    """`FILE`, `WARM_UP` or `MADE`."""
    copies: int = 1
    """The copies of the model in the instance. Triton gives them requests in turn, so one request
    is sent for each, one after another, and all must be answered well."""

    @property
    def path(self) -> str:
        """The path of its URL."""
        version = f"/versions/{quote(self.version, safe='')}" if self.version else ""
        return f"/v2/models/{quote(self.model, safe='')}{version}/infer"

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "POST"


class AnswerVerdict(enum.Enum):
    """What an answer to a test request says about the instance."""

    GOOD = "good"
    BAD = "bad"
    LATER = "later"
    """Nothing yet: the queue is full."""
    UNPROVEN = "unproven"
    """Nothing yet: the model raises an error, perhaps only for the zeros of a made request."""
    UNFIT = "unfit"
    """Nothing, now or later: the request itself is wrong."""


def judge(
    request: TestRequest, status: int, body: bytes, *, proven: bool
) -> tuple[AnswerVerdict, str]:
    """Return the verdict on an answer to *request*, and the reason if it is not good.

    Args:
        request: The test request.
        status: The HTTP status of the answer.
        body: The body of the answer.
        proven: Whether another instance has answered the same request well.
    """
    if status == _OK:
        wrong = "" if request.expect is None else request.expect.differs(body)
        return (AnswerVerdict.BAD, wrong) if wrong else (AnswerVerdict.GOOD, "")
    said = error_line(body)
    if status == _NOT_FOUND and not request.version:
        return AnswerVerdict.BAD, said  # the instance does not have the model at all
    match blame(status, said):
        case Culprit.CALLER:
            return AnswerVerdict.UNFIT, said
        case Culprit.NOBODY:
            return AnswerVerdict.LATER, said
        case Culprit.MODEL if request.source == MADE and not proven:
            return AnswerVerdict.UNPROVEN, said
        case _:
            return AnswerVerdict.BAD, said


def _same(found: Any, expected: Any, near: float) -> bool:
    if is_number(found) and is_number(expected):
        return bool(abs(found - expected) <= near)
    return type(found) is type(expected) and bool(found == expected)


# One element of a BYTES input, valid as a text and as a number.
_TEXT = b"0"


@attrs.frozen
class Canary:
    """One request to ``/v2/models/<name>/infer``, in bytes."""

    model: str
    body: bytes = attrs.field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def canary(metadata: Mapping[str, Any]) -> Canary:
    """Return a request with zeros in every input and 1 for each dynamic dimension.

    Args:
        metadata: The answer of ``GET /v2/models/<name>``.

    Raises:
        ValueError: An input has a data type that Triton's documentation does not name.
    """
    inputs: list[tuple[str, str, list[int], bytes]] = []
    for tensor in metadata.get("inputs", ()):
        shape = [1 if size < 0 else size for size in tensor["shape"]]
        blob = _zeros(tensor["datatype"], math.prod(shape))
        inputs.append((tensor["name"], tensor["datatype"], shape, blob))
    body, length = in_binary(inputs)
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Inference-Header-Content-Length", str(length)),
    )
    return Canary(str(metadata["name"]), body, headers)


def given(model: str, body: bytes) -> Canary:
    """Return a request with a user's JSON *body*."""
    return Canary(model, body, (("Content-Type", "application/json"),))


def _zeros(datatype: str, count: int) -> bytes:
    if datatype == BYTES:
        return (struct.pack("<I", len(_TEXT)) + _TEXT) * count
    if datatype not in SIZES:
        raise ValueError(f"no request can be made for an input of type {datatype}")
    return bytes(SIZES[datatype] * count)
