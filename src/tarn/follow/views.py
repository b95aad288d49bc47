"""Follows a master's view: by its stream, or by polling while there is no stream."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from tarn.domain import DiscoveryView, Endpoint, Epoch, Member
from tarn.domain.affinity import read_rules
from tarn.domain.endpoint import apart
from tarn.errors import (
    NotAuthorizedError,
    ProviderError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow.api import MasterApi
from tarn.interfaces import Clock
from tarn.tls.contexts import Trust

__all__ = ["Master", "MasterSource", "ViewFollower", "asked", "pushed"]

POLL_EVERY_S = 1.0
# The interval after a refusal, which only a person can change.
REFUSED_EVERY_S = 10.0
# How long no stream is tried after one was swallowed, as by a proxy that collects answers.
NO_PUSH_FOR_S = 300.0
CLOSE_WITHIN_S = 10.0


class MasterSource(Protocol):
    """Finds a cluster's master."""

    @property
    def name(self) -> str:
        """The name of the cluster in error texts."""

    def open(self) -> MasterApi:
        """Return a client of the present master, which the caller closes. Any thread may call it.

        Raises:
            TarnError: There is no master, or it cannot be found now.
        """


@attrs.frozen
class Master:
    """A master at a fixed URL."""

    name: str
    api_token: str | None = attrs.field(default=None, repr=False)
    trust: Trust | None = None
    """The certificates for an https URL; None for the authorities of the system."""

    def open(self) -> MasterApi:
        """Return a client of the URL."""
        return MasterApi(self.name, self.api_token, trust=self.trust)


def pushed(data: Mapping[str, Any]) -> DiscoveryView:
    """Return the view in the event ``instances`` of the stream.

    Raises:
        KeyError, TypeError, ValueError: It is not valid.
    """
    members = tuple(
        Member(
            row["instance_id"],
            row["container_id"],
            Endpoint(row["host"], row["http_port"], row["grpc_port"], row["metrics_port"]),
            row["spec_hash"],
            row["weight"],
        )
        for row in data["members"]
    )
    return _view(data, members)


def asked(data: Mapping[str, Any]) -> DiscoveryView:
    """Return the view in the answer of ``GET /api/v1/instances``.

    Raises:
        KeyError, TypeError, ValueError: It is not valid.
    """
    members = tuple(
        Member(
            row["id"],
            row["container_id"] or row["id"],
            _endpoint(row),
            row["spec_hash"],
            row["weight"],
        )
        for row in data["instances"]
        if row["in_view"]
    )
    return _view(data, tuple(sorted(members)))


def _endpoint(row: Mapping[str, str]) -> Endpoint:
    host, http_port = apart(row["http"])
    ports = (int(apart(row[service])[1]) for service in ("grpc", "metrics"))
    return Endpoint(host, int(http_port), *ports)


def _view(data: Mapping[str, Any], members: tuple[Member, ...]) -> DiscoveryView:
    epoch = Epoch.parse(data["epoch"])
    return DiscoveryView(epoch, data["revision"], bool(data["complete"]), members)


def _age(view: DiscoveryView) -> tuple[Epoch, int, bool]:
    """Return a key that is larger for a newer view."""
    return view.epoch, view.revision, view.complete


class ViewFollower:
    """A thread that follows the view of a master.

    While no master answers, the last view stays. Older views, and views of older masters, are
    ignored.

    Args:
        source: Finds the master, again after each loss.
        apply_view: Called with each newer view, on the thread; must be quick.
        clock: Monotonic seconds.
        apply_rules: Called with the rules of affinity that the master has, and whether they are
            complete; as *apply_view*.
        poll_every_s: The interval of polling while there is no stream.
        thread: The name of the thread.
    """

    def __init__(  # noqa: PLR0913 (three by keyword)
        self,
        source: MasterSource,
        apply_view: Callable[[DiscoveryView], None],
        clock: Clock,
        *,
        apply_rules: Callable[..., None] | None = None,
        poll_every_s: float = POLL_EVERY_S,
        thread: str = "tarn-view",
    ) -> None:
        self._source, self._obey_view, self._clock = source, apply_view, clock
        self._obey_rules = apply_rules
        self._poll_every_s = poll_every_s
        self._stop = threading.Event()
        self._no_push_until_s = 0.0
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)
        # The last view that was passed on.
        self.newest: DiscoveryView | None = None
        # Why the view may be old; None if it is not.
        self.lost: Exception | None = None

    @property
    def trouble(self) -> str:
        """Why the view may be old, as text; empty if it is not."""
        lost = self.lost
        return "" if lost is None else str(lost) or type(lost).__name__

    def look(self) -> None:
        """Ask for the view once, on the caller's thread; to be called before `start`.

        Raises:
            TarnError: There is no master, or it denies access.
        """
        with self._source.open() as api:
            self._apply_view(asked(api.instances()))
            self._ask_rules(api)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WITHIN_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._source.open() as api:
                    if self._clock.now_s() >= self._no_push_until_s:
                        self._listen(api)
                    self._apply_view(asked(api.instances()))
                    self._ask_rules(api)
                    self.lost = None
            except (TarnError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
                # A broken master never replaces the last good view.
                self.lost = error
            refused = isinstance(self.lost, NotAuthorizedError)
            self._stop.wait(REFUSED_EVERY_S if refused else self._poll_every_s)

    def _listen(self, api: MasterApi) -> None:
        """Apply views from the stream until it breaks."""
        heard = False
        try:
            for message in api.stream("stream", None, self._stop, give_up_s=0.0):
                heard, self.lost = True, None
                if message.event == "instances":
                    self._apply_view(pushed(message.data))
                if message.event == "affinity":
                    self._apply_rules(message.data)
        except TimedOutError:
            if not heard:
                self._no_push_until_s = self._clock.now_s() + NO_PUSH_FOR_S
        except (UnreachableError, ProviderError):
            return  # the request that follows either works without a stream or raises the error

    def _ask_rules(self, api: MasterApi) -> None:
        if self._obey_rules is not None and (rules := api.affinity()) is not None:
            self._apply_rules(rules)

    def _apply_rules(self, data: Mapping[str, Any]) -> None:
        if self._obey_rules is None:
            return
        try:
            rules = read_rules(data)
        except ValueError as error:
            found = f"its rules of affinity cannot be read: {error}"
            step = "Use a TARN here that is as new as the master's"
            raise ProviderError("master", found, next_step=step) from error
        self._obey_rules(rules, complete=data.get("complete") is True)

    def _apply_view(self, view: DiscoveryView) -> None:
        if self.newest is None or _age(view) > _age(self.newest):
            self.newest = view
            self._obey_view(view)
