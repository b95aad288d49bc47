"""Values that are known, and values that are not: unknown is never zero."""

import math
from typing import Generic, TypeVar

import attrs

__all__ = ["Known", "Sample", "Unknown", "finite"]

T = TypeVar("T", covariant=True)  # noqa: PLC0105


@attrs.frozen
class Known(Generic[T]):
    """A value that was read ``age_s`` seconds ago."""

    value: T
    age_s: float = 0.0


@attrs.frozen
class Unknown:
    """The reason why there is no value, shown to people as it is."""

    reason: str


Sample = Known[T] | Unknown


def finite(sample: Sample[float]) -> Sample[float]:
    """Return *sample*, or Unknown if its value is NaN or infinite."""
    if isinstance(sample, Known) and not math.isfinite(sample.value):
        return Unknown(f"it is {sample.value}")
    return sample
