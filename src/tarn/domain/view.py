"""The view that a master sends to followers, and their acknowledgement."""

import re
from typing import Self

import attrs

from tarn.domain.endpoint import Endpoint

__all__ = ["FOLLOWER_NAME", "Applied", "DiscoveryView", "Epoch", "Member"]


@attrs.frozen(order=True)
class Epoch:
    """The identity of one master of a cluster; a newer master has a greater one.

    ``incarnation`` is the time of ``up`` in wall milliseconds (never below the last one kept), and
    ``attempt`` counts the masters of that incarnation from 1. It is written
    ``<incarnation>-<attempt>``.
    """

    incarnation: int = attrs.field(validator=attrs.validators.ge(0))
    attempt: int = attrs.field(validator=attrs.validators.ge(0))

    def __str__(self) -> str:
        """Return ``<incarnation>-<attempt>``, as in snapshots, SSE ids and znodes."""
        return f"{self.incarnation}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``<incarnation>-<attempt>``; raise ``ValueError`` for anything else."""
        incarnation, _, attempt = text.partition("-")
        return cls(int(incarnation), int(attempt))


FOLLOWER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Valid names of followers; a name is a part of a URL."""


@attrs.frozen(order=True)
class Member:
    """One endpoint that may get traffic."""

    instance_id: str
    container_id: str
    endpoint: Endpoint
    spec_hash: str
    weight: int = 100


@attrs.frozen
class DiscoveryView:
    """All instances that may get traffic.

    Followers apply a newer complete view even if it is empty. An incomplete one, of a master that
    has not yet probed what it recovered, adds members but removes none. The revision rises when the
    members change, and when the view becomes complete or incomplete.
    """

    epoch: Epoch
    revision: int
    complete: bool
    members: tuple[Member, ...] = ()
    """Sorted by instance id."""


@attrs.frozen
class Applied:
    """One follower's acknowledgement: the revision, its time, and what is still open."""

    name: str
    epoch: Epoch
    revision: int
    """The newest view whose removed members get no more traffic, also if there is an ``error``."""
    at: float
    """Wall time, Unix seconds."""
    error: str = ""
    """What of its newest view it could not apply; empty: nothing."""
    sessions: tuple[tuple[str, int], ...] = ()
    """(instance id, open sessions), counted at ``at``, if the follower can count them. A drain
    waits while there are any; it does not wait for an instance that is missing here."""
    sequences: tuple[tuple[str, int], ...] = ()
    """(instance id, sequences that have not ended and must end there), if the follower knows them.
    They count in ``sessions``, too."""
