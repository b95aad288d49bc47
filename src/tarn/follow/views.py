"""Following a master's view: pushed, and asked for only while nothing can be pushed."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from tarn.domain import DiscoveryView, Endpoint, Epoch, Member
from tarn.domain.address import apart
from tarn.errors import (
    NotAuthorizedError,
    ProviderError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow.api import MasterApi
from tarn.follow.trust import Trust
from tarn.interfaces import Clock

__all__ = ["Master", "MasterSource", "ViewFollower", "asked", "pushed"]

POLL_EVERY_S = 1.0
REFUSED_EVERY_S = 10.0
"""Who was refused asks again no sooner: only a person can change that."""
NO_PUSH_FOR_S = 300.0
"""A way that swallowed a whole stream (a proxy that collects it) is not tried again sooner."""
CLOSE_WITHIN_S = 10.0


class MasterSource(Protocol):
    """Finds a cluster's master."""

    @property
    def name(self) -> str:
        """What errors call the cluster."""

    def open(self) -> MasterApi:
        """Return a client of the master where it is now; the caller closes it. Any thread.

        Raises:
            TarnError: There is no master, or it cannot be found now.
        """


@attrs.frozen
class Master:
    """A source that is one URL."""

    name: str
    api_token: str | None = attrs.field(default=None, repr=False)
    trust: Trust | None = None
    """By what it is known at an https URL; None: by the authorities of the system."""

    def open(self) -> MasterApi:
        """Return a client of that URL."""
        return MasterApi(self.name, self.api_token, trust=self.trust)


def pushed(data: Mapping[str, Any]) -> DiscoveryView:
    """Read the event ``instances`` of the stream.

    Raises:
        KeyError, TypeError, ValueError: No master says such a thing.
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
    """Read the answer of ``GET /api/v1/instances``: the same view, among more.

    Raises:
        KeyError, TypeError, ValueError: No master says such a thing.
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
    """Return what is larger for a newer view."""
    return view.epoch, view.revision, view.complete


class ViewFollower:
    """One thread that hears the view of a master, wherever that master is.

    The last view stands while no master answers. A view of an older master, or an older one of the
    same, is not obeyed.

    Args:
        source: Finds the master, again after each loss.
        apply_view: Called with each newer view, on the thread that follows; quick.
        clock: Monotonic seconds.
        poll_every_s: How often it is asked for while it is not pushed.
        thread: The thread's name.
    """

    def __init__(
        self,
        source: MasterSource,
        apply_view: Callable[[DiscoveryView], None],
        clock: Clock,
        *,
        poll_every_s: float = POLL_EVERY_S,
        thread: str = "tarn-view",
    ) -> None:
        self._source, self._obey_view, self._clock = source, apply_view, clock
        self._poll_every_s = poll_every_s
        self._stop = threading.Event()
        self._no_push_until_s = 0.0
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)
        self.newest: DiscoveryView | None = None
        """The last view that was obeyed."""
        self.lost: Exception | None = None
        """Why the view may be old; None: it is not."""

    @property
    def trouble(self) -> str:
        """Why the view may be old, in words; empty: it is not."""
        lost = self.lost
        return "" if lost is None else str(lost) or type(lost).__name__

    def look(self) -> None:
        """Ask for the view once, on the caller's thread; before `start`.

        Raises:
            TarnError: There is no master, or it does not let this user.
        """
        with self._source.open() as api:
            self._apply_view(asked(api.instances()))

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
                    self.lost = None
            except (TarnError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
                # A wrong or broken master never replaces the last good view.
                self.lost = error
            refused = isinstance(self.lost, NotAuthorizedError)
            self._stop.wait(REFUSED_EVERY_S if refused else self._poll_every_s)

    def _listen(self, api: MasterApi) -> None:
        """Obey what is pushed until the stream breaks; return when it did."""
        heard = False
        try:
            for message in api.stream("stream", None, self._stop, give_up_s=0.0):
                heard, self.lost = True, None
                if message.event == "instances":
                    self._apply_view(pushed(message.data))
        except TimedOutError:
            if not heard:
                self._no_push_until_s = self._clock.now_s() + NO_PUSH_FOR_S
        except (UnreachableError, ProviderError):
            return  # asked for next: it says what the trouble is, or answers without a stream

    def _apply_view(self, view: DiscoveryView) -> None:
        if self.newest is None or _age(view) > _age(self.newest):
            self.newest = view
            self._obey_view(view)
