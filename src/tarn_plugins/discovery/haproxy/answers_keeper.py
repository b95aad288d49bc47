"""Keep HAProxy's way to the master's answers: address, gRPC port and token; and tell it the rules.

HAProxy sends Triton's management requests to the servers ``master`` of two backends. A thread of
the agent asks the master where they are, and sets them again after a restart or reload of HAProxy.
A file without these backends is left alone. While there is no master, nothing changes.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.domain import Applied, DiscoveryView
from tarn.errors import TarnError
from tarn.follow import MasterApi, MasterSource
from tarn.interfaces import Clock, Discovery
from tarn.plain.master_files import API_TOKEN
from tarn_plugins.discovery.haproxy.answers_door import (
    ANSWERS_BACKEND,
    GRPC_ANSWERS_BACKEND,
    variables,
)
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.master_server import move_commands
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.runtime_messages import (
    BackendServer,
    RuntimeCommand,
    complaint,
    servers_in,
)

__all__ = [
    "AnswersKeeper",
    "AnswersState",
    "MasterPlace",
    "OwnMaster",
    "ServersWithAnswers",
    "keep_commands",
]

_VALUE = re.compile(r"type=str value=<([^>]*)>")
_LOOK_EVERY_S = 0.5
_ASK_EVERY_S = 5.0
_FOLLOW_EVERY_S = 1.0
_NAMES_WITHIN_S = 1.0
_CLOSE_WITHIN_S = 3.0
_CLOSE_SOON_S = 0.2  # a master ends its discoveries within a second


@attrs.frozen
class MasterPlace:
    """Where the master answers for its fleet."""

    host: str
    port: int
    tls: bool
    token: str = attrs.field(repr=False)
    grpc_port: int = 0
    """0: it has no gRPC."""
    grpc_lack: str = ""

    @classmethod
    def read(cls, url: str, said: Mapping[str, Any]) -> "MasterPlace":
        """Return the place of the master at *url*, which *said* this about load balancers.

        Raises:
            ValueError: It is not valid.
        """
        parts = urlsplit(url)
        token, port = said.get("token"), said.get("grpc_port")
        if not (isinstance(token, str) and token.isascii() and token.isalnum()):
            raise ValueError("its token is not valid")
        if not isinstance(port, int) or not parts.hostname:
            raise ValueError("its ports are not valid")
        tls = parts.scheme == "https"
        http = parts.port or (443 if tls else 80)
        return cls(parts.hostname, http, tls, token, port, str(said.get("grpc_lack", "")))


@attrs.frozen
class AnswersState:
    """What HAProxy has of it."""

    servers: Mapping[str, BackendServer]
    """The server ``master`` of each backend that has one."""
    known: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """HAProxy's variables: name to value; '' if it is not set."""

    def leads_to(self, place: MasterPlace) -> bool:
        """Return whether each server that *place* has works."""
        shown = self.servers.items()
        return all(one.works for name, one in shown if _ports(place).get(name))


def _ports(place: MasterPlace) -> Mapping[str, int]:
    return {ANSWERS_BACKEND: place.port, GRPC_ANSWERS_BACKEND: place.grpc_port}


def keep_commands(
    place: MasterPlace, address: str, state: AnswersState
) -> tuple[RuntimeCommand, ...]:
    """Return the commands that lead HAProxy to *place*; none if it is led there."""
    found = [
        RuntimeCommand("master", f"set var {name} str({value})")
        for name, value in variables(place.token, grpc=place.grpc_port > 0).items()
        if state.known.get(name) != value
    ]
    ports = _ports(place)
    for backend, shown in state.servers.items():
        port = ports[backend]
        if port:
            if backend == GRPC_ANSWERS_BACKEND and shown.check_port != place.port:
                text = f"set server {backend}/master check-port {place.port}"
                found.append(RuntimeCommand("master", text))
            found += move_commands(backend, shown, address, port)
            if shown.has_check and not shown.is_checked:
                found.append(RuntimeCommand("master", f"enable health {backend}/master"))
        elif not shown.in_maintenance:
            found.append(RuntimeCommand("master", f"set server {backend}/master state maint"))
    return tuple(found)


