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
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from tarn.triton.answers import Culprit, blame, error_line
from tarn.triton.tensors import FLOATS, flat, is_number, shown

__all__ = [
    "FILE",
    "MADE",
    "TOLERANCE",
    "WARM_UP",
    "AnswerVerdict",
    "ExpectedAnswer",
    "ExpectedOutput",
    "TestRequest",
    "judge",
]

FILE, WARM_UP, MADE = "file", "warm-up", "made"
"""Where a test request comes from."""
TOLERANCE = 1e-3
"""By how much a float may differ, relative to the largest one of its output: half precision, and
GPUs that add in another order, stay below."""

_OK, _NOT_FOUND = 200, 404
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


class AnswerVerdict(enum.Enum):
    """What one answer to a test request says."""

    GOOD = "good"
    BAD = "bad"
    LATER = "later"
    """Nothing yet: the queue is full."""
    UNPROVEN = "unproven"
    """Nothing yet: the model raises, perhaps for the zeros of a made request only."""
    UNFIT = "unfit"
    """Nothing, and the request will never say more: it is wrong itself."""


def judge(
    request: TestRequest, status: int, body: bytes, *, proven: bool
) -> tuple[AnswerVerdict, str]:
    """Return what an answer to *request* says of the instance, and why in words, empty when good.

    Args:
        request: What was asked.
        status: Of the answer.
        body: The same.
        proven: Another instance has answered the same request well.
    """
    if status == _OK:
        wrong = "" if request.expect is None else request.expect.differs(body)
        return (AnswerVerdict.BAD, wrong) if wrong else (AnswerVerdict.GOOD, "")
    said = error_line(body)
    if status == _NOT_FOUND and not request.version:
        return AnswerVerdict.BAD, said  # suspected of failing a model which it does not even have
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
