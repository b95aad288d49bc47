"""What Ranger's policies mean, written down once more, from its documentation and not its code."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Plain = Mapping[str, Any]


def allowed(  # noqa: PLR0917 (a question)
    definition: Plain,
    policies: Sequence[Plain],
    user: str,
    groups: Iterable[str],
    model: str,
    access: str,
) -> bool:
    """A no of any policy that matches counts more than a yes; without either it is no."""
    implied = _implied(definition)
    names = {*groups, "public"}

    def hit(items: Iterable[Plain]) -> bool:
        return any(
            access in _granted(item, implied)
            and (user in item["users"] or not names.isdisjoint(item["groups"]))
            for item in items
        )

    yes = False
    for policy in policies:
        if not policy["isEnabled"] or not _about(policy, model):
            continue
        if hit(policy["denyPolicyItems"]) and not hit(policy["denyExceptions"]):
            return False
        yes |= hit(policy["policyItems"]) and not hit(policy["allowExceptions"])
    return yes


def _implied(definition: Plain) -> dict[str, set[str]]:
    return {one["name"]: set(one["impliedGrants"]) for one in definition["accessTypes"]}


def _granted(item: Plain, implied: Mapping[str, set[str]]) -> set[str]:
    named = {access["type"] for access in item["accesses"]}
    return named.union(*(implied[name] for name in named))


def _about(policy: Plain, model: str) -> bool:
    resource = policy["resources"].get("model")
    if resource is None:
        return False
    found = any(_like(value, model) for value in resource["values"])
    return found is not resource["isExcludes"]


def _like(pattern: str, name: str) -> bool:
    parts = {"*": ".*", "?": "."}
    text = "".join(parts.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(text, name, re.IGNORECASE | re.DOTALL) is not None
