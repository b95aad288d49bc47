"""Knox's files for a fleet: service definition, topology, descriptor. Pure.

Knox 2.0.0 is what they were tried with. Clients ask
``https://KNOX:8443/gateway/<topology>/triton/v2/...``.
"""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping

from tarn_plugins.discovery.knox.gateway_secret import header
from tarn_plugins.discovery.knox.places import (
    ROLE,
    VERSION,
    Balancers,
    Ensemble,
    Shape,
    check_acl,
    check_name,
)

__all__ = ["EVERYONE", "SERVICE", "files"]

EVERYONE = "*;*;*"
SERVICE = f"services/triton/{VERSION}/service.xml"
"""The one file that may hold a secret."""
_ROUTES = {
    "v2root": ("/triton/v2", "/v2"),
    "v2": ("/triton/v2/{path=**}?{**}", "/v2/{path=**}?{**}"),
    "v1": ("/triton/v1/{path=**}?{**}", "/v1/{path=**}?{**}"),
    "metrics": ("/triton/metrics", "/metrics"),
    "tarn": ("/triton/tarn/{path=**}?{**}", "/tarn/{path=**}?{**}"),
}
"""Name of a rule to what Knox is asked, and what the fleet is asked."""
_CALM = "enabled=true;enableLoadBalancing=true;maxFailoverAttempts=3;failoverSleep=100"
"""Knox's own pause of 1000 ms before it tries another one is an eternity here."""
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
    """Return path to content, the paths relative to a directory of the operator's.

    ``services/`` belongs into Knox's ``data``, the rest into its ``conf``: ``topologies``, or
    ``descriptors`` with ``shared-providers``, and never both, for Knox writes a topology of the
    descriptor's name over the other one.

    With *gate*, a secret, Knox proves itself by it to HAProxy; it stands in `SERVICE`.

    Raises:
        ConfigError: *name* or *acl* cannot stand in them.
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
    if gate:
        _parameters(dispatch, {"requestAppendHeaders": header(gate)})
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
    """Yield (role, name, parameters) of every provider but that of authentication."""
    yield "identity-assertion", "Default", {}
    yield "authorization", "AclsAuthz", {f"{ROLE}.acl": acl}
    match shape:
        case Ensemble(servers, namespace):
            place = f"zookeeperEnsemble={servers};zookeeperNamespace={namespace}"
            yield "ha", "HaProvider", {ROLE: f"{_CALM};{place}"}
        case Balancers(urls) if len(urls) > 1:
            yield "ha", "HaProvider", {ROLE: _CALM}


def _urls(shape: Shape) -> tuple[str, ...]:
    """Return what is written as the service's URLs: none, where ZooKeeper knows them."""
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
