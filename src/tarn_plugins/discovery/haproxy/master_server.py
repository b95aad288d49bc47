"""HAProxy's way to the master, for its questions: one server, kept where the master is now.

The agent finds the master again after each loss; where it was found is told here, and a thread
keeps the server of the backend ``tarn_master`` there: also after HAProxy was restarted or reloaded,
which sets it back to what the file says. Without a master the server stays where it was.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import attrs

from tarn.domain.address import host_port
from tarn.errors import ConfigError, DiscoveryError
from tarn.follow import MasterApi, MasterSource
from tarn.interfaces import Clock
from tarn_plugins.discovery.haproxy.authz import API_BACKEND, MASTER_BACKEND
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.runtime_commands import ExpectedReply, RuntimeCommand, complaint
from tarn_plugins.discovery.haproxy.stats_parser import BackendServer, servers_in

__all__ = ["MasterServer", "NotingSource", "move_commands"]

_LOOK_EVERY_S = 0.5
_NAMES_WITHIN_S = 1.0
_CLOSE_WITHIN_S = 3.0


def move_commands(
    backend: str, shown: BackendServer, address: str, port: int
) -> tuple[RuntimeCommand, ...]:
    """Return what brings the server *shown* to *address* and *port*, and lets it be asked."""
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
        api: Of that HAProxy, for nobody else's use.
        clock: For the age of look-ups of host names.
        say: Gets a line for people at each change.
        names: How host names become addresses.
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
        """Make sure that HAProxy has the server.

        Raises:
            DiscoveryError: It does not answer.
            ConfigError: Its file has no such server.
        """
        self._shown()

    def start(self) -> None:
        """Begin to keep it."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; the server stays as it is. Idempotent."""
        self._closed.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_WITHIN_S)

    def note(self, url: str) -> None:
        """Take *url* for where the master is now."""
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        if parts.hostname and (parts.hostname, port) != (self._host, self._port):
            self._host, self._port, self._tls = parts.hostname, port, parts.scheme == "https"
            self._news.set()

    def keep(self) -> None:
        """Bring the server to where the master is, if that is known.

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
            raise self._mismatch()
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

    def _mismatch(self) -> DiscoveryError:
        speaks = "HTTPS, but HAProxy asks in clear text" if self._tls else "clear text, not HTTPS"
        right = "with --master-ca FILE" if self._tls else "without --master-ca"
        return self._api.error(
            f"the master speaks {speaks}",
            next_step=f"Render haproxy.cfg {right}: `tarn lb haproxy config --authz`.",
            code="TARN-3337",
        )

    def _shown(self) -> Mapping[str, BackendServer]:
        """Return the server ``master`` of each backend that has one; the first must."""
        backends = (MASTER_BACKEND, API_BACKEND)
        answers = self._api.ask([f"show servers state {one}" for one in backends])
        found = {}
        for backend, answer in zip(backends, answers, strict=True):
            with contextlib.suppress(ValueError):
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
            except Exception as error:  # noqa: BLE001 (nobody else leads HAProxy to a master that moved)
                self._tell(f"HAProxy cannot ask the master: {type(error).__name__}: {error}")
            self._news.wait(_LOOK_EVERY_S)

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._say(line)


@attrs.frozen
class NotingSource:
    """A source that tells where it found the master."""

    source: MasterSource
    note: Callable[[str], None]

    @property
    def name(self) -> str:
        """What errors call the cluster."""
        return self.source.name

    def open(self) -> MasterApi:
        """Return a client of the master where it is now, and tell where that is."""
        api = self.source.open()
        self.note(api.url)
        return api
