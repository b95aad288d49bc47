"""The signal `gpu_nvml`: how busy this machine's GPUs are, by NVIDIA's driver.

It is meant for a fleet on one machine whose Tritons do not measure their GPUs: a build without
that, or ``allow-gpu-metrics: false``. A master on another machine would measure other GPUs.
"""

from collections.abc import Callable, Mapping

import attrs

from tarn.domain import Known, Sample, Unknown
from tarn.domain.signals import Samples
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, Signal
from tarn.triton.gpus import utilization

__all__ = ["GpuNvml", "GpuNvmlSettings", "tarn_signals"]


@attrs.frozen
class GpuNvmlSettings:
    """No settings."""


@attrs.frozen
class GpuNvml:
    """The mean over all GPUs of the machine, including those that other programs use."""

    measure: Callable[[], Sample[float]] = utilization
    """Asks the driver."""

    def read(self, samples: Samples, window_s: float) -> Sample[float]:
        """Return a fraction in [0, 1]; Unknown while no instance has reported."""
        # idle GPUs without a serving instance tell nothing about the load
        newest = [rows[-1][1] for rows in samples.values() if rows]
        if not any(isinstance(said, Known) for metrics in newest for said in metrics.values()):
            return Unknown("no ready instance has reported")
        return self.measure()


def _create(_settings: GpuNvmlSettings, _context: MasterContext) -> Signal:
    return GpuNvml()


@hookimpl
def tarn_signals() -> Mapping[str, Factory[Signal]]:
    """Offer ``gpu_nvml``."""
    summary = "how busy the GPUs of the master's machine are, in [0, 1], by NVML"
    return {"gpu_nvml": Factory(GpuNvmlSettings, _create, summary, ("pynvml",), "local")}
