"""2: the Java TARN divided GPU utilization by 100 though Triton reports a fraction."""

from tarn.domain import Known
from tarn.triton.metrics import parse


def test_utilization_is_the_fraction_that_triton_reports() -> None:
    """0.95 is a busy GPU, not an idle one."""
    text = b'nv_gpu_utilization{gpu_uuid="GPU-1"} 0.95\n'
    assert parse(text).signals()["gpu_utilization"] == Known(0.95)
