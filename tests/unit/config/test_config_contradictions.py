"""Contradictions between the parts of a spec."""

from typing import Any

import pytest

from tarn.config.contradictions import contradictions
from tarn.domain import ClusterSpec
from tarn.domain.spec import (
    CacheSpec,
    InstanceSpec,
    ModelsSpec,
    ParallelismSpec,
    ReplicasSpec,
    ResourcesSpec,
    TritonSpec,
    UpdateSpec,
)


def found(**parts: Any) -> list[tuple[str, str]]:
    spec = ClusterSpec("w", ModelsSpec("/models"), **parts)
    return [(one.path, one.text) for one in contradictions(spec)]


def test_a_spec_of_defaults_contradicts_nothing() -> None:
    """Only `models` must be given."""
    assert found() == []


@pytest.mark.parametrize(
    ("parts", "path", "text"),
    [
        (
            {"replicas": ReplicasSpec(3, 2)},
            "replicas.max",
            "= 2 is below replicas.min = 3; raise the one or lower the other",
        ),
        (
            {"replicas": ReplicasSpec(2, 4, 5)},
            "replicas.initial",
            "= 5 is outside replicas.min = 2 and replicas.max = 4",
        ),
        (
            {"instance": InstanceSpec(unready_after_s=5.0, replace_after_s=4.0)},
            "instance.replace_after",
            "= 4s is below instance.unready_after = 5s",
        ),
        (
            {"instance": InstanceSpec(ResourcesSpec(gpus=1), ParallelismSpec(tensor=2))},
            "instance.resources.gpus",
            "= 1, but parallelism.tensor x pipeline = 2; they must be equal",
        ),
        (
            {"triton": TritonSpec(http_port=8000, grpc_port=8001, metrics_port=8000)},
            "triton.metrics_port",
            "= 8000 is also triton.http_port; give each its own port",
        ),
        (
            {"triton": TritonSpec(cache=CacheSpec(4096))},
            "triton.cache.size",
            (
                "= 4096MiB is not below instance.resources.memory = 4096MiB, which also holds "
                "Triton and its models; lower the one or raise the other"
            ),
        ),
        (
            {"update": UpdateSpec(surge=0, max_unavailable=0)},
            "update.surge",
            "= 0 with update.max_unavailable = 0: no update could ever begin",
        ),
    ],
)
def test_a_contradiction_names_both_sides(parts: dict[str, Any], path: str, text: str) -> None:
    """Path, value, and what it contradicts."""
    assert found(**parts) == [(path, text)]


def test_what_is_allowed_at_the_edges() -> None:
    """Equal bounds, free ports twice, no GPU for many ranks."""
    assert found(replicas=ReplicasSpec(2, 2, 2)) == []
    assert found(triton=TritonSpec(http_port=0, grpc_port=0)) == []
    assert found(triton=TritonSpec(cache=CacheSpec(4095))) == []
    assert found(instance=InstanceSpec(parallelism=ParallelismSpec(tensor=2))) == []
