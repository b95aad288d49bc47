"""Render Knox's files for a fleet: service definition, topology and descriptor.

Clients ask ``https://KNOX:8443/gateway/<topology>/triton/v2/...``. The files were tried with Knox
2.0.0.
"""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.errors import ConfigError

__all__ = [
    "EVERYONE",
    "ROLE",
    "SERVICE",
    "VARIABLE",
    "Balancers",
    "Ensemble",
    "Shape",
    "files",
    "gate",
]

ROLE = "TRITON"
VERSION = "2.0.0"
"""The version of the service definition, which Knox requires."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}")
_PATH = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_ACL = re.compile(r"[^;\s<>&]+(?:;[^;\s<>&]+){2}")


@attrs.frozen
class Balancers:
    """Knox asks a HAProxy, and the next one if that does not answer."""

    urls: tuple[str, ...]

    def __attrs_post_init__(self) -> None:
        """Refuse what is not a base URL."""
        for url in self.urls:
            _check_url(url)


@attrs.frozen
class Ensemble:
    """Knox finds the instances in ZooKeeper; it needs the URLManager's jar."""

    servers: str
    """``host:port``, separated by commas."""
    namespace: str
    """The path of the instances' nodes."""

    def __attrs_post_init__(self) -> None:
        """Refuse values that Knox would split at ``;`` and ``=``, or not understand."""
        if not all(_SERVER.fullmatch(server) for server in self.servers.split(",")):
            raise ConfigError(
                f"'{self.servers}' is not a ZooKeeper ensemble",
                where="--zookeeper",
                right="Expected zk1:2181,zk2:2181, without spaces; a chroot belongs in front of "
                "--zookeeper-namespace.",
            )
        if not _PATH.fullmatch(self.namespace):
            raise ConfigError(
                f"'{self.namespace}' is not a path that Knox accepts",
                where="--zookeeper-namespace",
                right="Expected a path such as /services/triton/instances.",
            )


Shape = Balancers | Ensemble
"""How Knox reaches the instances."""


