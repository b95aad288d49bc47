"""Requests to YARN's web servers, in the process that holds the JVM."""

import contextlib
import ipaddress
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.errors import NotFoundError, ProviderError
from tarn.interfaces import LogTail
from tarn.java import describe, jvm
from tarn_plugins.runtime.yarn.messages import AllocatedContainer

__all__ = [
    "NodeLogs",
    "PageMissingError",
    "Placement",
    "Web",
    "addresses",
    "bases",
    "conf_property",
    "log_contents",
    "loopback",
    "placement",
    "placement_now",
    "scheme",
]

_WITHIN_S = 5.0
_HANDLER = "yarn.resourcemanager.placement-constraints.handler"
# Requests to YARN ignore proxy variables.
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_UNAUTHORIZED, _NOT_FOUND = 401, 404
# Logs come as text, everything else as JSON.
_ACCEPT = "application/json, text/plain;q=0.5"

_HEAD = re.compile(
    rb"^LogType:(?P<name>[^\n]*)\n(?:(?!LogType:|LogContents:)[^\n]*\n)*?"
    rb"LogLength:(?P<length>\d+)\n(?:(?!LogType:|LogContents:)[^\n]*\n)*?LogContents:\n",
    re.MULTILINE,
)

_FILE = "triton.stderr"
_BYTES_A_LINE = 256
_LEAST, _MOST = 64 * 1024, 1024 * 1024


class PageMissingError(ProviderError):
    """A web server of YARN has no page at this URL."""


@attrs.frozen
class Placement:
    """Whether the ResourceManager accepts SchedulingRequests with constraints."""

    mode: str
    """``scheduling`` or ``plain``."""
    reason: str = ""
    """Why ``plain``."""


@attrs.frozen
class Web:
    """Reads pages of YARN's web servers, by Kerberos if they require it. Any thread may use it."""

    bases: tuple[str, ...]
    """Base URLs of the ResourceManagers."""

    def property(self, name: str) -> str | None:
        """Return a live property of the first RM that answers; None if unknown."""
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
        """Return the JSON at *path* of the RM's REST API; None if no RM answers."""
        for base in self.bases:
            try:
                return json.loads(self.get(f"{base}/{path}"))
            except (ProviderError, ValueError):
                continue
        return None

    def get(self, url: str) -> bytes:
        """Return the page at *url*; see `look`."""
        return self.look(url)[0]

    def look(self, url: str, within_s: float = _WITHIN_S) -> tuple[bytes, str]:
        """Return the page at *url*, and its header ``Date`` or ''.

        Raises:
            PageMissingError: The answer is 404.
            ProviderError: There is no answer, or not 200.
        """
        request = urllib.request.Request(url, headers={"Accept": _ACCEPT})  # noqa: S310 (URLs of YARN's own configuration)
        try:
            with _NO_PROXY.open(request, timeout=within_s) as answer:
                return bytes(answer.read()), str(answer.headers.get("Date", ""))
        except urllib.error.HTTPError as error:
            if error.code == _UNAUTHORIZED:
                return _by_kerberos(url), str(error.headers.get("Date", ""))
            kind = PageMissingError if error.code == _NOT_FOUND else ProviderError
            raise kind(
                "yarn", f"the server answered HTTP {error.code}", where=_place(url)
            ) from None
        except OSError as error:
            raise ProviderError(
                "yarn",
                f"the server does not answer ({error})",
                where=_place(url),
                retry_after_s=1.0,
            ) from None

    def proves(self, address: str) -> bool:
        """Return whether the web server at *address* requires a Kerberos ticket."""
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
    """Return the scheme of YARN's web servers, ``http`` or ``https``; *conf* is Java's."""
    return "https" if conf_property(conf, "yarn.http.policy") == "HTTPS_ONLY" else "http"


def bases(conf: Any) -> tuple[str, ...]:
    """Return the base URLs of every ResourceManager's web server; *conf* is Java's."""
    way = scheme(conf)
    key = "yarn.resourcemanager.webapp." + ("https." if way == "https" else "") + "address"
    if not conf.getBoolean("yarn.resourcemanager.ha.enabled", False):  # noqa: FBT003 (Java)
        return (f"{way}://{conf_property(conf, key)}",)
    # YARN's defaults, with which it completes a host name that has no address of its own.
    port = "8090" if way == "https" else "8088"
    ids = [str(each) for each in conf.getStrings("yarn.resourcemanager.ha.rm-ids") or ()]
    hosts = [
        conf_property(conf, f"{key}.{rm}")
        or f"{conf_property(conf, f'yarn.resourcemanager.hostname.{rm}')}:{port}"
        for rm in ids
    ]
    return tuple(f"{way}://{host}" for host in hosts)


