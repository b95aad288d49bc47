"""The files of a new model: configuration, program, request. Pure."""

import json
import math
from collections.abc import Iterable, Mapping

import attrs

from tarn_plugins.cli.new.signature import Kind, Signature, Tensor

__all__ = ["DOUBLER", "Draft", "config", "files", "request"]

BATCH = 8
DOUBLER = Signature((Tensor("IN", "FP32", (-1,)),), (Tensor("OUT", "FP32", (-1,)),))
"""Of the program that one begins with: it doubles its input."""
_BACKENDS = {"onnx": "onnxruntime", "torchscript": "pytorch"}
_NAMES = {"onnx": "model.onnx", "torchscript": "model.pt", "sklearn": "model.joblib"}
_HEAD = '''"""{name}: {what}."""

import numpy as np
import triton_python_backend_utils as pb
'''
_PYTHON = (
    _HEAD
    + '''

class TritonPythonModel:
    """One copy of the model. Triton calls these methods on one thread."""

    def initialize(self, args):
        """Load what the model needs; an error here is shown by `tarn why`."""

    def execute(self, requests):
        """Answer each request."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        values = pb.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb.InferenceResponse([pb.Tensor("OUT", 2 * values)])
'''
)
_LOADS = {
    "onnx": '''        import onnxruntime

        path = f"{args['model_repository']}/{args['model_version']}/model.onnx"
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def compute(self, inputs):
        return self.session.run(OUTPUTS, dict(zip(INPUTS, inputs)))
''',
    "torchscript": '''        import torch

        path = f"{args['model_repository']}/{args['model_version']}/model.pt"
        self.torch, self.model = torch, torch.jit.load(path).eval()

    def compute(self, inputs):
        with self.torch.inference_mode():
            found = self.model(*(self.torch.from_numpy(one) for one in inputs))
        found = found if isinstance(found, (tuple, list)) else [found]
        return [one.numpy() for one in found]
''',
    "sklearn": '''        import joblib

        path = f"{args['model_repository']}/{args['model_version']}/model.joblib"
        self.model = joblib.load(path)

    def compute(self, inputs):
        return [self.model.predict(inputs[0])]
''',
}
_LOADED = (
    _HEAD
    + '''
INPUTS = {inputs}
OUTPUTS = {outputs}


class TritonPythonModel:
    """One copy of the model. Triton calls these methods on one thread."""

    def initialize(self, args):
{loads}
    def execute(self, requests):
        """Answer each request."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        inputs = [pb.get_input_tensor_by_name(request, name).as_numpy() for name in INPUTS]
        types = [pb.triton_string_to_numpy(one) for one in TYPES]
        found = zip(OUTPUTS, types, self.compute(inputs))
        tensors = [pb.Tensor(name, np.asarray(one, kind)) for name, kind, one in found]
        return pb.InferenceResponse(tensors)
'''
)


@attrs.frozen
class Draft:
    """What a new model is made of."""

    name: str
    kind: Kind
    """``python``, ``onnx``, ``torchscript`` or ``sklearn``."""
    signature: Signature
    for_wheel: bool
    """For the Triton of the wheel, which has the Python back end alone."""

    @property
    def by_python(self) -> bool:
        """Whether the Python back end runs it."""
        return self.for_wheel or self.kind not in _BACKENDS

    @property
    def model_file(self) -> str:
        """The name of the user's file in the version's directory; empty: there is none."""
        return _NAMES.get(self.kind, "")


def files(draft: Draft) -> Mapping[str, str]:
    """Return the texts of a new model by their paths in its directory."""
    made = {"config.pbtxt": config(draft), "request.json": request(draft.signature)}
    if draft.by_python:
        made["1/model.py"] = _program(draft)
    return made


def config(draft: Draft) -> str:
    """Return its ``config.pbtxt``."""
    signature = draft.signature
    backend = "python" if draft.by_python else _BACKENDS[draft.kind]
    return "\n".join(
        (
            f'name: "{draft.name}"',
            f'backend: "{backend}"',
            f"max_batch_size: {BATCH if signature.batches else 0}",
            "",
            f"input [{_tensors(signature.inputs)}]",
            f"output [{_tensors(signature.outputs)}]",
            "",
            "# One copy on the CPU; KIND_GPU with `instance.resources.gpus` in tarn.yaml.",
            "instance_group [{ kind: KIND_CPU, count: 1 }]",
            "",
        )
    )


def request(signature: Signature) -> str:
    """Return an inference request of zeros, for ``/v2/models/<name>/infer``."""
    inputs = []
    for one in signature.inputs:
        shape = [*([1] if signature.batches else ()), *(1 if d < 0 else d for d in one.dims)]
        zero: object = "" if one.datatype == "STRING" else one.datatype == "BOOL" and False or 0
        kind = "BYTES" if one.datatype == "STRING" else one.datatype
        data = [zero] * math.prod(shape)
        inputs.append({"name": one.name, "shape": shape, "datatype": kind, "data": data})
    return json.dumps({"inputs": inputs}) + "\n"


def _program(draft: Draft) -> str:
    if draft.kind == "python":
        return _PYTHON.format(name=draft.name, what="doubles its input")
    signature = draft.signature
    text = _LOADED.format(
        name=draft.name,
        what=f"runs {draft.model_file}",
        inputs=json.dumps([one.name for one in signature.inputs]),
        outputs=json.dumps([one.name for one in signature.outputs]),
        loads="@loads@",
    )
    types = json.dumps([f"TYPE_{one.datatype}" for one in signature.outputs])
    return text.replace("@loads@", _LOADS[draft.kind]).replace(
        "\n\n\nclass", f"\nTYPES = {types}\n\n\nclass", 1
    )


def _tensors(tensors: Iterable[Tensor]) -> str:
    lines = (
        f'  {{ name: "{one.name}", data_type: TYPE_{one.datatype}, dims: {list(one.dims)} }}'
        for one in tensors
    )
    return "\n" + ",\n".join(lines) + "\n"
