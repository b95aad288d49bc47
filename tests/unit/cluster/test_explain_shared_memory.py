"""Shared memory that is full is no fault of the model, and `tarn why` says what to do."""

import pytest

from tarn.cluster.explain import explain

FULL = (
    "Internal: Unable to initialize shared memory key 'triton_python_backend_shm_region_1' to "
    "requested size (1048576 bytes). Error: No space left on device"
)
MODELS = [{"name": "ocr", "state": "UNAVAILABLE", "reason": FULL}]


def about(item):
    """Return what is said of *item* where an earlier master tells of it."""
    status = {"name": "demo", "instances": [{"id": "demo-0001", **item}]}
    return explain(status, "demo-0001")


@pytest.mark.parametrize(
    "item",
    [
        {"state": "ready", "models": MODELS},
        {"state": "starting", "reason": f"model ocr is unavailable: {FULL}", "models": MODELS},
        {"state": "failed", "reason": FULL},
    ],
)
def test_the_next_step_is_about_memory(item) -> None:
    """Whichever state the instance is in; said once."""
    (cause,) = about(item)
    assert "tarn help TARN-3159" in cause.step


def test_another_full_device_is_none_of_it() -> None:
    """A model may write files."""
    (cause,) = about({"state": "failed", "reason": "[Errno 28] No space left on device"})
    assert "tarn logs" in cause.step
