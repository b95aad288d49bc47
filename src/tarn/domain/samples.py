"""What is known, and what is not: unknown is never zero."""

from typing import Generic, TypeVar

import attrs

__all__ = ["Known", "Sample", "Unknown"]

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
