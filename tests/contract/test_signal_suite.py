"""Providers keep the promises of `Signal`."""

from pathlib import Path

from contract.fake_suites import FakeSignalSuite

from tarn.domain import Known
from tarn.interfaces import Signal
from tarn.testing.contracts import SignalContract
from tarn_plugins.signals import gpu_nvml, latency_p95
from tarn_plugins.signals.latency_p95 import COUNT, SUMMARY

_MODEL = 'model="m",version="1"'


class TestFake(FakeSignalSuite):
    """The mean of one metric."""


class TestLatencyP95(SignalContract):
    """The quantile that Triton's summaries give."""

    factory = latency_p95.tarn_signals()["latency_p95"]
    metrics = (f'{SUMMARY}{{{_MODEL},quantile="0.95"}}', f"{COUNT}{{{_MODEL}}}")


class TestGpuNvml(SignalContract):
    """The GPUs of a machine, half of whose time they work."""

    factory = gpu_nvml.tarn_signals()["gpu_nvml"]

    def make(self, tmp_path: Path) -> Signal:
        return gpu_nvml.GpuNvml(lambda: Known(0.5))
