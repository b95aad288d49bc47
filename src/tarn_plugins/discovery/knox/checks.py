"""What is wrong with a topology of Knox. Pure.

What Knox 2.0.0 does with each of these was seen on a real one (``tests/discovery``).
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from tarn.domain import CODES, Severity
from tarn.errors import ConfigError
from tarn.interfaces import Finding
from tarn_plugins.discovery.knox.places import ROLE
from tarn_plugins.discovery.knox.topology import KnoxProvider, Parameter, Service, Topology, parse

__all__ = ["examine"]

_KEYS = (
    "enabled",
    "enableLoadBalancing",
    "enableStickySession",
    "disableLoadBalancingForUserAgents",
    "failoverSleep",
    "maxFailoverAttempts",
    "noFallback",
    "stickySessionCookieName",
    "zookeeperEnsemble",
    "zookeeperNamespace",
)
"""Knox 2.0.0, ``HaServiceConfigConstants``."""
_RANGER = {"XASecurePDPKnox", "RangerPDPKnox"}
Found = tuple[str, int, str]
"""(code, line, what was found)"""


def examine(name: str, data: bytes) -> Iterable[Finding]:
    """Return what is wrong with the topology *data*, in the order of its lines.

    Args:
        name: The file's, for ``Finding.where``.
        data: The file's content; nothing else is read.
    """
    try:
        topology = parse(data)
    except ConfigError as error:
        return [_finding(name, (error.code, int(error.where), error.found))]
    if not any(service.role == ROLE for service in topology.services):
        return [_finding(name, ("TARN-3314", 1, _other_roles(topology)))]
    found = [one for check in _CHECKS for one in check(topology)]
    return [_finding(name, one) for one in sorted(found, key=lambda one: one[1])]


def _finding(name: str, found: Found) -> Finding:
    code, line, text = found
    row = CODES[code]
    return Finding(code, f"{name}:{line}", text, row.next_step, row.severity is Severity.ALERT)


def _other_roles(topology: Topology) -> str:
    roles = ", ".join(service.role for service in topology.services) or "none"
    return f"no service of the role {ROLE}; its services: {roles}"


def _of(topology: Topology, role: str) -> list[KnoxProvider]:
    """Return the enabled providers of a role; Knox's roles have no case."""
    return [one for one in topology.providers if one.enabled and one.role.lower() == role]


def _triton(topology: Topology) -> Service:
    return next(service for service in topology.services if service.role == ROLE)


def _parameter(topology: Topology) -> Parameter | None:
    """Return HaProvider's parameter for Triton, or None."""
    rows = (row for provider in _of(topology, "ha") for row in provider.parameters)
    return next((row for row in rows if row.name.strip() == ROLE), None)


def _meant(row: Parameter | None) -> Mapping[str, str]:
    """Return what the parameter is meant to say, whatever blanks are in it."""
    pairs = (pair.partition("=") for pair in (row.value if row else "").split(";"))
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}


# -- one check for each way to be wrong


def _value(topology: Topology) -> Iterator[Found]:
    row = _parameter(topology)
    if row is None:
        return
    keys = _meant(row)
    if any(sign.isspace() for sign in row.value):
        lost = ", ".join(key for key in keys if key in _KEYS)
        yield "TARN-3320", row.line, f"blanks or line ends in the value of {ROLE}; lost: {lost}"
    for key in keys:
        if key not in _KEYS:
            near = difflib.get_close_matches(key[:80], _KEYS, n=1)
            meant = f"; perhaps '{near[0]}' is meant" if near else ""
            yield "TARN-3327", row.line, f"HaProvider has a key '{key[:80]}'{meant}"
    if keys.get("enableLoadBalancing", "").lower() != "true":
        yield "TARN-3321", row.line, f"the value of {ROLE} has no enableLoadBalancing=true"


def _ensemble(topology: Topology) -> Iterator[Found]:
    row = _parameter(topology)
    keys = _meant(row)
    line = row.line if row else 0
    servers, namespace = keys.get("zookeeperEnsemble", ""), keys.get("zookeeperNamespace", "")
    if bool(servers) != bool(namespace):
        lacks = "zookeeperNamespace" if servers else "zookeeperEnsemble"
        yield "TARN-3325", line, f"{lacks} is missing; the other one is there"
    elif servers:
        yield "TARN-3323", line, f"instances come from ZooKeeper ({servers}{_slashed(namespace)})"
        if not namespace.rstrip("/").endswith("/instances"):
            right = f"{_slashed(namespace)}/instances"
            text = f"zookeeperNamespace={namespace}; TARN publishes at a path such as {right}"
            yield "TARN-3322", line, text


def _slashed(namespace: str) -> str:
    return f"/{namespace.strip('/')}"


def _urls(topology: Topology) -> Iterator[Found]:
    service, row = _triton(topology), _parameter(topology)
    if not service.urls and not _meant(row).get("zookeeperEnsemble"):
        yield "TARN-3324", service.line, f"the service {ROLE} has no URL"
    if len(service.urls) > 1 and row is None:
        yield "TARN-3326", service.urls[1][1], f"{len(service.urls)} URLs, and no HaProvider"
    for url, line in service.urls:
        if not _is_base(url):
            yield "TARN-3328", line, f"'{url[:200]}' is not http://host:port"


def _is_base(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (it is checked when it is read)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.path in {"", "/"}


def _identity(topology: Topology) -> Iterator[Found]:
    providers = [*_of(topology, "authentication"), *_of(topology, "federation")]
    if not providers:
        yield "TARN-3330", 1, "no enabled provider of the role authentication or federation"
    for one in providers:
        if one.name == "Anonymous":
            yield "TARN-3331", one.line, "the authentication provider is 'Anonymous'"
        for row in one.parameters:
            if row.name.strip().startswith("users."):
                yield "TARN-3334", row.line, f"'{row.name.strip()}' has its password next to it"


def _rights(topology: Topology) -> Iterator[Found]:
    providers = _of(topology, "authorization")
    if not providers:
        yield "TARN-3333", 1, "no enabled provider of the role authorization"
    for one in providers:
        if one.name in _RANGER:
            yield "TARN-3332", one.line, f"the authorization provider is '{one.name}'"


_CHECKS: tuple[Callable[[Topology], Iterator[Found]], ...] = (
    _value,
    _ensemble,
    _urls,
    _identity,
    _rights,
)
