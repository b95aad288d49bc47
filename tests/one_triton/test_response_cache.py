"""A real Triton answers equal requests from its response cache, and TARN counts what it counts."""

import json
from pathlib import Path
from typing import Any

import pytest
from asking import ask
from house import House, house, until

import tarn
from tarn.triton.metrics import parse

__all__ = ["house"]  # a fixture

pytestmark = [pytest.mark.one_triton, pytest.mark.timeout(240)]

TENSORS = """max_batch_size: 0
input [{name: "IN" data_type: TYPE_FP32 dims: [1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""
CONFIG = f'backend: "python"\nresponse_cache {{ enable: true }}\n{TENSORS}'
# The answer is how often this model has computed, so one from the cache shows itself.
COUNTING = """import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    computed = 0

    def execute(self, requests):
        self.computed += len(requests)
        answer = pb.Tensor("OUT", np.array([self.computed], dtype=np.float32))
        return [pb.InferenceResponse([answer]) for _ in requests]
"""
MODELS = ("counts", "plain")


def repository(place: Path) -> Path:
    """Make two models of the same code; only one has its answers kept."""
    for name, config in (("counts", CONFIG), ("plain", CONFIG.replace("true", "false"))):
        (place / name / "1").mkdir(parents=True)
        (place / name / "config.pbtxt").write_text(config)
        (place / name / "1" / "model.py").write_text(COUNTING)
    return place


def infer(port: int, model: str, value: float) -> float:
    tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [value]}
    body = json.dumps({"inputs": [tensor]}).encode()
    status, _, answer = ask(port, "POST", f"/v2/models/{model}/infer", body)
    assert status == 200, answer
    return float(json.loads(answer)["outputs"][0]["data"][0])


def port_of(row: dict[str, Any], service: str) -> int:
    return int(row[service].rpartition(":")[2])


def cached(house: House) -> dict[str, Any] | None:
    return house.status("cached")["instances"][0]["cache"]


def of_master(cluster: tarn.Cluster, name: str, label: str) -> dict[str, float]:
    """Return what the master's metrics say of ``counts``, by the value of *label*."""
    return {
        row["labels"][label]: row["value"]
        for row in cluster.metrics()
        if row["name"] == name and row["labels"].get("model") == "counts"
    }


def of_triton(row: dict[str, Any]) -> tuple[dict[str, int], dict[str, float]]:
    """Return hits and misses of ``counts`` by Triton's statistics, and by its metrics."""
    _, _, body = ask(port_of(row, "http"), "GET", "/v2/models/counts/stats")
    stats = json.loads(body)["model_stats"][0]["inference_stats"]
    _, _, text = ask(port_of(row, "metrics"), "GET", "/metrics")
    metrics = parse(text)
    families = {"hits": "nv_cache_num_hits_per_model", "misses": "nv_cache_num_misses_per_model"}
    return (
        {"hits": stats["cache_hit"]["count"], "misses": stats["cache_miss"]["count"]},
        {name: metrics.by_label(family, "model")["counts"] for name, family in families.items()},
    )


def test_the_same_request_twice_is_computed_once_and_counted_alike_everywhere(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton's statistics, its metrics, ``tarn status``, the master's metrics and its models."""
    models = {"repository": str(repository(house.root / "models")), "serve": list(MODELS)}
    size = {"min": 1, "max": 1, "initial": 1}
    spec = house.spec("cached", models=models, replicas=size, triton={"cache": {"size": "16MiB"}})
    started = house.tarn("up", "-f", spec)
    assert started.returncode == 0, started.stderr
    assert "response_cache" not in started.stderr
    (row,) = house.status("cached")["instances"]
    port = port_of(row, "http")

    assert [infer(port, "counts", value) for value in (1.0, 1.0, 2.0, 1.0, 2.0)] == [1, 1, 2, 1, 2]
    assert [infer(port, "plain", 1.0) for _ in range(3)] == [1, 2, 3]

    expected = {"hits": 3, "misses": 2}
    assert of_triton(row) == (expected, expected)
    until(lambda: cached(house) == expected, 20, "the counters in `tarn status -o json`")
    monkeypatch.setenv("TARN_HOME", str(house.home))
    cluster, name = tarn.connect("cached"), "tarn_cache_lookups_total"
    try:
        looked_up = {"hit": 3, "miss": 2}
        until(lambda: of_master(cluster, name, "result") == looked_up, 20, "the master's metrics")
        ended = of_master(cluster, "tarn_inference_requests_total", "status")
        assert ended == {"success": 5, "error": 0}  # those from the cache, too
    finally:
        cluster.detach()
    down = house.tarn("down", "-c", "cached")
    assert down.returncode == 0, down.stderr


def test_a_cache_that_does_not_fit_is_refused_before_anything_starts(house: House) -> None:
    """All at once: its size, and an option that contradicts it."""
    repository(house.root / "models")
    models = {"repository": str(house.root / "models")}
    for cache, said in (({"size": "8GiB"}, "instance.resources.memory"), ({"size": 5}, "MiB")):
        spec = house.spec("cached", models=models, triton={"cache": cache})
        refused = house.tarn("up", "-f", spec)
        assert refused.returncode == 2, refused.stderr
        assert "triton.cache.size" in refused.stderr
        assert said in refused.stderr
    twice = {"cache": {"size": "16MiB"}, "args": {"cache-config": "redis,host=nowhere"}}
    refused = house.tarn("up", "-f", house.spec("cached", models=models, triton=twice))
    assert refused.returncode != 0
    assert "TARN-2003" in refused.stderr
    assert house.processes("cached") == {}


def test_a_model_that_asks_for_a_cache_in_vain_is_told_at_the_start(house: House) -> None:
    """It serves, and computes each request."""
    models = {"repository": str(repository(house.root / "models")), "serve": ["counts"]}
    size = {"min": 1, "max": 1, "initial": 1}
    spec = house.spec("cached", models=models, replicas=size)
    started = house.tarn("up", "-f", spec)
    assert started.returncode == 0, started.stderr
    assert "'counts': response_cache is enabled, but no answer is kept" in started.stderr
    (row,) = house.status("cached")["instances"]
    assert [infer(port_of(row, "http"), "counts", 1.0) for _ in range(2)] == [1, 2]
    assert cached(house) in (None, {"hits": 0, "misses": 0})  # Triton 2.51 gives the families
    linted = house.tarn("lint", "-f", spec)
    assert linted.returncode == 0, linted.stdout
    assert "counts/config.pbtxt:2:1: warning TARN-2347" in linted.stdout