def check_name(name: str) -> str:
    """Return *name* if a topology, a file and a URL may have it.

    Raises:
        ConfigError: It has other characters.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"'{name}' is not a valid topology name",
            where="--name",
            right="Use at most 64 letters, digits, '-' and '_'.",
        )
    return name


def check_acl(acl: str) -> str:
    """Return *acl* if it is an access list of Knox's AclsAuthz.

    Raises:
        ConfigError: It does not have three parts.
    """
    if not _ACL.fullmatch(acl):
        raise ConfigError(
            f"'{acl}' is not an access list",
            where="--acl",
            right="Use 'users;groups;addresses', each a list with commas or '*'.",
        )
    return acl


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
    clean = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain or not clean:
        raise ConfigError(
            f"'{url}' is not a base URL",
            where="--url",
            right="Expected http://lb1:8080, with nothing after the port.",
        )
    if port == 0:
        raise ConfigError(f"'{url}' has port 0, at which nobody listens", where="--url")


VARIABLE = "TARN_KNOX_GATE"
_GATE = re.compile(r"[A-Za-z0-9_-]{24,128}")  # without the separators of Knox's list of headers


def gate(file: Path | None, environ: Mapping[str, str]) -> str:
    """Return the secret in *file*, else in the variable `VARIABLE`; '' without either.

    Raises:
        ConfigError: It cannot be read, or is not valid in a header.
    """
    if file is None:
        text, where = environ.get(VARIABLE, "").strip(), VARIABLE
        if not text:
            return ""
    else:
        where = str(file)
        try:
            text = file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not ASCII text"
            raise ConfigError(
                f"the gate's secret cannot be read ({why})", where=where, code="TARN-3343"
            ) from error
    if not _GATE.fullmatch(text):
        raise ConfigError(
            f"not a valid gateway secret: it has {len(text)} characters",
            where=where,
            right="Use 24 to 128 letters, digits, '-' and '_'.",
            next_step="For example: openssl rand -hex 32 > gate && chmod 600 gate",
            code="TARN-3343",
        )
    return text


EVERYONE = "*;*;*"
SERVICE = f"services/triton/{VERSION}/service.xml"
"""The only file that may hold a secret."""
_ROUTES = {
    "v2root": ("/triton/v2", "/v2"),
    "v2": ("/triton/v2/{path=**}?{**}", "/v2/{path=**}?{**}"),
    "v1": ("/triton/v1/{path=**}?{**}", "/v1/{path=**}?{**}"),
    "metrics": ("/triton/metrics", "/metrics"),
    "tarn": ("/triton/tarn/{path=**}?{**}", "/tarn/{path=**}?{**}"),
}
"""Name of a rule to the path at Knox and the path at the fleet."""
# a failed request tries another instance after 100 ms: Knox's default of 1000 ms is too long here
_CALM = "enabled=true;enableLoadBalancing=true;maxFailoverAttempts=3;failoverSleep=100"
_LIMITS = {
    "httpclient.maxConnections": "512",  # Knox's own 32 would be the most inferences at once
    "httpclient.connectionTimeout": "5s",  # a machine that is gone refuses nothing
    "httpclient.socketTimeout": "10m",  # the longest inference
}
_AUTHENTICATION = f"""
 ADD YOUR AUTHENTICATION PROVIDER in the place of this comment: without one this topology admits
 nobody. An example, for LDAP:

    <provider>
      <role>authentication</role>
      <name>ShiroProvider</name>
      <enabled>true</enabled>
      <param><name>sessionTimeout</name><value>30</value></param>
      <param><name>main.ldapRealm</name><value>org.apache.knox.gateway.shirorealm.KnoxLdapRealm</value></param>
      <param><name>main.ldapContextFactory</name><value>org.apache.knox.gateway.shirorealm.KnoxLdapContextFactory</value></param>
      <param><name>main.ldapRealm.contextFactory</name><value>$ldapContextFactory</value></param>
      <param><name>main.ldapRealm.userDnTemplate</name><value>uid={{0}},ou=people,dc=example,dc=com</value></param>
      <param><name>main.ldapRealm.contextFactory.url</name><value>ldaps://ldap.example.com:636</value></param>
      <param><name>main.ldapRealm.contextFactory.authenticationMechanism</name><value>simple</value></param>
      <param><name>urls./**</name><value>authcBasic</value></param>
    </provider>

 {ROLE}.acl below says which of them may use the fleet: users;groups;addresses.
"""


def files(
    shape: Shape, name: str = "triton", acl: str = EVERYONE, gate: str = ""
) -> Mapping[str, str]:
    """Return the files: relative path to content.

    ``services/`` belongs into Knox's ``data``, the others into its ``conf``: either ``topologies``,
    or ``descriptors`` with ``shared-providers``. Never install both, since Knox turns a descriptor
    into a topology, which overwrites the other one of the same name.

    With the secret *gate*, which is written into `SERVICE`, Knox proves itself to HAProxy.

    Raises:
        ConfigError: *name* or *acl* is not valid.
    """
    check_name(name)
    check_acl(acl)
    return {
        SERVICE: _text(_service(gate)),
        f"services/triton/{VERSION}/rewrite.xml": _text(_rules()),
        f"topologies/{name}.xml": _text(_topology(shape, name, acl)),
        f"descriptors/{name}.json": _json(_descriptor(shape, name)),
        f"shared-providers/{name}-providers.json": _json(_providers(shape, acl)),
    }


def _service(gate: str) -> ET.Element:
    service = ET.Element("service", role=ROLE, name="triton", version=VERSION)
    about = ET.SubElement(service, "metadata")
    _leaf(about, "type", "API")
    _leaf(about, "context", "/triton")
    _leaf(about, "shortDesc", "Triton Inference Server")
    routes = ET.SubElement(service, "routes")
    for asked, _ in _ROUTES.values():
        path = asked.partition("?")[0].replace("{path=**}", "**")
        ET.SubElement(routes, "route", path=path)
    dispatch = ET.SubElement(
        service,
        "dispatch",
        {
            "classname": "org.apache.knox.gateway.dispatch.ConfigurableDispatch",
            "ha-classname": "org.apache.knox.gateway.ha.dispatch.ConfigurableHADispatch",
        },
    )
    if gate:  # Knox adds the header to each request that it passes on
        _parameters(dispatch, {"requestAppendHeaders": f"X-Tarn-Gate:{gate}"})
    return service


def _rules() -> ET.Element:
    rules = ET.Element("rules")
    for rule, (asked, template) in _ROUTES.items():
        one = ET.SubElement(
            rules,
            "rule",
            dir="IN",
            name=f"{ROLE}/triton/{rule}/inbound",
            pattern=f"*://*:*/**{asked}",
        )
        ET.SubElement(one, "rewrite", template=f"{{$serviceUrl[{ROLE}]}}{template}")
    return rules


