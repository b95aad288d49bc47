"""Inputs and outputs of a model, as its file has them or as the user names them."""

import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import ConfigError, ProviderMissingError

__all__ = ["DATATYPES", "ModelSignature", "TensorShape", "kind_of", "named", "signature_of"]

KINDS = {
    ".onnx": "onnx",
    ".pt": "torchscript",
    ".pth": "torchscript",
    ".joblib": "sklearn",
}
_ONNX_DATATYPES = {
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
"""Number in ONNX (``TensorProto.DataType`` of onnx.proto) -> name in Triton."""
DATATYPES = frozenset(_ONNX_DATATYPES.values())
"""Triton's names (``DataType`` of model_config.proto) without ``TYPE_``, where NumPy has them."""
_WRITTEN = re.compile(r"(?P<name>[^:]+):(?P<datatype>[A-Z0-9]+):(?P<dims>-?\d+(,-?\d+)*)")


@attrs.frozen
class TensorShape:
    """One input or output."""

    name: str
    datatype: str
    """One of `DATATYPES`."""
    dims: tuple[int, ...]
    """-1: any size. Without the axis of a batch."""


@attrs.frozen
class ModelSignature:
    """What a model takes and returns."""

    inputs: tuple[TensorShape, ...]
    outputs: tuple[TensorShape, ...]
    batches: bool = False
    """Whether each tensor has one more axis in front, that of a batch."""


# A program to begin with: it doubles its input.
_DOUBLES = ModelSignature((TensorShape("IN", "FP32", (-1,)),), (TensorShape("OUT", "FP32", (-1,)),))
# Estimators take rows of numbers.
_ROWS = attrs.evolve(_DOUBLES, batches=True)


def kind_of(source: str) -> str:
    """Return ``python``, ``onnx``, ``torchscript`` or ``sklearn`` for the value of ``--from``.

    Raises:
        ConfigError: It is a file of another kind, or none.
    """
    if source == "python":
        return source
    path = Path(source)
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(
            f"'{source}' ends in nothing that is known",
            where="--from",
            right=f"Expected a file ({', '.join(KINDS)}), or the word python",
        )
    if not path.is_file():
        raise ConfigError(f"there is no file '{source}'", where="--from")
    return kind


def named(texts: Iterable[str], option: str) -> tuple[TensorShape, ...]:
    """Return what the values ``NAME:TYPE:DIMS`` of *option* mean.

    Raises:
        ConfigError: One is not written like that.
    """
    found = []
    for text in texts:
        parts = _WRITTEN.fullmatch(text)
        if parts is None or parts["datatype"] not in DATATYPES:
            raise ConfigError(
                f"'{text}' does not describe a tensor",
                where=option,
                right="Expected NAME:TYPE:DIMS, as in IN:FP32:-1,3; the types are "
                f"{', '.join(sorted(DATATYPES))}",
            )
        dims = tuple(map(int, parts["dims"].split(",")))
        found.append(TensorShape(parts["name"], parts["datatype"], dims))
    return tuple(found)


def signature_of(
    source: str, inputs: tuple[TensorShape, ...], outputs: tuple[TensorShape, ...]
) -> ModelSignature:
    """Return the signature of the model in *source*; *inputs* and *outputs* are what was named.

    Raises:
        ConfigError: The file cannot be read, has a type that Triton lacks, or says nothing about
            its tensors and they were not named.
        ProviderMissingError: The package ``onnx`` is needed and not installed.
    """
    kind = kind_of(source)
    if inputs and outputs:
        return ModelSignature(inputs, outputs)
    if inputs or outputs:
        option = "--output" if inputs else "--input"
        raise ConfigError("missing: inputs and outputs are named together", where=option)
    if kind == "torchscript":
        raise ConfigError(
            "a TorchScript file does not say which tensors it takes and returns",
            where="--from",
            next_step="Name them: --input IN:FP32:1,3,224,224 --output OUT:FP32:1,1000",
        )
    if kind == "onnx":
        return _onnx(source)
    return _ROWS if kind == "sklearn" else _DOUBLES


def _onnx(source: str) -> ModelSignature:
    try:
        onnx: Any = importlib.import_module("onnx")
    except ImportError as error:
        raise ProviderMissingError(
            "the Python package onnx reads such a file, and is not installed",
            where="--from",
            next_step="pip install onnx; or name the tensors with --input and --output",
        ) from error
    try:
        graph = onnx.load(source, load_external_data=False).graph
    except Exception as error:  # protobuf raises errors of its own
        raise ConfigError(f"'{source}' is not an ONNX model: {error}", where="--from") from error
    constants = {one.name for one in graph.initializer}
    inputs = [_tensor(one) for one in graph.input if one.name not in constants]
    outputs = [_tensor(one) for one in graph.output]
    # Exporters leave the axis of a batch open, in every tensor.
    batches = all(one.dims and one.dims[0] == -1 for one in (*inputs, *outputs))
    if batches:
        inputs, outputs = ([attrs.evolve(t, dims=t.dims[1:]) for t in x] for x in (inputs, outputs))
    return ModelSignature(tuple(inputs), tuple(outputs), batches)


def _tensor(value: Any) -> TensorShape:
    tensor = value.type.tensor_type
    datatype = _ONNX_DATATYPES.get(tensor.elem_type)
    if datatype is None:
        raise ConfigError(
            f"'{value.name}' has type {tensor.elem_type} of ONNX, which Triton cannot pass on",
            where="--from",
        )
    sizes = tensor.shape.dim if tensor.HasField("shape") else ()
    dims = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else -1 for d in sizes)
    return TensorShape(value.name, datatype, dims)
