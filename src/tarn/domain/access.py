"""What may be asked for, and who may without asking an authorizer. Pure.

The api token opens a cluster: its fleet, with the names and figures of all its models, and whose
rights may be looked up. It is nobody's name, so about using a model, to which people have rights,
the authorizer is asked as about anybody.
"""

import attrs

from tarn.domain.principal import Principal, Verdict
from tarn.domain.spec import SubjectsSpec

__all__ = [
    "ADMIN",
    "AUTHORIZE",
    "FLEET_ACTIONS",
    "FOLLOW",
    "INFER",
    "LIST",
    "METADATA",
    "MODEL_ACTIONS",
    "VIEW",
    "AccessRules",
    "by_standing",
]

INFER, METADATA, LIST = "infer", "metadata", "list"
VIEW, FOLLOW, AUTHORIZE, ADMIN = "view", "follow", "authorize", "admin"

MODEL_ACTIONS = (INFER, METADATA, LIST)
"""On one model: use it, see its details, see that it is there."""
FLEET_ACTIONS = (VIEW, FOLLOW, AUTHORIZE, ADMIN)
"""On the fleet: see it, say what was applied of it, ask what others may, change it."""
_WORKS = {
    "trusted-proxy": (frozenset({VIEW, FOLLOW, AUTHORIZE}), "a trusted proxy does its work"),
    "scrape": (frozenset({VIEW}), "the token of the metrics opens them"),
}
"""What each needs for its own work: how it was proven -> actions, and how that is said."""


@attrs.frozen
class AccessRules:
    """Whose standing is known without an authorizer."""

    owner: str = ""
    """Who submitted the cluster, where the runtime can prove it; empty: nobody."""
    admins: SubjectsSpec = attrs.field(factory=SubjectsSpec)
    viewers: SubjectsSpec = attrs.field(factory=SubjectsSpec)
    """They may view the fleet, and nothing else."""


def by_standing(principal: Principal, action: str, rules: AccessRules) -> Verdict | None:
    """Return why *principal* may do *action* to the fleet; None: the authorizer is asked."""
    if action not in FLEET_ACTIONS:
        return None
    standing = _standing(principal, action, rules)
    return Verdict(allowed=True, reason=standing) if standing else None


def _standing(principal: Principal, action: str, rules: AccessRules) -> str:
    if principal.via == "token":
        return "the api token opens its cluster"
    parts, standing = _WORKS.get(principal.via, (frozenset(), ""))
    if principal.via == "none" or principal.via in _WORKS:
        return standing if action in parts else ""
    return _of_person(principal, action, rules)


def _of_person(principal: Principal, action: str, rules: AccessRules) -> str:
    if rules.owner and principal.user == rules.owner:
        return "the cluster is theirs"
    if _among(principal, rules.admins):
        return "they stand in admins"
    if action == VIEW and _among(principal, rules.viewers):
        return "they stand in viewers"
    return ""


def _among(principal: Principal, subjects: SubjectsSpec) -> bool:
    return principal.user in subjects.users or bool(principal.groups & {*subjects.groups})
