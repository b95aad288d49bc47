"""5: without GPU metrics the Java TARN took the load for 0.3, so an idle CPU fleet never shrank."""

import attrs
import pytest

from tarn.domain import (
    ClusterSpec,
    Endpoint,
    Epoch,
    Instance,
    InstanceState,
    Known,
    ModelState,
    Reading,
    Running,
    Unknown,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.signals import Signals, fleet_view
from tarn.domain.spec import ModelsSpec, ReplicasSpec
from tarn.domain.tick import Observation, tick
from tarn.interfaces import ScalingPolicy
from tarn.triton.activity import Activity, observe
from tarn.triton.metrics import parse
from tarn.triton.model_counters import rows
from tarn_plugins.scaling import target, threshold
from tarn_plugins.scaling.target import TargetPolicy
from tarn_plugins.scaling.threshold import ThresholdPolicy

FOR_S = 310
SIZE = 4
TEXT = b"""\
nv_inference_request_success{model="ocr",version="1"} 4711
nv_inference_request_failure{model="ocr",reason="OTHER",version="1"} 0
nv_inference_count{model="ocr",version="1"} 4711
nv_inference_exec_count{model="ocr",version="1"} 4711
nv_inference_request_duration_us{model="ocr",version="1"} 94220000
nv_inference_queue_duration_us{model="ocr",version="1"} 1200
nv_inference_pending_request_count{model="ocr",version="1"} 0
nv_cpu_utilization 0.004
"""
"""A Triton 2.51 without a GPU that did something once."""
RULES = Rules(
    ClusterSpec("cpu", ModelsSpec("/models"), replicas=ReplicasSpec(min=1, max=8)), "hash"
)


POLICIES = {
    "threshold, composite": ThresholdPolicy(threshold.ThresholdSettings()),
    "threshold, queue_depth": ThresholdPolicy(threshold.ThresholdSettings(mode="queue_depth")),
    "target": TargetPolicy(target.TargetSettings()),
}


def instance(number: int) -> Instance:
    ready = Instance(f"cpu-{number:04d}", "hash", InstanceState.READY, ready_s=0.0, serving=True)
    at = Endpoint("h", 3 * number, 3 * number + 1, 3 * number + 2)
    return attrs.evolve(ready, container_id=f"c{number}", node="h", endpoint=at)


def reading(id_: str, activity: Activity, now_s: float) -> Reading:
    metrics = activity.seen.signals()
    metrics |= {"pending": activity.pending, "executing": activity.executing}
    models = Known((ModelState("ocr", "READY"),))
    return Reading(id_, now_s, Known(value=True), models=models, metrics=metrics)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_an_idle_cpu_fleet_shrinks_when_its_counters_stood_still_for_five_minutes(
    policy: ScalingPolicy,
) -> None:
    """Real text, real estimates, the real tick: no GPU is Unknown, not 0.3, and not 0."""
    instances = tuple(instance(number) for number in range(1, SIZE + 1))
    facts = tuple(
        Running(i.id, "hash", str(i.container_id), "h", i.endpoint) for i in instances if i.endpoint
    )
    fleet = Fleet("cpu", Epoch(1, 1), SIZE, instances, next_number=SIZE + 1)
    signals, activity = Signals(), None
    for second in range(FOR_S):
        now_s = 1000.0 + second
        seen = parse(TEXT)
        activity = observe(activity, seen, rows(seen), now_s)
        readings = {i.id: reading(i.id, activity, now_s) for i in instances}
        signals = signals.looked(fleet.instances, readings, now_s, oldest_s=7.0)
        wish = policy.wanted(fleet_view(fleet, RULES, signals, now_s))
        fleet = tick(fleet, Observation(now_s, now_s, facts, readings, wish=Known(wish)), RULES)
    said = signals.history["gpu_utilization"][-1][1]
    assert isinstance(said, Unknown)
    assert "no nv_gpu_utilization: a build without GPU, MIG, or" in said.reason
    assert signals.history["in_flight"][-1][1] == Known(0.0)
    assert fleet.desired < SIZE
    assert fleet.decisions[-1].by.startswith("policy ")
