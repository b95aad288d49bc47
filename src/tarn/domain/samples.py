"""What is known, and what is not: unknown is never zero."""

import math
from typing import Generic, TypeVar

import attrs

__all__ = ["Known", "Sample", "Unknown", "finite"]

T = TypeVar("T", covariant=True)  # noqa: PLC0105


@attrs.frozen
class Known(Generic[T]):
    """A value that was really read, ``age_s`` seconds ago."""

    value: T
    age_s: float = 0.0


@attrs.frozen
class Unknown:
    """No value, and why: said to people as it stands."""

    reason: str


Sample = Known[T] | Unknown


def finite(sample: Sample[float]) -> Sample[float]:
    """Return *sample*; Unknown where its value is not a number, or infinite."""
    if isinstance(sample, Known) and not math.isfinite(sample.value):
        return Unknown(f"it is {sample.value}")
    return sample
