"""The whole contract of a scaling policy, over this one."""

from tarn_concurrency import FACTORY

from tarn.testing.contracts import ScalingPolicyContract


class TestConcurrency(ScalingPolicyContract):
    """Four lines: what a policy promises is tested by TARN."""

    factory = FACTORY
    signals = ("pending", "executing")