def placement(web: Web, *, federated: bool) -> Placement:
    """Return how to request containers, from the RM's live placement handler."""
    # Not by trial, which would cost an attempt and make its AMRMClient unusable.
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
    """Return the placement by the RM's present handler, or *before* if that is unknown."""
    # Plain requests continue to work after a change to another handler.
    if before.mode != "scheduling" or web.property(_HANDLER) is None:
        return before
    return placement(web, federated=False)


def addresses(urls: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of the hosts in *urls*, each once, without unknown hosts."""
    found: dict[str, None] = {}
    for url in urls:
        host = urlsplit(url).hostname
        with contextlib.suppress(OSError):
            infos = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP) if host else []
            found |= dict.fromkeys(str(info[4][0]) for info in infos)
    return tuple(found)


def loopback(address: str) -> bool:
    """Return whether an IP *address* is a loopback one. Pure."""
    found = ipaddress.ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)  # Python calls ::ffff:127.0.0.1 no loopback
    return (mapped or found).is_loopback


def conf_property(conf: Any, name: str) -> str:
    """Return a property of Hadoop's configuration, or ''; *conf* is Java's."""
    value = conf.get(name)
    return "" if value is None else str(value)


def _by_kerberos(url: str) -> bytes:
    """Repeat the request with Hadoop's client, which negotiates with this process's ticket."""
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
        fault = describe(error)
        if fault.is_a("java.io.FileNotFoundException"):  # Java's exception for 404 and 410
            raise PageMissingError(
                "yarn", "the server answered HTTP 404", where=_place(url)
            ) from None
        found = f"the server refuses the Kerberos ticket: {fault}"
        raise ProviderError("yarn", found, where=_place(url)) from None


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def log_contents(printed: bytes, most: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of each file in *printed*; *most* bytes of each were requested."""
    # By the length in the header, since a log may itself contain the marks of an end. It is the
    # length of the whole file, also if only its last bytes were requested.
    at = 0
    while (head := _HEAD.search(printed, at)) is not None:
        length = int(head["length"])
        at = head.end() + (length if most is None else min(length, most))
        yield head["name"].decode(errors="replace").strip(), printed[head.end() : at]


@attrs.frozen
class NodeLogs:
    """Reads logs from NodeManagers' web servers. Any thread; blocks for five seconds at most."""

    get: Callable[[str], bytes]
    """Returns the page at a URL, as `Web.get`."""
    scheme: str = "http"

    def tail(self, grant: AllocatedContainer, lines: int) -> LogTail:
        """Return the last *lines* of a container's standard error.

        Raises:
            NotFoundError: Its node has no such log (any more).
            ProviderError: The node does not answer, or refuses.
        """
        found = self._end(grant, _FILE, lines)
        if len(found.lines) < lines and not found.truncated:
            try:
                # Just after a rotation, the log itself has only a few lines.
                before = self._end(grant, f"{_FILE}.1", lines - len(found.lines))
            except NotFoundError:
                return found  # no log was rotated, or YARN has aggregated it already
            return LogTail((*before.lines, *found.lines), truncated=before.truncated)
        return found

    def _end(self, grant: AllocatedContainer, file: str, lines: int) -> LogTail:
        """Return the last *lines* of one file, or as many as a mebibyte contains."""
        most = max(_LEAST, min(_MOST, lines * _BYTES_A_LINE))
        found = self._ask(grant, file, most)
        if found.truncated and len(found.lines) < lines and most < _MOST:
            found = self._ask(grant, file, _MOST)
        return LogTail(
            found.lines[max(0, len(found.lines) - lines) :],
            truncated=found.truncated or len(found.lines) > lines,
        )

    def _ask(self, grant: AllocatedContainer, file: str, most: int) -> LogTail:
        path = f"ws/v1/node/containers/{grant.container_id}/logs/{file}"
        try:
            printed = self.get(f"{self.scheme}://{grant.node_http}/{path}?size=-{most}")
        except PageMissingError as error:
            raise _absent(grant) from error
        except ProviderError as error:
            raise ProviderError(
                "yarn",
                f"the node does not show the log: {error.found}",
                code="TARN-3811",
                where=f"{grant.container_id} on {grant.node}",
                retry_after_s=error.retry_after_s,
                next_step="`tarn logs INSTANCE` asks with your own ticket, and reads the logs that "
                "YARN has aggregated",
            ) from error
        texts = [(text, len(text) >= most) for name, text in log_contents(printed, most) if text]
        if not texts:
            return LogTail(())
        text, cut = texts[0]
        lines = text.decode(errors="replace").split("\n")
        if not lines[-1]:
            lines.pop()
        # A text that was cut begins in the middle of a line.
        return LogTail(tuple(lines[1:] if cut and len(lines) > 1 else lines), truncated=cut)


def _absent(grant: AllocatedContainer) -> NotFoundError:
    return NotFoundError(
        f"{grant.node} has no log of the container {grant.container_id}",
        next_step="`tarn logs INSTANCE` reads the logs that YARN has aggregated",
    )