def _topology(shape: Shape, name: str, acl: str) -> ET.Element:
    topology = ET.Element("topology")
    _leaf(topology, "name", name)
    gateway = ET.SubElement(topology, "gateway")
    gateway.append(ET.Comment(_AUTHENTICATION))
    for role, provider, parameters in _chain(shape, acl):
        one = ET.SubElement(gateway, "provider")
        _leaf(one, "role", role)
        _leaf(one, "name", provider)
        _leaf(one, "enabled", "true")
        _parameters(one, parameters)
    service = ET.SubElement(topology, "service")
    _leaf(service, "role", ROLE)
    _leaf(service, "version", VERSION)
    for url in _urls(shape):
        _leaf(service, "url", url)
    _parameters(service, _LIMITS)
    return topology


def _chain(shape: Shape, acl: str) -> Iterable[tuple[str, str, Mapping[str, str]]]:
    """Yield (role, name, parameters) of every provider except that for authentication."""
    yield "identity-assertion", "Default", {}
    yield "authorization", "AclsAuthz", {f"{ROLE}.acl": acl}
    match shape:
        case Ensemble(servers, namespace):
            place = f"zookeeperEnsemble={servers};zookeeperNamespace={namespace}"
            yield "ha", "HaProvider", {ROLE: f"{_CALM};{place}"}
        case Balancers(urls) if len(urls) > 1:
            yield "ha", "HaProvider", {ROLE: _CALM}


def _urls(shape: Shape) -> tuple[str, ...]:
    # with an ensemble the service has no URLs: Knox finds them in ZooKeeper
    return tuple(url.rstrip("/") for url in shape.urls) if isinstance(shape, Balancers) else ()


def _descriptor(shape: Shape, name: str) -> object:
    service: dict[str, object] = {"name": ROLE, "version": VERSION, "params": _LIMITS}
    if urls := _urls(shape):
        service["urls"] = list(urls)
    return {"provider-config-ref": f"{name}-providers.json", "services": [service]}


def _providers(shape: Shape, acl: str) -> object:
    return {
        "providers": [
            {"role": role, "name": provider, "enabled": "true", "params": dict(parameters)}
            for role, provider, parameters in _chain(shape, acl)
        ]
    }


def _parameters(above: ET.Element, parameters: Mapping[str, str]) -> None:
    for key, value in parameters.items():
        row = ET.SubElement(above, "param")
        _leaf(row, "name", key)
        _leaf(row, "value", value)


def _leaf(above: ET.Element, tag: str, text: str) -> None:
    ET.SubElement(above, tag).text = text


def _text(root: ET.Element) -> str:
    ET.indent(root)
    return f"{ET.tostring(root, 'unicode')}\n"


def _json(value: object) -> str:
    return f"{json.dumps(value, indent=2)}\n"
