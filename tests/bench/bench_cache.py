"""What Triton's response cache saves, and what a request costs that is not in it."""

import http.client
import importlib.util
import json
import statistics
import tempfile
import time
from pathlib import Path

from asking import ask
from bench.row import Row
from servers.triton import real_triton

from tarn.testing.wait import until

ROUNDS, REQUESTS = 7, 150
TENSORS = """max_batch_size: 0
input [{name: "IN" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [-1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""
# A stub that computes nothing: what a real model computes comes on top.
SAME = """import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        given = [pb.get_input_tensor_by_name(one, "IN").as_numpy() for one in requests]
        return [pb.InferenceResponse([pb.Tensor("OUT", one)]) for one in given]
"""
MODELS = {
    "kept": (SAME, f'backend: "python"\nresponse_cache {{ enable: true }}\n{TENSORS}'),
    "plain": (SAME, f'backend: "python"\n{TENSORS}'),
}


def cache_rows() -> list[Row]:
    """Measure the same request, found in the cache, not in it, and of a model without a cache."""
    spec = importlib.util.find_spec("pytriton")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "tritonserver" / "caches"
    options = ("--cache-config=local,size=16777216", f"--cache-directory={folder}")
    told: dict[str, list[float]] = {"found": [], "not found": [], "plain": []}
    with tempfile.TemporaryDirectory() as root:
        with real_triton(Path(root), 5, *options, models=MODELS) as (_, endpoint):
            until(lambda: _are_ready(endpoint.http_port), 60)
            for number in range(ROUNDS):
                kinds = list(told) if number % 2 else list(reversed(told))
                for kind in kinds:
                    told[kind].append(_p50_ms(endpoint.http_port, kind, number))
    found, missed, plain = (statistics.median(told[kind]) for kind in told)
    name = "without a cache"
    return [
        Row("Triton, an answer found in the cache, p50", found, "ms", None, name, plain),
        Row("Triton, an answer not found there, p50", missed, "ms", None, name, plain),
    ]


def _p50_ms(port: int, kind: str, number: int) -> float:
    """Return the median of requests on one connection, each with 256 numbers."""
    model = "plain" if kind == "plain" else "kept"
    link, took_ms = http.client.HTTPConnection("127.0.0.1", port, timeout=30), []
    for turn in range(REQUESTS):
        # What was never asked before is not found.
        first = number * REQUESTS + turn if kind == "not found" else -1
        body = _body(float(first))
        began = time.perf_counter()
        link.request("POST", f"/v2/models/{model}/infer", body)
        answer = link.getresponse()
        answer.read()
        assert answer.status == 200
        took_ms.append((time.perf_counter() - began) * 1000)
    link.close()
    return statistics.median(took_ms)


def _body(first: float) -> bytes:
    data = [first, *range(255)]
    tensor = {"name": "IN", "shape": [256], "datatype": "FP32", "data": data}
    return json.dumps({"inputs": [tensor]}).encode()


def _are_ready(port: int) -> bool:
    return all(ask(port, "GET", f"/v2/models/{name}/ready")[0] == 200 for name in MODELS)
