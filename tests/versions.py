"""Versions of one model whose answers tell which one it was, and a load that keeps every answer."""

import threading
from pathlib import Path
from typing import Self

import numpy as np
import yaml
from tritonclient import http as triton

import tarn

CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "IN", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "OUT", data_type: TYPE_INT32, dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
MODEL = """
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        out = pb.Tensor("OUT", np.array([{answer}], np.int32))
        return [pb.InferenceResponse([out]) for _ in requests]
"""
SMOKE = """{
  "model": "version",
  "inputs": [{"name": "IN", "shape": [1], "datatype": "INT32", "data": [0]}],
  "expect": {"outputs": [{"name": "OUT", "data": [%d]}]}
}"""


class VersionLoad:
    """Asks one after another through `cluster.client()`, and keeps every answer."""

    def __init__(self, name: str) -> None:
        self.answers: list[int] = []
        self.lost: list[str] = []
        self._over = threading.Event()
        self._cluster = tarn.connect(name)
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        self._cluster.detach()

    def _ask(self) -> None:
        given = triton.InferInput("IN", [1], "INT32")
        given.set_data_from_numpy(np.zeros(1, np.int32))
        with self._cluster.client() as client:
            while not self._over.wait(0.02):
                try:
                    answer = client.infer("version", [given]).as_numpy("OUT")
                except Exception as error:  # noqa: BLE001 (each kind of loss counts)
                    self.lost.append(repr(error))
                else:
                    self.answers.append(int(answer[0]))


def written(folder: Path, answer: int, model: str = MODEL) -> Path:
    """Write a repository whose model answers *answer*."""
    (folder / "version" / "1").mkdir(parents=True)
    (folder / "version" / "config.pbtxt").write_text(CONFIG)
    (folder / "version" / "1" / "model.py").write_text(model.replace("{answer}", str(answer)))
    return folder


def changed(spec: str, **keys) -> None:
    """Change some keys of the file *spec*."""
    path = Path(spec)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **keys}))
