"""Principals, actions, and the rights that need no authorizer. Pure.

The API token permits every action on the fleet: to see it, with the names and figures of all its
models, to change it, and to look up anybody's rights. It does not name a person. So the authorizer
decides whether its holder may use a model, as it does for everybody.
"""

import attrs

from tarn.domain.spec import SubjectsSpec

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "AUTHORIZE",
    "FLEET_ACTIONS",
    "FOLLOW",
    "INFER",
    "LIST",
    "LOAD_BALANCER",
    "METADATA",
    "MODEL_ACTIONS",
    "VIEW",
    "AccessRules",
    "Principal",
    "ProxyRule",
    "Readiness",
    "Verdict",
    "by_standing",
]


@attrs.frozen
class Principal:
    """A proven identity, and what proved it."""

    user: str
    groups: frozenset[str] = frozenset()
    via: str = "none"
    """``token``, ``scrape`` (the token of the metrics), ``spnego``, ``rm-proxy``, ``proxy`` (named
    by a trusted proxy), ``trusted-proxy`` (such a proxy itself), ``load-balancer`` (an unproven
    client of one); ``none`` for anonymous."""


ANONYMOUS = Principal("anonymous")
LOAD_BALANCER = Principal("load-balancer", via="load-balancer")
"""Everybody who reaches a load balancer of the fleet, and proves nothing else."""


@attrs.frozen
class ProxyRule:
    """The proxy that a runtime puts in front of its masters, which names users."""

    addresses: frozenset[str]
    """Numeric addresses of the proxy; a cookie from any other address is ignored."""
    owner: str
    """The user who submitted the cluster, as the proxy would name it."""
    proves: bool = False
    """True: the proxy authenticates each user that it names (Kerberos). False: a client can make
    it name anybody."""
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
    """It comes from a cache that could not be refreshed."""


@attrs.frozen
class Readiness:
    """Whether a provider can answer, and why not."""

    ready: bool
    reason: str = ""


INFER, METADATA, LIST = "infer", "metadata", "list"
VIEW, FOLLOW, AUTHORIZE, ADMIN = "view", "follow", "authorize", "admin"

MODEL_ACTIONS = (INFER, METADATA, LIST)
"""Actions on one model: use it, see its details, see that it exists."""
FLEET_ACTIONS = (VIEW, FOLLOW, AUTHORIZE, ADMIN)
"""Actions on the fleet: see it, acknowledge views, look up rights of others, change it."""
# A service may do what its own work needs: proof of identity -> (actions, reason).
_WORKS = {
    "trusted-proxy": (frozenset({VIEW, FOLLOW, AUTHORIZE}), "a trusted proxy does its work"),
    "scrape": (frozenset({VIEW}), "the token of the metrics opens them"),
    "load-balancer": (frozenset(), ""),
}


@attrs.frozen
class AccessRules:
    """The people whose rights do not depend on the authorizer."""

    owner: str = ""
    """The user who submitted the cluster; empty: the runtime cannot prove who that is."""
    admins: SubjectsSpec = attrs.field(factory=SubjectsSpec)
    viewers: SubjectsSpec = attrs.field(factory=SubjectsSpec)
    """They may view the fleet, and nothing else."""


def by_standing(principal: Principal, action: str, rules: AccessRules) -> Verdict | None:
    """Return why *principal* may do *action* to the fleet; None: ask the authorizer."""
    if action not in FLEET_ACTIONS:
        return None
    reason = ""
    if principal.via == "token":
        reason = "the api token opens its cluster"
    elif principal.via in _WORKS:
        actions, work = _WORKS[principal.via]
        reason = work if action in actions else ""
    elif principal.via != "none":
        reason = _right_of_person(principal, action, rules)
    return Verdict(allowed=True, reason=reason) if reason else None


def _right_of_person(principal: Principal, action: str, rules: AccessRules) -> str:
    if rules.owner and principal.user == rules.owner:
        return "the cluster is theirs"
    if _among(principal, rules.admins):
        return "they stand in admins"
    if action == VIEW and _among(principal, rules.viewers):
        return "they stand in viewers"
    return ""


def _among(principal: Principal, subjects: SubjectsSpec) -> bool:
    return principal.user in subjects.users or bool(principal.groups & {*subjects.groups})
