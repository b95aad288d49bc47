"""The fake Triton with two GPUs, on a machine that has none."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from tarn.testing import fake_http, fake_triton
from tarn.testing.fake_state import FakeTritonState

GIB = 1 << 30
counted = fake_http.metrics_text


def with_gpus(state: FakeTritonState) -> bytes:
    """Tell the metrics as the fake does, with those of two GPUs."""
    state.gpus = {"GPU-11": (0.42, 30 * GIB, 80 * GIB), "GPU-22": (0.87, 60 * GIB, 80 * GIB)}
    return counted(state)


fake_http.metrics_text = with_gpus
fake_triton.main()
