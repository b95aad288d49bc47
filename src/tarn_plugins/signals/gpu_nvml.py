"""The signal `gpu_nvml`: how busy this machine's GPUs are, asked of the driver itself.

For a fleet on one machine whose Tritons do not measure their GPUs: a build without it, or
``allow-gpu-metrics: false``. A master on another machine sees other GPUs.
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
    """It has none."""


@attrs.frozen
class GpuNvml:
    """The mean over all GPUs of the machine, those that other programs use too."""

    measure: Callable[[], Sample[float]] = utilization
    """Asks the driver."""

    def read(self, samples: Samples, window_s: float) -> Sample[float]:
        """Return a fraction in [0, 1]; Unknown while no instance says anything.

        GPUs that are idle because nothing serves say nothing of the load.
        """
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
