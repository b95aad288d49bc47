"""Small questions to YARN's web servers, from the process that holds the JVM."""

import ipaddress
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.errors import ProviderError
from tarn.java import describe, jvm

__all__ = [
    "Placement",
    "Web",
    "addresses",
    "bases",
    "loopback",
    "placement",
    "placement_now",
    "scheme",
]

_WITHIN_S = 5.0
_HANDLER = "yarn.resourcemanager.placement-constraints.handler"
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""YARN is never reached through a proxy variable."""
_UNAUTHORIZED = 401
_ACCEPT = "application/json, text/plain;q=0.5"
"""Logs come as text, everything else as JSON."""


@attrs.frozen
class Placement:
    """Whether the ResourceManager takes SchedulingRequests with constraints."""

    mode: str
    """``scheduling`` or ``plain``."""
    reason: str = ""
    """Why ``plain``, in words."""


@attrs.frozen
class Web:
    """Reads from web servers of YARN, by Kerberos where one asks for it. Any thread."""

    bases: tuple[str, ...]
    """Base URLs of the ResourceManagers."""

    def property(self, name: str) -> str | None:
        """Return a live property of the first RM that answers; None: none did, or it has none."""
        for base in self.bases:
            try:
                answer = json.loads(self.get(f"{base}/conf?name={name}"))
            except (ProviderError, ValueError):
                continue
            found = answer.get("property") or (answer.get("properties") or [{}])[0]
            value = found.get("value")
            return None if value is None else str(value)
        return None

    def rest(self, path: str) -> Any:
        """Return the JSON at *path* of the RM's REST API; None: none answers it."""
        for base in self.bases:
            try:
                return json.loads(self.get(f"{base}/{path}"))
            except (ProviderError, ValueError):
                continue
        return None

    def get(self, url: str) -> bytes:
        """Return what is at *url*; see `look`."""
        return self.look(url)[0]

    def look(self, url: str, within_s: float = _WITHIN_S) -> tuple[bytes, str]:
        """Return what is at *url*, and the ``Date`` that its server wrote, or ''.

        Raises:
            ProviderError: It does not answer, or not with 200; ``retry_after_s`` is None for 404.
        """
        request = urllib.request.Request(url, headers={"Accept": _ACCEPT})  # noqa: S310 (URLs of YARN's own configuration)
        try:
            with _NO_PROXY.open(request, timeout=within_s) as answer:
                return bytes(answer.read()), str(answer.headers.get("Date", ""))
        except urllib.error.HTTPError as error:
            if error.code == _UNAUTHORIZED:
                return _by_kerberos(url), str(error.headers.get("Date", ""))
            raise ProviderError("yarn", f"answers {error.code}", where=_place(url)) from None
        except OSError as error:
            raise ProviderError(
                "yarn", f"does not answer ({error})", where=_place(url), retry_after_s=1.0
            ) from None

    def proves(self, address: str) -> bool:
        """Say whether the web server at *address* asks everybody for a Kerberos ticket."""
        try:
            with _NO_PROXY.open(
                f"{address}/conf?name=hadoop.http.authentication.type", timeout=_WITHIN_S
            ):
                return False
        except urllib.error.HTTPError as error:
            asked = error.headers.get("WWW-Authenticate", "")
            return error.code == _UNAUTHORIZED and asked.lower().startswith("negotiate")
        except OSError:
            return False


def scheme(conf: Any) -> str:
    """Return ``http`` or ``https``: how YARN's web servers are reached; *conf* is Java's."""
    return "https" if _property(conf, "yarn.http.policy") == "HTTPS_ONLY" else "http"


def bases(conf: Any) -> tuple[str, ...]:
    """Return the base URLs of every ResourceManager's web server; *conf* is Java's."""
    way = scheme(conf)
    key = "yarn.resourcemanager.webapp." + ("https." if way == "https" else "") + "address"
    if not conf.getBoolean("yarn.resourcemanager.ha.enabled", False):  # noqa: FBT003 (Java)
        return (f"{way}://{_property(conf, key)}",)
    port = "8090" if way == "https" else "8088"
    ids = [str(each) for each in conf.getStrings("yarn.resourcemanager.ha.rm-ids") or ()]
    hosts = [
        _property(conf, f"{key}.{rm}")
        or f"{_property(conf, f'yarn.resourcemanager.hostname.{rm}')}:{port}"
        for rm in ids
    ]
    return tuple(f"{way}://{host}" for host in hosts)


def placement(web: Web, *, federated: bool) -> Placement:
    """Ask for the live handler: to try it would cost an attempt, and poison its client for good."""
    if federated:
        return Placement(
            "plain", "YARN is federated, and its AMRMProxy does not pass constraints on"
        )
    handler = web.property(_HANDLER)
    if handler is None:
        return Placement("plain", f"no ResourceManager reported its {_HANDLER}")
    if handler in ("scheduler", "placement-processor"):
        return Placement("scheduling")
    return Placement("plain", f"{_HANDLER} = {handler}")


def placement_now(web: Web, before: Placement) -> Placement:
    """Return what the RM's live handler says today; *before* where none is told.

    It may have changed since the submission; the other way round, plain asks go on to work.
    """
    if before.mode != "scheduling" or web.property(_HANDLER) is None:
        return before
    return placement(web, federated=False)


def addresses(urls: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of the hosts in *urls*, each once; one without a name is left out."""
    return tuple(dict.fromkeys(address for url in urls for address in _resolved(url)))


def loopback(address: str) -> bool:
    """Say whether an IP *address* leads to the machine that it is used on. Pure."""
    found = ipaddress.ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)  # ::ffff:127.0.0.1 is said to be none by itself
    return (mapped or found).is_loopback


def _property(conf: Any, name: str) -> str:
    value = conf.get(name)
    return "" if value is None else str(value)


def _resolved(url: str) -> Iterator[str]:
    host = urlsplit(url).hostname
    try:
        infos = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP) if host else []
    except OSError:
        return
    for info in infos:
        yield str(info[4][0])


def _by_kerberos(url: str) -> bytes:
    """Ask again with the ticket of this process: Hadoop's own client does the negotiation."""
    try:
        opened = jvm.load("org.apache.hadoop.security.authentication.client.AuthenticatedURL")()
        token = jvm.load(
            "org.apache.hadoop.security.authentication.client.AuthenticatedURL$Token"
        )()
        connection = opened.openConnection(jvm.load("java.net.URL")(url), token)
        connection.setReadTimeout(int(_WITHIN_S * 1000))
        connection.setRequestProperty("Accept", _ACCEPT)
        stream = connection.getInputStream()
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()
    except jvm.throwable() as error:
        found = f"refuses the Kerberos ticket: {describe(error)}"
        raise ProviderError("yarn", found, where=_place(url)) from None


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
