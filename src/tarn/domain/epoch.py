"""Which master: a pair that only grows."""

from typing import Self

import attrs

__all__ = ["Epoch"]


@attrs.frozen(order=True)
class Epoch:
    """One life of one cluster's master.

    ``incarnation`` is the time of ``up`` in wall milliseconds (never below the last one kept), and
    ``attempt`` counts the masters of that incarnation from 1. Ordered as a pair; written
    ``<incarnation>-<attempt>``.
    """

    incarnation: int = attrs.field(validator=attrs.validators.ge(0))
    attempt: int = attrs.field(validator=attrs.validators.ge(0))

    def __str__(self) -> str:
        """Return the form that snapshots, SSE ids and znodes carry."""
        return f"{self.incarnation}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``<incarnation>-<attempt>``; anything else is a ``ValueError``."""
        incarnation, _, attempt = text.partition("-")
        return cls(int(incarnation), int(attempt))
