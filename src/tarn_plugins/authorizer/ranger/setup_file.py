"""The service definition, and the file of policies for `tarn ranger`. Pure."""

import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import yaml

from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import structure
from tarn_plugins.authorizer.ranger.site import SERVICE_TYPE, check_service

__all__ = [
    "ACCESSES",
    "AdminState",
    "Policy",
    "PolicyItem",
    "RangerSetup",
    "SetupStep",
    "differences",
    "parse",
    "service_definition",
    "steps",
]

# The accesses to each kind of resource.
ACCESSES: Mapping[str, tuple[str, ...]] = {
    "model": ("infer", "metadata", "list"),
    "cluster": ("view", "follow", "authorize", "admin"),
}
# The parts of a definition that decide; labels, descriptions and ids may differ.
_PARTS = {"resources": ("lookupSupported", "matcher", "matcherOptions"), "accessTypes": ()}


def service_definition() -> dict[str, Any]:
    """Return the definition ``triton`` of this package."""
    text = importlib.resources.files(__package__).joinpath("servicedef.json").read_text("utf-8")
    made: dict[str, Any] = json.loads(text)
    return made


def differences(there: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of *there*, a definition in Ranger Admin, from this package's."""
    wanted = service_definition()
    for part, keys in _PARTS.items():
        known = {one.get("name"): one for one in there.get(part) or ()}
        for one in wanted[part]:
            found = known.get(one["name"])
            if found is None:
                yield f"it has no '{one['name']}' among its {part}"
                continue
            yield from (
                f"{part} '{one['name']}': {key} is {json.dumps(found.get(key))}, "
                f"not {json.dumps(one[key])}"
                for key in keys
                if found.get(key) != one[key]
            )
            implied = set(found.get("impliedGrants") or ()) ^ set(one.get("impliedGrants") or ())
            if implied:
                yield f"{part} '{one['name']}': other implied grants: {', '.join(sorted(implied))}"


Plain = Mapping[str, Any]
_CODE = "TARN-3414"
# The key in a service's configuration for users who may download its policies.
_DOWNLOADERS = "policy.download.auth.users"
_ITEMS = {
    "allow": "policyItems",
    "deny": "denyPolicyItems",
    "allow_exceptions": "allowExceptions",
    "deny_exceptions": "denyExceptions",
}


@attrs.frozen
class PolicyItem:
    """Accesses that some users, groups and roles have or do not have."""

    may: tuple[str, ...]
    """Accesses: ``infer``, ``metadata``, ``list``; of clusters ``view``, ``follow``,
    ``authorize``, ``admin``."""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """``public`` is everybody."""
    roles: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse an item without accesses, or without users, groups and roles."""
        if not self.may:
            raise ValueError("may is empty: name what is allowed or denied")
        if not (self.users or self.groups or self.roles):
            raise ValueError("nobody is named; list users, groups or roles")


@attrs.frozen
class Policy:
    """One policy for models or for clusters."""

    name: str
    models: tuple[str, ...] = ()
    """Names with ``*`` and ``?``."""
    clusters: tuple[str, ...] = ()
    excludes: bool = False
    """Whether it is for all except those."""
    description: str = ""
    enabled: bool = True
    audit: bool = True
    allow: tuple[PolicyItem, ...] = ()
    deny: tuple[PolicyItem, ...] = ()
    allow_exceptions: tuple[PolicyItem, ...] = ()
    deny_exceptions: tuple[PolicyItem, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse what Ranger Admin would refuse, or accept without effect."""
        if bool(self.models) is bool(self.clusters):
            raise ValueError(f"policy '{self.name}' must name either models or clusters")
        known = ACCESSES[self.kind]
        for key in _ITEMS:
            for item in getattr(self, key):
                for access in item.may:
                    if access not in known:
                        raise ValueError(
                            f"policy '{self.name}': '{access}' is not an action on a "
                            f"{self.kind}; use {', '.join(known)}"
                        )

    @property
    def kind(self) -> str:
        """The kind of its resource."""
        return "model" if self.models else "cluster"


@attrs.frozen
class RangerSetup:
    """The content of the file."""

    service: str
    """The service of the policies; it is created if it is missing."""
    policies: tuple[Policy, ...] = ()
    description: str = ""
    download_users: tuple[str, ...] = ()
    """Users who may download the policies besides administrators: those of masters."""

    def __attrs_post_init__(self) -> None:
        """Refuse two policies with one name."""
        check_service(self.service)
        names = [policy.name for policy in self.policies]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"several policies have the name {', '.join(map(repr, twice))}")


@attrs.frozen
class AdminState:
    """The definition, service and policies in Ranger Admin; None for a missing one."""

    definition: Plain | None
    service: Plain | None
    policies: tuple[Plain, ...] = ()


@attrs.frozen
class SetupStep:
    """What to do for one object in Ranger Admin."""

    what: str
    """``definition``, ``service`` or ``policy``."""
    name: str
    verb: str
    """``create``, ``update``, ``same``, or ``differs`` if it is left alone though it differs."""
    body: Plain = attrs.field(factory=dict, repr=False, hash=False)
    """The content to send."""
    notes: tuple[str, ...] = ()
    """The differences, if they are not obvious."""


