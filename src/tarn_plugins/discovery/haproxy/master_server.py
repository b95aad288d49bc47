"""Keep HAProxy's server ``master`` at the address of the present master.

HAProxy sends its authorization requests to this server. The agent reports each place where it found
the master, and a thread moves the server there. The thread also repeats that after a restart or
reload of HAProxy, which resets the server to what the file says. While there is no master, the
server stays where it was.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import attrs

from tarn.domain.endpoint import host_port
from tarn.errors import ConfigError, DiscoveryError
from tarn.follow import MasterApi, MasterSource
from tarn.interfaces import Clock
from tarn_plugins.discovery.haproxy.authz import API_BACKEND, MASTER_BACKEND
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.runtime_messages import (
    BackendServer,
    ExpectedReply,
    RuntimeCommand,
    complaint,
    servers_in,
)

__all__ = ["MasterServer", "NotingSource", "move_commands"]

_LOOK_EVERY_S = 0.5  # how long a HAProxy that was reloaded may ask at the wrong address
_NAMES_WITHIN_S = 1.0
_CLOSE_WITHIN_S = 3.0  # as long as a look-up and a conversation with HAProxy take at most


def move_commands(
    backend: str, shown: BackendServer, address: str, port: int
) -> tuple[RuntimeCommand, ...]:
    """Return the commands that move the server *shown* to the address and open it."""
    found, server = [], f"{backend}/{shown.name}"
    if (shown.address, shown.port) != (address, port):
        text = f"set server {server} addr {address} port {port}"
        found.append(RuntimeCommand("master", text, ExpectedReply.MOVED))
    if shown.in_maintenance or shown.drains:
        found.append(RuntimeCommand("master", f"set server {server} state ready"))
    return tuple(found)


class MasterServer:
    """Keeps one HAProxy's server ``master`` at the present master. Any thread may call it.

    Args:
        api: The Runtime API of that HAProxy, which nothing else may use.
        clock: Measures the age of look-ups of host names.
        say: Called with a line for people at each change.
        names: Looks up host names.
    """

    def __init__(
        self,
        api: RuntimeApi,
        clock: Clock,
        say: Callable[[str], None],
        names: HostResolver | None = None,
    ) -> None:
        self._api, self._say = api, say
        self._names = names or HostResolver(clock)
        self._host, self._port, self._tls = "", 0, False
        self._told = ""
        self._news = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tarn-haproxy-way", daemon=True)

    def check(self) -> None:
        """Check that HAProxy has the server.

        Raises:
            DiscoveryError: HAProxy does not answer.
            ConfigError: Its file has no such server.
        """
        self._shown()

    def start(self) -> None:
        """Start the thread that keeps the server at the master."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; the server stays as it is. Idempotent."""
        self._closed.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_WITHIN_S)

    def note(self, url: str) -> None:
        """Report that the master is at *url* now."""
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        if parts.hostname and (parts.hostname, port) != (self._host, self._port):
            self._host, self._port, self._tls = parts.hostname, port, parts.scheme == "https"
            self._news.set()

    def keep(self) -> None:
        """Move the server to the master, if the master's place is known.

        Raises:
            DiscoveryError: HAProxy does not answer, or refused a command; the host has no address.
            ConfigError: HAProxy's file has no such server.
        """
        host, port = self._host, self._port
        if not host:
            return
        found = self._names.find([host], _NAMES_WITHIN_S)
        if host in found.missing:
            raise self._api.error(f"the master's host '{host}' has no address", code="TARN-3337")
        servers = self._shown()
        if any(one.tls != self._tls for one in servers.values()):
            speaks = (
                "HTTPS, but HAProxy asks in clear text" if self._tls else "clear text, not HTTPS"
            )
            right = "with --master-ca FILE" if self._tls else "without --master-ca"
            raise self._api.error(
                f"the master speaks {speaks}",
                next_step=f"Render haproxy.cfg {right}: `tarn lb haproxy config --authz`.",
                code="TARN-3337",
            )
        wanted = [
            order
            for backend, shown in servers.items()
            for order in move_commands(backend, shown, found.addresses[host], port)
        ]
        for order, answer in zip(wanted, self._api.ask([o.text for o in wanted]), strict=True):
            if said := complaint(order, answer):
                raise self._api.error(f"'{order.text}' was answered with '{said}'")
        if wanted:
            self._tell(f"HAProxy asks the master at {host_port(host, port)}")

    def _shown(self) -> Mapping[str, BackendServer]:
        """Return the server ``master`` of each backend that has one."""
        backends = (MASTER_BACKEND, API_BACKEND)  # the second exists only with --master-api
        answers = self._api.ask([f"show servers state {one}" for one in backends])
        found = {}
        for backend, answer in zip(backends, answers, strict=True):
            with contextlib.suppress(ValueError):  # HAProxy has no such backend
                servers = {one.name: one for one in servers_in(answer)}
                found.update({backend: servers["master"]} if "master" in servers else {})
        if MASTER_BACKEND not in found:
            raise ConfigError(
                f"HAProxy has no server '{MASTER_BACKEND}/master'",
                code="TARN-3337",
                where="haproxy.cfg",
                next_step="Render the file with `tarn lb haproxy config --authz`, or leave --authz "
                "out.",
            )
        return found

    def _run(self) -> None:
        while not self._closed.is_set():
            self._news.clear()
            try:
                self.keep()
            except (DiscoveryError, ConfigError) as error:
                self._tell(f"HAProxy cannot ask the master: {error}")
            except Exception as error:  # noqa: BLE001 (without this thread HAProxy loses the master)
                self._tell(f"HAProxy cannot ask the master: {type(error).__name__}: {error}")
            self._news.wait(_LOOK_EVERY_S)

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._say(line)


@attrs.frozen
class NotingSource:
    """A source of masters that reports each place where it found one."""

    source: MasterSource
    note: Callable[[str], None]

    @property
    def name(self) -> str:
        """The cluster's name, for errors."""
        return self.source.name

    def open(self) -> MasterApi:
        """Return a client of the present master, and report its place."""
        api = self.source.open()
        self.note(api.url)
        return api
