"""Scaling policies keep the promises of `ScalingPolicy`."""

from contract.fake_suites import FakePolicySuite

from tarn.testing.contracts import ScalingPolicyContract
from tarn_plugins.scaling import fixed


class TestFake(FakePolicySuite):
    """Follows one signal."""


class TestFixedWithoutSize(ScalingPolicyContract):
    """Has no opinion."""

    factory = fixed.tarn_scaling_policies()["fixed"]


class TestFixedWithSize(ScalingPolicyContract):
    """Wants what its settings say."""

    factory = fixed.tarn_scaling_policies()["fixed"]
    settings = {"replicas": 3}