def parse(text: str, where: str) -> RangerSetup:
    """Return the content of a file.

    Raises:
        ConfigErrors: All its flaws.
    """
    try:
        plain = yaml.safe_load(text)
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        at = f" (line {line + 1})" if line is not None else ""
        raise ConfigErrors([ConfigError(f"no YAML{at}", code=_CODE, where=where)]) from error
    wanted, problems = structure(RangerSetup, plain)
    if wanted is None:
        raise ConfigErrors(
            [
                ConfigError(
                    one.found,
                    code=_CODE,
                    where=where,
                    right=one.right,
                    next_step=one.next_step,
                )
                for one in problems
            ]
        )
    return wanted


def steps(
    wanted: RangerSetup, there: AdminState, *, update_definition: bool = False
) -> tuple[SetupStep, ...]:
    """Return the steps in order. Policies that are not in the file are left alone."""
    known = {one.get("name"): one for one in there.policies}
    return (
        _definition(there.definition, update=update_definition),
        _service(wanted, there.service),
        *(_policy(wanted.service, one, known.get(one.name)) for one in wanted.policies),
    )


def _definition(there: Plain | None, *, update: bool) -> SetupStep:
    if there is None:
        return SetupStep("definition", SERVICE_TYPE, "create", service_definition())
    notes = tuple(differences(there))
    if not notes:
        return SetupStep("definition", SERVICE_TYPE, "same")
    verb = "update" if update else "differs"
    return SetupStep("definition", SERVICE_TYPE, verb, service_definition(), notes)


def _service(wanted: RangerSetup, there: Plain | None) -> SetupStep:
    before: Plain = (there or {}).get("configs") or {}
    users = {*_split(before.get(_DOWNLOADERS)), *wanted.download_users}
    configs = {**before, _DOWNLOADERS: ",".join(sorted(users))} if users else dict(before)
    if there is None:
        body = {
            "name": wanted.service,
            "displayName": wanted.service,
            "type": SERVICE_TYPE,
            "description": wanted.description,
            "isEnabled": True,
            "configs": configs,
        }
        return SetupStep("service", wanted.service, "create", body)
    if there.get("type") != SERVICE_TYPE:
        note = f"it is of the type '{there.get('type')}', not '{SERVICE_TYPE}'"
        return SetupStep("service", wanted.service, "differs", notes=(note,))
    missing = set(wanted.download_users) - set(_split(before.get(_DOWNLOADERS)))
    if missing:
        notes = (f"{_DOWNLOADERS}: {', '.join(sorted(missing))} added",)
        return SetupStep("service", wanted.service, "update", {**there, "configs": configs}, notes)
    return SetupStep("service", wanted.service, "same")


def _policy(service: str, policy: Policy, there: Plain | None) -> SetupStep:
    body = {
        "service": service,
        "serviceType": SERVICE_TYPE,
        "name": policy.name,
        "description": policy.description,
        "policyType": 0,
        "isEnabled": policy.enabled,
        "isAuditEnabled": policy.audit,
        "resources": {
            policy.kind: {
                "values": list(policy.models or policy.clusters),
                "isExcludes": policy.excludes,
                "isRecursive": False,
            }
        },
        **{
            theirs: [_item(one) for one in getattr(policy, ours)] for ours, theirs in _ITEMS.items()
        },
    }
    if there is None:
        return SetupStep("policy", policy.name, "create", body)
    if _meaning(there) == _meaning(body):
        return SetupStep("policy", policy.name, "same")
    return SetupStep("policy", policy.name, "update", {**there, **body})


def _item(item: PolicyItem) -> dict[str, Any]:
    return {
        "users": list(item.users),
        "groups": list(item.groups),
        "roles": list(item.roles),
        "conditions": [],
        "accesses": [{"type": access, "isAllowed": True} for access in item.may],
        "delegateAdmin": False,
    }


def _meaning(policy: Plain) -> dict[str, Any]:
    """Return the parts of a policy that decide, independent of their order."""
    resources = policy.get("resources") or {}
    return {
        "description": policy.get("description") or "",
        "enabled": bool(policy.get("isEnabled", True)),
        "audit": bool(policy.get("isAuditEnabled", True)),
        "priority": policy.get("policyPriority") or 0,
        "deny all else": bool(policy.get("isDenyAllElse")),
        "resources": {
            kind: (frozenset(one.get("values") or ()), bool(one.get("isExcludes")))
            for kind, one in resources.items()
        },
        **{theirs: _items(policy.get(theirs)) for theirs in _ITEMS.values()},
    }


def _items(items: Sequence[Plain] | None) -> frozenset[Any]:
    return frozenset(
        (
            *(frozenset(one.get(key) or ()) for key in ("users", "groups", "roles")),
            frozenset(
                access.get("type")
                for access in one.get("accesses") or ()
                if access.get("isAllowed", True)
            ),
            bool(one.get("delegateAdmin")),
            str(one.get("conditions") or ""),
        )
        for one in items or ()
    )


def _split(text: object) -> list[str]:
    return [one.strip() for one in str(text or "").split(",") if one.strip()]
