"""What the tensors of requests and answers are made of. Pure."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["BYTES", "FLOATS", "SIZES", "flat", "in_binary", "is_number", "shown"]

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
"""Data type to the bytes of one element; elements of `BYTES` have a length of their own."""
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


def is_number(one: Any) -> bool:
    """Return whether *one* is a finite number of JSON."""
    return isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)


def shown(value: Any) -> str:
    """Return *value* as JSON for people, shortened to fit on a line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 (fits on a line)
