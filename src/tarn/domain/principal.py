"""Who asks, what for, and the answer."""

import attrs

__all__ = ["ANONYMOUS", "Principal", "Readiness", "Verdict"]


@attrs.frozen
class Principal:
    """A proven identity, and what proved it."""

    user: str
    groups: frozenset[str] = frozenset()
    via: str = "none"
    """``token``, ``spnego``, ``proxy`` ...; ``none`` for anonymous."""


ANONYMOUS = Principal("anonymous")


@attrs.frozen
class Verdict:
    """An authorizer's answer."""

    allowed: bool
    reason: str
    stale: bool = False
    """Given from a cache that could not be refreshed."""


@attrs.frozen
class Readiness:
    """Whether a provider can answer, and why not."""

    ready: bool
    reason: str = ""
