"""Following a master's view: pushed, and asked for only while nothing can be pushed."""

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from tarn.client.fleet import Fleet
from tarn.client.targets import Target
from tarn.domain import Epoch
from tarn.errors import TarnError, TimedOutError, UnreachableError
from tarn.follow import Api
from tarn.interfaces import Clock

__all__ = ["Following", "Master", "Source", "View", "asked", "pushed"]

POLL_EVERY_S = 1.0
NO_PUSH_FOR_S = 300.0
"""A way that swallowed a whole stream (a proxy that collects it) is not tried again sooner."""
CLOSE_WITHIN_S = 10.0


class Source(Protocol):
    """Finds a cluster's master."""

    @property
    def name(self) -> str:
        """What errors call the cluster."""

    def open(self) -> Api:
        """Return a client of the master where it is now; the caller closes it."""


@attrs.frozen
class Master:
    """A source that is one URL."""

    name: str
    api_token: str | None = attrs.field(default=None, repr=False)

    def open(self) -> Api:
        """Return a client of that URL."""
        return Api(self.name, self.api_token)


@attrs.frozen
class View:
    """Who may get requests, as one master said at one time."""

    epoch: Epoch
    revision: int
    complete: bool
    targets: tuple[Target, ...]

    @property
    def age(self) -> tuple[Epoch, int, bool]:
        """Larger is newer."""
        return self.epoch, self.revision, self.complete


def pushed(data: Mapping[str, Any]) -> View:
    """Read the event ``instances`` of the stream."""
    targets = tuple(
        Target(m["host"], m["http_port"], m["instance_id"], m["grpc_port"]) for m in data["members"]
    )
    return View(Epoch.parse(data["epoch"]), data["revision"], data["complete"], targets)


def asked(data: Mapping[str, Any]) -> View:
    """Read the answer of ``GET /api/v1/instances``."""
    targets = []
    for row in data["instances"]:
        if row["in_view"]:
            host, _, port = str(row["http"]).rpartition(":")
            grpc_port = int(str(row["grpc"]).rpartition(":")[2])
            targets.append(Target(host, int(port), row["id"], grpc_port))
    epoch = Epoch.parse(data["epoch"])
    return View(epoch, data["revision"], data["complete"], tuple(targets))


class Following:
    """One thread that keeps a `Fleet` like the view of a master.

    The last view stands while no master answers. A view of an older master, or an older one of the
    same, is not obeyed.

    Args:
        source: Finds the master, again after each loss.
        fleet: What is kept like the view.
        clock: Monotonic seconds.
        poll_every_s: How often it is asked for while it is not pushed.
    """

    def __init__(
        self, source: Source, fleet: Fleet, clock: Clock, *, poll_every_s: float = POLL_EVERY_S
    ) -> None:
        self._source, self._fleet, self._clock = source, fleet, clock
        self._poll_every_s = poll_every_s
        self._newest: View | None = None
        self._stop = threading.Event()
        self._no_push_until_s = 0.0
        self._thread = threading.Thread(target=self._run, name="tarn-client-view", daemon=True)
        self.trouble = ""
        """Why the view may be old; empty: it is not."""

    def look(self) -> None:
        """Ask for the view once, on the caller's thread; before `start`.

        Raises:
            TarnError: There is no master, or it does not let this user.
        """
        with self._source.open() as api:
            self._obey(asked(self._get(api)))

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
                    self._obey(asked(self._get(api)))
                    self.trouble = ""
            except (TarnError, OSError, KeyError, TypeError, ValueError) as error:
                # Whatever a wrong or broken master says, the last good view stands.
                self.trouble = str(error) or type(error).__name__
            self._stop.wait(self._poll_every_s)

    def _listen(self, api: Api) -> None:
        """Obey what is pushed until the stream breaks; return when it did."""
        heard = False
        try:
            for message in api.stream("stream", None, self._stop, give_up_s=0.0):
                heard, self.trouble = True, ""
                if message.event == "instances":
                    self._obey(pushed(message.data))
        except TimedOutError:
            if not heard:
                self._no_push_until_s = self._clock.now_s() + NO_PUSH_FOR_S
        except UnreachableError:
            return  # asked for next; that says what the trouble is

    def _get(self, api: Api) -> Mapping[str, Any]:
        try:
            return api.get("/api/v1/instances")
        except UnreachableError as error:
            raise UnreachableError(
                error.found,
                where=error.where,
                next_step="A master is named with http://; a single Triton without: 'host:port'",
            ) from error

    def _obey(self, view: View) -> None:
        before = self._newest
        if before is not None and view.age <= before.age:
            return
        self._newest = view
        if view.complete:
            self._fleet.obey(view.targets)
        else:
            self._fleet.add(view.targets)
