"""Find what is wrong with a topology of Knox. Pure."""

# How Knox 2.0.0 behaves in each of these cases was seen on a real one (tests/discovery).

import difflib
import xml.parsers.expat
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

import attrs

from tarn.domain import CODES, Severity
from tarn.errors import ConfigError
from tarn.interfaces import Finding
from tarn_plugins.discovery.knox.rendering import ROLE

__all__ = ["examine", "parse"]

_DEEPEST = 32  # a topology nests six elements


@attrs.define
class Element:
    """One element of XML; a topology has no attributes."""

    tag: str
    line: int
    text: str = ""
    children: list["Element"] = attrs.field(factory=list)

    def all(self, tag: str) -> Iterator["Element"]:
        """Yield the children named *tag*."""
        return (child for child in self.children if child.tag == tag)

    def leaf(self, tag: str) -> str:
        """Return the stripped text of the first child named *tag*; '' if there is none."""
        return next((child.text.strip() for child in self.all(tag)), "")


@attrs.frozen
class Parameter:
    """One parameter of a provider; *value* keeps its blanks and line ends."""

    name: str
    value: str
    line: int


@attrs.frozen
class KnoxProvider:
    """One provider of the chain."""

    role: str
    name: str
    enabled: bool
    parameters: tuple[Parameter, ...]
    line: int


@attrs.frozen
class Service:
    """One service, and (URL, line) for each of its URLs."""

    role: str
    urls: tuple[tuple[str, int], ...]
    line: int


@attrs.frozen
class Topology:
    """The content of a topology file."""

    providers: tuple[KnoxProvider, ...]
    services: tuple[Service, ...]


def parse(data: bytes) -> Topology:
    """Return the topology in the file *data*.

    Raises:
        ConfigError: It is not XML (TARN-3312), declares a document type (TARN-3313), or is
            something else than a topology (TARN-3311). ``where`` is the line.
    """
    root = _tree(data)
    if root.tag != "topology":
        raise ConfigError(
            f"the root is <{root.tag}>; a topology's is <topology>",
            code="TARN-3311",
            where=str(root.line),
        )
    gateways = root.all("gateway")
    return Topology(
        tuple(_provider(one) for gateway in gateways for one in gateway.all("provider")),
        tuple(_service(one) for one in root.all("service")),
    )


def _provider(element: Element) -> KnoxProvider:
    rows = ((one, next(one.all("value"), None)) for one in element.all("param"))
    return KnoxProvider(
        element.leaf("role"),
        element.leaf("name"),
        element.leaf("enabled").lower() != "false",
        tuple(
            Parameter(row.leaf("name"), value.text if value else "", (value or row).line)
            for row, value in rows
        ),
        element.line,
    )


def _service(element: Element) -> Service:
    urls = tuple((one.text.strip(), one.line) for one in element.all("url"))
    return Service(element.leaf("role"), tuple(url for url in urls if url[0]), element.line)


def _tree(data: bytes) -> Element:
    reader = _TopologyReader()
    try:
        return reader.read(data)
    except xml.parsers.expat.ExpatError as error:
        said = xml.parsers.expat.ErrorString(error.code)
        raise ConfigError(
            f"not well-formed XML: {said}", code="TARN-3312", where=str(error.lineno)
        ) from error
    except LookupError as error:
        raise ConfigError(f"not readable XML: {error}", code="TARN-3312", where="1") from error


class _TopologyReader:
    """Builds elements from expat's events."""

    def __init__(self) -> None:
        self._top = Element("", 0)
        self._open = [self._top]
        self._parser = xml.parsers.expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def read(self, data: bytes) -> Element:
        """Return the root element of *data*."""
        self._parser.Parse(data, True)  # noqa: FBT003 (expat's own signature)
        return self._top.children[0]

    def _begin(self, tag: str, _attributes: object) -> None:
        if len(self._open) > _DEEPEST:
            raise self._refused("TARN-3311", f"elements nested more than {_DEEPEST} deep")
        element = Element(tag, self._parser.CurrentLineNumber)
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        self._open.pop()

    def _text(self, found: str) -> None:
        self._open[-1].text += found

    def _doctype(self, *_: object) -> None:
        raise self._refused("TARN-3313", "a DOCTYPE, which may read other files")

    def _refused(self, code: str, found: str) -> ConfigError:
        return ConfigError(found, code=code, where=str(self._parser.CurrentLineNumber))


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
)  # Knox 2.0.0, `HaServiceConfigConstants`
_RANGER = {"XASecurePDPKnox", "RangerPDPKnox"}
Found = tuple[str, int, str]
"""(code, line, what was found)"""


def examine(name: str, data: bytes) -> Iterable[Finding]:
    """Return the problems of the topology *data*, in the order of its lines.

    Args:
        name: The file's name, for ``Finding.where``.
        data: The file's content; nothing else is read.
    """
    try:
        topology = parse(data)
    except ConfigError as error:
        return [_finding(name, (error.code, int(error.where), error.found))]
    if not any(service.role == ROLE for service in topology.services):
        roles = ", ".join(service.role for service in topology.services) or "none"
        found_none = f"no service of the role {ROLE}; its services: {roles}"
        return [_finding(name, ("TARN-3314", 1, found_none))]
    found = [one for check in _CHECKS for one in check(topology)]
    return [_finding(name, one) for one in sorted(found, key=lambda one: one[1])]


def _finding(name: str, found: Found) -> Finding:
    code, line, text = found
    row = CODES[code]
    return Finding(code, f"{name}:{line}", text, row.next_step, row.severity is Severity.ALERT)


def _of(topology: Topology, role: str) -> list[KnoxProvider]:
    # Knox ignores the case of a role
    return [one for one in topology.providers if one.enabled and one.role.lower() == role]


def _triton(topology: Topology) -> Service:
    return next(service for service in topology.services if service.role == ROLE)


def _parameter(topology: Topology) -> Parameter | None:
    """Return HaProvider's parameter for Triton."""
    rows = (row for provider in _of(topology, "ha") for row in provider.parameters)
    return next((row for row in rows if row.name.strip() == ROLE), None)


def _meant(row: Parameter | None) -> Mapping[str, str]:
    """Return the parameter's keys and values, without the blanks that make Knox lose a key."""
    pairs = (pair.partition("=") for pair in (row.value if row else "").split(";"))
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}


# -- the checks


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
