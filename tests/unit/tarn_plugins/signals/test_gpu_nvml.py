"""The GPUs of this machine, as a signal."""

import importlib.util

import pytest

from tarn.domain import Known, Unknown
from tarn.triton import gpus
from tarn_plugins.signals.gpu_nvml import GpuNvml


def test_says_what_the_driver_says() -> None:
    """A fraction, or why there is none."""
    serving = {"a": ((0.0, {"pending": Known(0.0)}),)}
    assert GpuNvml(lambda: Known(0.4)).read(serving, 30.0) == Known(0.4)
    assert GpuNvml(lambda: Unknown("no GPU")).read(serving, 30.0) == Unknown("no GPU")


@pytest.mark.skipif(
    importlib.util.find_spec("pynvml") is None,
    reason="needs pynvml: pip install 'tarn-orchestrator[local]'",
)
def test_this_machine_answers() -> None:
    """A fraction where it has GPUs; a reason, and no UUID, where it has none."""
    said, uuids = gpus.utilization(), gpus.present()
    if uuids:
        assert isinstance(said, Unknown) or 0 <= said.value <= 1
    else:
        assert isinstance(said, Unknown)
        assert said.reason
