"""07: the Java TARN grew by one replica a minute, whatever the queue was."""

from typing import Any

import pytest
from unit.control.desk import Desk, spec

from tarn.domain.spec import ReplicasSpec, ScalingSpec
from tarn.testing.wait import until
from tarn_plugins.scaling import target, threshold

POLICIES = [
    threshold.ThresholdPolicy(threshold.ThresholdSettings("queue_depth", queue_capacity=16)),
    threshold.ThresholdPolicy(threshold.ThresholdSettings()),
    target.TargetPolicy(target.TargetSettings("pending", 16)),
]
IDS = ["threshold by its queue", "threshold as it is by default", "target with pending"]


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_160_queued_where_16_fill_a_replica_are_ten_in_one_decision(policy: Any) -> None:
    """From 1 to 10 at the first look; the same queue asks for no more while they start."""
    scaling = ScalingSpec(cooldown_s=0.0)
    desk = Desk(spec(replicas=ReplicasSpec(1, 40, 1), scaling=scaling), policy=policy)
    with desk:
        (first,) = (i.id for i in desk.reach(1).instances)
        began = len(desk.now.decisions)
        desk.runtime.world.hold_grants()
        desk.scraper.metrics[first] = {"pending": 160.0}
        for _ in range(10):
            desk.tick(1.0)
        until(lambda: len(desk.now.decisions) > began, what="a decision")
        decisions = desk.now.decisions[began:]
    assert [decision.desired for decision in decisions] == [10]
    assert "10 replicas" in decisions[0].reason
