"""What a file of policies asks of Ranger Admin, and what is to be done for that. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import yaml

from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import structure
from tarn_plugins.authorizer.ranger.definition import ACCESSES, differences, service_definition
from tarn_plugins.authorizer.ranger.settings import SERVICE_TYPE, check_service

__all__ = ["AdminState", "Policy", "PolicyItem", "RangerSetup", "SetupStep", "parse", "steps"]

Plain = Mapping[str, Any]
_CODE = "TARN-3414"
_DOWNLOADERS = "policy.download.auth.users"
"""Key of a service's configuration: who, besides administrators, may download its policies."""
_ITEMS = {
    "allow": "policyItems",
    "deny": "denyPolicyItems",
    "allow_exceptions": "allowExceptions",
    "deny_exceptions": "denyExceptions",
}


@attrs.frozen
class PolicyItem:
    """Somebody, and what they may (or may not)."""

    may: tuple[str, ...]
    """Accesses: ``infer``, ``metadata``, ``list``; of clusters ``view``, ``follow``,
    ``authorize``, ``admin``."""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """``public`` is everybody."""
    roles: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse a line about nobody or nothing."""
        if not self.may:
            raise ValueError("may is empty: name what is allowed or denied")
        if not (self.users or self.groups or self.roles):
            raise ValueError("nobody is named; list users, groups or roles")


@attrs.frozen
class Policy:
    """One policy: about models, or about clusters."""

    name: str
    models: tuple[str, ...] = ()
    """Names with ``*`` and ``?``."""
    clusters: tuple[str, ...] = ()
    excludes: bool = False
    """It is about all but those."""
    description: str = ""
    enabled: bool = True
    audit: bool = True
    allow: tuple[PolicyItem, ...] = ()
    deny: tuple[PolicyItem, ...] = ()
    allow_exceptions: tuple[PolicyItem, ...] = ()
    deny_exceptions: tuple[PolicyItem, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse what Ranger Admin would, or would take without a meaning."""
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
        """The resource that it is about."""
        return "model" if self.models else "cluster"


@attrs.frozen
class RangerSetup:
    """Everything in the file."""

    service: str
    """The service that the policies belong to; made where it is missing."""
    policies: tuple[Policy, ...] = ()
    description: str = ""
    download_users: tuple[str, ...] = ()
    """Who may download the policies besides administrators: whom masters log in as."""

    def __attrs_post_init__(self) -> None:
        """Refuse one name for two policies."""
        check_service(self.service)
        names = [policy.name for policy in self.policies]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"several policies have the name {', '.join(map(repr, twice))}")


@attrs.frozen
class AdminState:
    """What Ranger Admin has; None: no such thing."""

    definition: Plain | None
    service: Plain | None
    policies: tuple[Plain, ...] = ()


@attrs.frozen
class SetupStep:
    """One thing, and what is to be done for it."""

    what: str
    """``definition``, ``service`` or ``policy``."""
    name: str
    verb: str
    """``create``, ``update``, ``same``, or ``differs``: it is left alone, though it is other."""
    body: Plain = attrs.field(factory=dict, repr=False, hash=False)
    """What is sent."""
    notes: tuple[str, ...] = ()
    """How it differs, where that is not plain to see."""


def parse(text: str, where: str) -> RangerSetup:
    """Return what a file says.

    Raises:
        ConfigErrors: Everything that is wrong with it.
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
    """Return what is to be done, in order. What the file does not name is left as it is."""
    return tuple(_steps(wanted, there, update_definition=update_definition))


def _steps(
    wanted: RangerSetup, there: AdminState, *, update_definition: bool
) -> Iterator[SetupStep]:
    yield _definition(there.definition, update=update_definition)
    yield _service(wanted, there.service)
    known = {one.get("name"): one for one in there.policies}
    for policy in wanted.policies:
        yield _policy(wanted.service, policy, known.get(policy.name))


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
    """Return what decides, whatever the order in which Ranger Admin gives it back."""
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
