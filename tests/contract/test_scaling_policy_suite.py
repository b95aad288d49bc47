"""Scaling policies keep the promises of `ScalingPolicy`."""

from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest
from contract.fake_suites import FakePolicySuite

from tarn import plugins
from tarn.domain import Choice
from tarn.interfaces import ScalingPolicy
from tarn.testing.context import master_context
from tarn.testing.contracts import ScalingPolicyContract
from tarn_plugins.scaling import fixed, latency, schedule, target, threshold

OFFERED = plugins.load()


class TestFake(FakePolicySuite):
    """Follows one signal."""


class TestFixedWithoutSize(ScalingPolicyContract):
    """Has no opinion."""

    factory = fixed.tarn_scaling_policies()["fixed"]


class TestFixedWithSize(ScalingPolicyContract):
    """Wants what its settings say."""

    factory = fixed.tarn_scaling_policies()["fixed"]
    settings = {"replicas": 3}


class TestTarget(ScalingPolicyContract):
    """Follows the load that is offered."""

    factory = target.tarn_scaling_policies()["target"]
    signals = ("offered_load",)


class TestTargetOfATime(ScalingPolicyContract):
    """Follows a mean of requests."""

    factory = target.tarn_scaling_policies()["target"]
    settings = {"signal": "latency_p95", "target": "200ms", "window_s": 5.0}
    signals = ("latency_p95", "in_flight", "requests_per_s")


class TestThreshold(ScalingPolicyContract):
    """Follows GPUs and queue, whichever is fuller."""

    factory = threshold.tarn_scaling_policies()["threshold"]
    signals = ("gpu_utilization", "pending")


class TestThresholdOfTheQueue(ScalingPolicyContract):
    """Follows the queue alone."""

    factory = threshold.tarn_scaling_policies()["threshold"]
    settings = {"mode": "queue_depth", "scale_up": "80%"}
    signals = ("pending",)


class TestLatency(ScalingPolicyContract):
    """Follows a time."""

    factory = latency.tarn_scaling_policies()["latency"]
    settings = {"objective_s": 0.2}
    signals = ("queue_time", "in_flight", "requests_per_s")


@pytest.mark.skipif(
    find_spec("cronsim") is None, reason="pip install 'tarn-orchestrator[schedule]'"
)
class TestSchedule(ScalingPolicyContract):
    """Asks another policy, made by the master, within bounds that go by the calendar."""

    factory = schedule.tarn_scaling_policies()["schedule"]
    signals = ("pending",)

    def make(self, tmp_path: Path) -> ScalingPolicy:
        """Return it around the policy that it names."""

        def policy(choice: Choice) -> ScalingPolicy:
            factory = OFFERED.scaling_policies[choice.use]
            return factory.create(factory.settings(**choice.options), context)

        context = attrs.evolve(master_context(tmp_path), policy=policy)
        windows = (schedule.Window("* * * * *", 60.0, min=1),)
        inner = Choice("target", {"signal": "pending"})
        return self.factory.create(self.factory.settings(windows, inner=inner), context)