class AnswersKeeper:
    """Keeps one HAProxy's way to the master's answers; `start` and `close` on any thread.

    Args:
        api: The Runtime API of that HAProxy, which nothing else may use.
        source: Finds the master.
        clock: Measures how old the master's answer is.
        say: Called with a line for people at each change.
        follow: Called each second with the answer of ``GET /affinity``, where no agent asks for it.
    """

    def __init__(
        self,
        api: RuntimeApi,
        source: MasterSource,
        clock: Clock,
        say: Callable[[str], None],
        follow: Callable[[Mapping[str, Any] | None], None] | None = None,
    ) -> None:
        self._api, self._source, self._clock, self._say = api, source, clock, say
        self._follow, self._followed_s = follow, float("-inf")
        self._names = HostResolver(clock)
        self._place: MasterPlace | None = None
        self._asked_s = float("-inf")
        self._told = ""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tarn-haproxy-answers", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, within_s: float = _CLOSE_WITHIN_S) -> None:
        """End the thread, within a time; HAProxy stays as it is. Idempotent."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(within_s)

    def keep(self) -> None:
        """Set what HAProxy lacks.

        Raises:
            DiscoveryError: HAProxy does not answer, or refused a command.
            TarnError: The master cannot be asked.
        """
        state = self._state()
        if not state.servers:  # an older file, or one that was rendered without them
            return
        place, now_s = self._place, self._clock.now_s()
        old = now_s - self._asked_s >= _ASK_EVERY_S
        if place is None or old or not state.leads_to(place):
            self._place, self._asked_s = self._ask(state), now_s
            place = self._place
        self._set(place, state)

    def follow_rules(self) -> None:
        """Ask for the master's rules of affinity, if it is time.

        Raises:
            TarnError: The master cannot be asked.
        """
        now_s = self._clock.now_s()
        if self._follow is None or now_s - self._followed_s < _FOLLOW_EVERY_S:
            return
        with self._source.open() as api:
            self._follow(api.affinity())
        self._followed_s = now_s

    def _ask(self, state: AnswersState) -> MasterPlace:
        grpc = GRPC_ANSWERS_BACKEND in state.servers
        with self._source.open() as api:
            try:
                return MasterPlace.read(api.url, api.load_balancer(grpc=grpc))
            except ValueError as error:
                raise self._api.error(f"the master's answer is not valid: {error}") from error

    def _set(self, place: MasterPlace, state: AnswersState) -> None:
        servers = state.servers
        if any(one.tls != place.tls for one in servers.values()):
            step = "with --master-ca FILE" if place.tls else "without --master-ca"
            raise self._api.error(
                f"the master speaks {'HTTPS' if place.tls else 'clear text'}, HAProxy does not",
                next_step=f"Render haproxy.cfg {step}: `tarn lb haproxy config`.",
                code="TARN-3337",
            )
        found = self._names.find([place.host], _NAMES_WITHIN_S)
        if place.host in found.missing:
            raise self._api.error(f"the master's host '{place.host}' has no address")
        wanted = keep_commands(place, found.addresses[place.host], state)
        # HAProxy sets variables of the process in this mode only.
        texts = ["experimental-mode on", *(one.text for one in wanted)] if wanted else []
        for order, answer in zip(wanted, self._api.ask(texts)[1:], strict=True):
            if said := complaint(order, answer):
                hidden = order.text.replace(place.token, "***")
                raise self._api.error(f"'{hidden}' was answered with '{said}'")
        lack = f"; no gRPC: {place.grpc_lack}" if GRPC_ANSWERS_BACKEND in servers else ""
        self._tell(
            f"HAProxy asks the master at {place.host}:{place.port} for the whole fleet"
            f"{'' if place.grpc_port else lack}"
        )

    def _state(self) -> AnswersState:
        backends = (ANSWERS_BACKEND, GRPC_ANSWERS_BACKEND)
        found = {}
        names = tuple(variables("", grpc=True))
        asked = [f"show servers state {one}" for one in backends]
        answers = self._api.ask([*asked, *(f"get var {name}" for name in names)])
        for backend, answer in zip(backends, answers, strict=False):
            with contextlib.suppress(ValueError):  # HAProxy has no such backend
                servers = {one.name: one for one in servers_in(answer)}
                found.update({backend: servers["master"]} if "master" in servers else {})
        values = (_VALUE.search(answer) for answer in answers[len(backends) :])
        known = {name: one[1] if one else "" for name, one in zip(names, values, strict=True)}
        return AnswersState(found, known)

    def look(self) -> None:
        """Set what HAProxy lacks, and say what stands against it."""
        try:
            self.follow_rules()
            self.keep()
        except TarnError as error:
            self._tell(f"HAProxy cannot ask the master for the whole fleet: {error}")
        except Exception as error:  # noqa: BLE001 (without this thread HAProxy loses the master)
            found = f"{type(error).__name__}: {error}"
            self._tell(f"HAProxy cannot ask the master for the whole fleet: {found}")

    def _run(self) -> None:
        while not self._closed.is_set():
            self.look()
            self._closed.wait(_LOOK_EVERY_S)

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._say(line)


@attrs.frozen
class OwnMaster:
    """The master in whose process this runs, as a source of masters."""

    url: str
    directory: Path
    """Where its api token is; none if it asks for none."""

    @property
    def name(self) -> str:
        """The address, for errors."""
        return self.url

    def open(self) -> MasterApi:
        """Return a client of it; the token is read now, since a master may replace it."""
        token = None
        with contextlib.suppress(FileNotFoundError):
            token = (self.directory / API_TOKEN).read_text("ascii").strip() or None
        return MasterApi(self.url, token)


class ServersWithAnswers:
    """A discovery of a HAProxy next to the master, which also keeps the way to its answers.

    The thread of *keeper* starts with the first view.
    """

    def __init__(self, servers: Discovery, keeper: AnswersKeeper) -> None:
        self._servers, self._keeper = servers, keeper
        self._started = False

    def reach(self, within_s: float) -> None:
        """Check HAProxy, as its discovery does."""
        self._servers.reach(within_s)

    def sync(self, view: DiscoveryView) -> None:
        """Apply *view*."""
        if not self._started:
            self._started = True
            self._keeper.start()
        self._servers.sync(view)

    def applied(self) -> Applied | None:
        """Return the acknowledgement of the newest view."""
        return self._servers.applied()

    def close(self, *, withdraw: bool) -> None:
        """End both. Idempotent."""
        self._keeper.close(_CLOSE_SOON_S)
        self._servers.close(withdraw=withdraw)
