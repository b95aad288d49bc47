"""The texts of a new model: configuration, program and a request. Pure."""

import json
import math
from collections.abc import Iterable, Mapping
from string import Template

import attrs

from tarn_plugins.cli.new.signature import ModelSignature, TensorShape

__all__ = ["NewModel"]

_BATCH = 8
_BACKENDS = {"onnx": "onnxruntime", "torchscript": "pytorch"}
"""Kind -> the back end that runs it without a program, where Triton has it."""
_FILES = {"onnx": "model.onnx", "torchscript": "model.pt", "sklearn": "model.joblib"}
"""Kind -> the file's name in a version, which those back ends expect."""
_PROGRAM = Template('''\
"""$name: $what."""

$imports

INPUTS = $inputs
OUTPUTS = $outputs


class TritonPythonModel:
    """One copy of the model. Triton calls its methods on one thread."""

    def initialize(self, args):
        """Load the model; `tarn why` shows what goes wrong here."""
$load
    def execute(self, requests):
        """Return an answer for each request."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        inputs = [pb.get_input_tensor_by_name(request, name).as_numpy() for name in INPUTS]
        tensors = []
        for (name, kind), array in zip(OUTPUTS.items(), self.compute(inputs)):
            tensors.append(pb.Tensor(name, np.asarray(array, pb.triton_string_to_numpy(kind))))
        return pb.InferenceResponse(tensors)

    def compute(self, inputs):
        """Return the outputs' arrays for the inputs'."""
$compute''')
_PATH = "{args['model_repository']}/{args['model_version']}"


@attrs.frozen
class _Library:
    """How a program loads and runs the file of a model."""

    imports: str
    load: str
    compute: str


_LIBRARIES = {
    "onnx": _Library(
        "import onnxruntime",
        f'path = f"{_PATH}/model.onnx"\n'
        'self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])',
        "return self.session.run(list(OUTPUTS), dict(zip(INPUTS, inputs)))",
    ),
    "torchscript": _Library(
        "import torch",
        f'self.model = torch.jit.load(f"{_PATH}/model.pt", "cpu").eval()',
        "with torch.inference_mode():\n"
        "    found = self.model(*(torch.from_numpy(one.copy()) for one in inputs))\n"
        "found = found if isinstance(found, (tuple, list)) else [found]\n"
        "return [one.numpy() for one in found]",
    ),
    "sklearn": _Library(
        "import joblib",
        f'self.model = joblib.load(f"{_PATH}/model.joblib")',
        "(rows,) = inputs\nreturn [self.model.predict(rows).reshape(len(rows), -1)]",
    ),
    "python": _Library("", "", "return [2 * one for one in inputs]"),
}


@attrs.frozen
class NewModel:
    """A model to be written."""

    name: str
    kind: str
    """``python``, ``onnx``, ``torchscript`` or ``sklearn``."""
    signature: ModelSignature
    for_wheel: bool
    """Whether it is for the Triton of the wheel, which has no back end but Python's."""

    @property
    def by_program(self) -> bool:
        """Whether Triton's Python back end runs it."""
        return self.for_wheel or self.kind not in _BACKENDS

    @property
    def file(self) -> str:
        """The path of the user's file in the model's directory; empty: there is none."""
        return f"1/{_FILES[self.kind]}" if self.kind in _FILES else ""

    @property
    def needs(self) -> str:
        """The Python package that its program imports; empty: none but NumPy."""
        return _LIBRARIES[self.kind].imports.removeprefix("import ") if self.by_program else ""

    def texts(self) -> Mapping[str, str]:
        """Return each text by its path in the model's directory."""
        made = {"config.pbtxt": self._configuration(), "request.json": self._request()}
        return {**made, "1/model.py": self._program()} if self.by_program else made

    def _configuration(self) -> str:
        backend = "python" if self.by_program else _BACKENDS[self.kind]
        return "\n".join(
            (
                f'name: "{self.name}"',
                f'backend: "{backend}"',
                f"max_batch_size: {_BATCH if self.signature.batches else 0}",
                f"input [{_tensors(self.signature.inputs)}]",
                f"output [{_tensors(self.signature.outputs)}]",
                "# On a GPU: KIND_GPU, and `instance: {resources: {gpus: 1}}` in tarn.yaml.",
                "instance_group [{ kind: KIND_CPU, count: 1 }]",
                "",
            )
        )

    def _request(self) -> str:
        """Return a request of zeros."""
        rows = (1,) if self.signature.batches else ()
        inputs = []
        for one in self.signature.inputs:
            shape = [*rows, *(max(size, 1) for size in one.dims)]
            zero = {"STRING": "", "BOOL": False}.get(one.datatype, 0)
            datatype = "BYTES" if one.datatype == "STRING" else one.datatype
            data = [zero] * math.prod(shape)
            inputs.append({"name": one.name, "shape": shape, "datatype": datatype, "data": data})
        return json.dumps({"inputs": inputs}) + "\n"

    def _program(self) -> str:
        library = _LIBRARIES[self.kind]
        imports = ("import numpy as np", "import triton_python_backend_utils as pb")
        kinds = {one.name: f"TYPE_{one.datatype}" for one in self.signature.outputs}
        return _PROGRAM.substitute(
            name=self.name,
            what=f"runs {self.file[2:]}" if self.file else "doubles its input; change `compute`",
            imports="\n".join(sorted(filter(None, (library.imports, *imports)))),
            inputs=json.dumps([one.name for one in self.signature.inputs]),
            outputs=json.dumps(kinds),
            load=_indented(library.load),
            compute=_indented(library.compute),
        )


def _indented(lines: str) -> str:
    return "".join(f"        {line}\n" for line in lines.splitlines())


def _tensors(tensors: Iterable[TensorShape]) -> str:
    return ",".join(f"\n  {{ {_tensor(one)} }}" for one in tensors) + "\n"


def _tensor(one: TensorShape) -> str:
    said = f'name: "{one.name}", data_type: TYPE_{one.datatype}, '
    if not one.dims:  # Triton has no tensor without an axis: this one is added for it
        return f"{said}dims: [ 1 ], reshape {{ shape: [ ] }}"
    return f"{said}dims: [ {', '.join(map(str, one.dims))} ]"
