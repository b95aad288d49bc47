"""Inputs and outputs of a model, as its file has them or as the user says."""

import importlib
import re
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import ConfigError, ProviderMissingError

__all__ = ["Kind", "Signature", "Tensor", "given", "read"]

KINDS = {".onnx": "onnx", ".pt": "torchscript", ".pth": "torchscript", ".joblib": "sklearn"}
# Of ONNX' TensorProto.DataType, by its numbers.
# Source: onnx/onnx.proto, enum DataType; Triton's ``model_config.proto``, enum DataType.
ONNX_TYPES = {
    1: "FP32",
    2: "UINT8",
    3: "INT8",
    4: "UINT16",
    5: "INT16",
    6: "INT32",
    7: "INT64",
    8: "STRING",
    9: "BOOL",
    10: "FP16",
    11: "FP64",
    12: "UINT32",
    13: "UINT64",
}
TYPES = frozenset({*ONNX_TYPES.values(), "BF16"})
_WRITTEN = re.compile(r"(?P<name>[^:=]+):(?P<type>[A-Z0-9]+):(?P<dims>-?\d+(,-?\d+)*)")
Kind = str


@attrs.frozen
class Tensor:
    """One input or output."""

    name: str
    datatype: str
    """Triton's name without ``TYPE_``: ``FP32``."""
    dims: tuple[int, ...]
    """-1: any size. Without the batch, if the model takes batches."""


@attrs.frozen
class Signature:
    """What a model takes and gives."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    batches: bool = False
    """Whether the first axis, which is not among the dims, is that of a batch."""


def kind_of(path: Path) -> Kind:
    """Return the kind of model in the file *path*, by its suffix.

    Raises:
        ConfigError: It is none that is known.
    """
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(
            f"'{path.name}' has a suffix that is not known",
            where="--from",
            right=f"Expected {', '.join(KINDS)}, or the word python",
        )
    return kind


def given(text: str, option: str) -> Tensor:
    """Return the tensor that ``NAME:TYPE:DIMS`` means.

    Raises:
        ConfigError: *text* is not written like that; the error names *option*.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None or found["type"] not in TYPES:
        raise ConfigError(
            f"'{text}' does not describe a tensor",
            where=option,
            right=f"Expected NAME:TYPE:DIMS, like IN:FP32:-1,3; types are {', '.join(sorted(TYPES))}",
        )
    return Tensor(found["name"], found["type"], tuple(map(int, found["dims"].split(","))))


def read(path: Path) -> Signature | None:
    """Return the signature in the file *path*; None where files of its kind have none.

    Raises:
        ProviderMissingError: The package that reads it is not installed.
        ConfigError: The file cannot be read, or uses what Triton does not have.
    """
    return _onnx(path) if kind_of(path) == "onnx" else None


def _onnx(path: Path) -> Signature:
    try:
        onnx: Any = importlib.import_module("onnx")
    except ImportError as error:
        raise ProviderMissingError(
            "a .onnx file is read with the package onnx, which is not installed",
            where="--from",
            next_step="pip install onnx; or describe the model with --input and --output",
        ) from error
    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except Exception as error:  # noqa: BLE001 (protobuf has its own family of errors)
        raise ConfigError(f"'{path}' is not an ONNX model: {error}", where="--from") from error
    constants = {one.name for one in graph.initializer}
    inputs = [_tensor(one) for one in graph.input if one.name not in constants]
    outputs = [_tensor(one) for one in graph.output]
    # An axis that is open in every tensor is that of a batch, as exporters write it.
    batches = all(one.dims and one.dims[0] == -1 for one in (*inputs, *outputs))
    if batches:
        inputs, outputs = ([attrs.evolve(t, dims=t.dims[1:]) for t in x] for x in (inputs, outputs))
    return Signature(tuple(inputs), tuple(outputs), batches)


def _tensor(value: Any) -> Tensor:
    tensor = value.type.tensor_type
    datatype = ONNX_TYPES.get(tensor.elem_type)
    if datatype is None:
        raise ConfigError(
            f"'{value.name}' has the ONNX type {tensor.elem_type}, which Triton does not have",
            where="--from",
        )
    sizes = tensor.shape.dim if tensor.HasField("shape") else ()
    dims = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else -1 for d in sizes)
    return Tensor(value.name, datatype, dims)
