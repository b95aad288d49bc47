"""An inference request that any model takes, made from its metadata. Pure."""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["Canary", "canary", "given"]

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

    Source: Triton ``docs/protocol/extension_binary_data.md``: the tensors follow the JSON.
    """
    inputs, blobs = [], []
    for tensor in metadata.get("inputs", ()):
        shape = [1 if size < 0 else size for size in tensor["shape"]]
        blob = _zeros(tensor["datatype"], math.prod(shape))
        blobs.append(blob)
        named = {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape}
        inputs.append({**named, "parameters": {"binary_data_size": len(blob)}})
    asked = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    head = json.dumps(asked).encode()
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Inference-Header-Content-Length", str(len(head))),
    )
    return Canary(str(metadata["name"]), head + b"".join(blobs), headers)


def given(model: str, body: bytes) -> Canary:
    """Return a request with the JSON *body* that somebody wrote."""
    return Canary(model, body, (("Content-Type", "application/json"),))


def _zeros(datatype: str, count: int) -> bytes:
    if datatype == "BYTES":
        return (struct.pack("<I", len(_TEXT)) + _TEXT) * count
    if datatype not in _SIZES:
        raise ValueError(f"no request can be made for an input of type {datatype}")
    return bytes(_SIZES[datatype] * count)
