"""Who asks, what for, and the answer."""

import attrs

__all__ = ["ANONYMOUS", "Principal", "ProxyRule", "Readiness", "Verdict"]


@attrs.frozen
class Principal:
    """A proven identity, and what proved it."""

    user: str
    groups: frozenset[str] = frozenset()
    via: str = "none"
    """``token``, ``scrape`` (the token of the metrics), ``spnego``, ``rm-proxy``, ``proxy`` (named
    by a trusted proxy), ``trusted-proxy`` (such a proxy itself); ``none`` for anonymous."""


ANONYMOUS = Principal("anonymous")


@attrs.frozen
class ProxyRule:
    """Who may speak for a user: the proxy that a runtime puts in front of its masters."""

    addresses: frozenset[str]
    """Numeric addresses from which the proxy connects; from any other its cookie says nothing."""
    owner: str
    """The user who submitted the cluster, as the proxy would name it."""
    proves: bool = False
    """The proxy names only users that it has authenticated itself (Kerberos); else anybody may
    have told it any name."""
    cookie: str = "proxy-user"
    """Name of the cookie; its value is form-encoded."""
    base: str = ""
    """The path under which the proxy shows this master (``/proxy/application_1_2``)."""


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
