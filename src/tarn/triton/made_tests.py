"""Test requests made from a model's own configuration, where the model is safe for it. Pure."""

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tarn.domain.spec import NO_TEST
from tarn.triton.tensors import BYTES, SIZES, in_binary
from tarn.triton.test_requests import MADE, TestRequest

__all__ = ["MOST_BYTES", "MOST_COPIES", "MadeFrom", "made_from"]

MOST_COPIES = 8
"""Copies of a model in one instance (``instance_group``) that are tried, one after another."""
MOST_BYTES = 4 << 20
"""Of a request that is made; a model with larger inputs wants a request of the user's."""
_OPT_OUT = "tarn_test_request"
"""Parameter of a model's ``config.pbtxt``; with the value ``none`` no request is made for it."""

Json = Mapping[str, Any]


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
        """Return a request of zeros and empty strings; None where none is safe."""
        if self.unsafe:
            return None
        body, length = in_binary(
            (name, datatype, list(shape), bytes(_size(datatype) * math.prod(shape)))
            for name, datatype, shape in self.inputs
        )
        return TestRequest(
            self.model,
            body,
            (("Inference-Header-Content-Length", str(length)),),
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
        return "it is an ensemble, and its steps are tested instead"
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
    known = datatype == BYTES or datatype in SIZES
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
    return BYTES if name == "STRING" else name


def _size(datatype: str) -> int:
    """Return the bytes of one element that is zero; of a string, those of its length."""
    return struct.calcsize("<I") if datatype == BYTES else SIZES[datatype]


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
