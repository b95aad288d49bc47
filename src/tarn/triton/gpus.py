"""The GPUs of this machine, from NVIDIA's driver. The only use of ``pynvml``.

Source: NVML API Reference, "Device Queries"; ``nvmlDeviceGetUtilizationRates``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tarn.domain.samples import Known, Sample, Unknown
from tarn.errors import ProviderMissingError

__all__ = ["present", "utilization"]


def present() -> tuple[str, ...]:
    """Return the UUIDs of the machine's GPUs, in the driver's order."""
    with _nvml() as nvml:
        if isinstance(nvml, str):
            return ()
        uuids = map(nvml.nvmlDeviceGetUUID, _gpus(nvml))
        # Older bindings return bytes.
        return tuple(one.decode() if isinstance(one, bytes) else one for one in uuids)


def utilization() -> Sample[float]:
    """Return the mean utilization of the machine's GPUs, a fraction in [0, 1].

    The driver averages over 1/6 s to 1 s, depending on the GPU. The result is Unknown without a
    GPU, or if one is in MIG mode, which has no such number.
    """
    with _nvml() as nvml:
        if isinstance(nvml, str):
            return Unknown(nvml)
        try:
            percents = [nvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in _gpus(nvml)]
        except nvml.NVMLError as error:
            return Unknown(f"NVML: {error}; a GPU in MIG mode does not say how busy it is")
    if not percents:
        return Unknown("this machine has no GPU")
    return Known(sum(percents) / len(percents) / 100)


@contextmanager
def _nvml() -> Iterator[Any]:
    """Yield the library, or a text why there is none."""
    try:
        import pynvml  # noqa: PLC0415 (optional, and only a machine with GPUs needs it)
    except ImportError as error:
        why = ProviderMissingError.reason("pynvml", error)
        yield f"{why}: pip install 'tarn-orchestrator[local]'"
        return

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield f"NVML: {error}"
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _gpus(nvml: Any) -> Iterator[Any]:
    return map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
