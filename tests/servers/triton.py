"""A real Triton with models whose work is known, for tests on this machine."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from asking import ask, free_ports

from tarn.domain import Endpoint

needed = [
    pytest.mark.triton,
    pytest.mark.skipif(
        importlib.util.find_spec("pytriton") is None,
        reason="needs a real tritonserver: pip install 'tarn-orchestrator[local]'",
    ),
]
"""Marks of a module that starts one."""

DEADLINE_S = 60.0
CONFIG = """backend: "python"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [-1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""
NAP = """import time
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            data = pb.get_input_tensor_by_name(request, "IN").as_numpy()
            time.sleep(float(data[0]))
            answers.append(pb.InferenceResponse([pb.Tensor("OUT", data)]))
        return answers
"""
BAD = """class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("no weights")
"""


class Clock:
    def now_s(self) -> float:
        return time.monotonic()

    def at(self) -> float:
        return time.time()


def backends(path: Path, triton: Path) -> Path:
    """Put the Python backend together with the stub of this Python."""
    python = path / "backends" / "python"
    shutil.copytree(triton / "backends" / "python", python)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = triton / "python_backend_stubs" / version / "triton_python_backend_stub"
    shutil.copy(stub, python / stub.name)
    (python / stub.name).chmod(0o755)
    tools = python / "triton_python_backend_utils.py"  # the stub ignores PYTHONPATH
    path_line = f"import sys; sys.path.append({str(triton.parents[1])!r})\n"
    tools.write_text(path_line + tools.read_text())
    return path / "backends"


MODELS = {"nap": (NAP, CONFIG), "bad": (BAD, CONFIG)}


@contextmanager
def real_triton(
    path: Path, exit_s: int, *more: str, models: Mapping[str, tuple[str, str]] | Path = MODELS
) -> Iterator[tuple["subprocess.Popen[bytes]", Endpoint]]:
    """Run a real Triton with the models `nap` (sleeps as long as its input says) and `bad`.

    *more* are further arguments of its command line, *models* others than these: name to code and
    configuration, or the folder of a repository.
    """
    spec = importlib.util.find_spec("pytriton")
    assert spec is not None
    assert spec.origin is not None
    triton = Path(spec.origin).parent / "tritonserver"
    site = triton.parents[1]
    folder = models if isinstance(models, Path) else _written(path / "models", models)
    ports = free_ports()
    argv = [str(triton / "bin" / "tritonserver"), f"--model-repository={folder}"]
    argv += [f"--backend-directory={backends(path, triton)}", f"--exit-timeout-secs={exit_s}"]
    for name, port in zip(("http", "grpc", "metrics"), ports, strict=True):
        argv += [f"--{name}-port={port}", f"--{name}-address=127.0.0.1"]
    argv += ["--exit-on-error=false", "--strict-readiness=false"]
    argv += ["--model-control-mode=explicit", "--load-model=*", *more]
    # A stub looks for packages where the `python3` on PATH has them.
    env = {"LD_LIBRARY_PATH": str(site / "nvidia_pytriton.libs"), "PYTHONPATH": str(site)}
    env["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    with (path / "triton.stderr").open("wb") as log:
        process = subprocess.Popen(argv, stderr=log, stdout=log, env=env, start_new_session=True)
    with process:
        try:
            endpoint = Endpoint("127.0.0.1", *ports)
            wait_for(endpoint, process)
            yield process, endpoint
        finally:
            # With the processes of its models, which may outlive it otherwise.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _written(folder: Path, models: Mapping[str, tuple[str, str]]) -> Path:
    for name, (code, config) in models.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config)
        (folder / name / "1" / "model.py").write_text(code)
    return folder


def wait_for(endpoint: Endpoint, process: "subprocess.Popen[bytes]") -> None:
    end_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while time.monotonic() < end_s and process.poll() is None:
        try:
            if ask(endpoint.http_port, "GET", "/v2/health/live")[0] == 200:
                return
        except OSError:
            pause.wait(0.1)
    raise AssertionError(f"Triton did not start: {process.poll()}")


def infer_body(seconds: float) -> bytes:
    tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [seconds]}
    return json.dumps({"id": "1", "inputs": [tensor]}).encode()
