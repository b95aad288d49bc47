"""An inference request that any model takes, made from its metadata. Pure."""

import math
import struct
from collections.abc import Mapping
from typing import Any

import attrs

from tarn.triton.tensors import BYTES, SIZES, in_binary

__all__ = ["Canary", "canary", "given"]

_TEXT = b"0"
"""One element of a BYTES input: text and a number alike."""


@attrs.frozen
class Canary:
    """One request, as it goes over the wire to ``/v2/models/<name>/infer``."""

    model: str
    body: bytes = attrs.field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def canary(metadata: Mapping[str, Any]) -> Canary:
    """Return a request with every input zero, each dynamic dimension 1.

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
    """Return a request with the JSON *body* that somebody wrote."""
    return Canary(model, body, (("Content-Type", "application/json"),))


def _zeros(datatype: str, count: int) -> bytes:
    if datatype == BYTES:
        return (struct.pack("<I", len(_TEXT)) + _TEXT) * count
    if datatype not in SIZES:
        raise ValueError(f"no request can be made for an input of type {datatype}")
    return bytes(SIZES[datatype] * count)
