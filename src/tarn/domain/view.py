"""What followers are told, and what they answer."""

import re

import attrs

from tarn.domain.endpoint import Endpoint
from tarn.domain.epoch import Epoch

__all__ = ["FOLLOWER_NAME", "Applied", "DiscoveryView", "Member"]

FOLLOWER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a follower may be called; it is a part of a URL."""


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
    """The whole truth about who may get traffic.

    A complete newer view is obeyed even when empty; an incomplete one (from a new master that has
    not yet probed what it recovered) adds but removes nothing. The revision moves only when the
    ordered members do, and once when the view becomes complete.
    """

    epoch: Epoch
    revision: int
    complete: bool
    members: tuple[Member, ...] = ()
    """Sorted by instance id."""


@attrs.frozen
class Applied:
    """What one follower says it did: acknowledged revision, when, and how much is still open."""

    name: str
    epoch: Epoch
    revision: int
    """The last view of which everybody who left is out of its traffic, whatever ``error`` says."""
    at: float
    """Wall time, Unix seconds."""
    error: str = ""
    """What of its newest view it could not do; empty when nothing is open."""
    sessions: tuple[tuple[str, int], ...] = ()
    """(instance id, open sessions), counted at ``at``, where the follower can count them. A drain
    waits while there are any; an instance that is not named is not waited for."""
