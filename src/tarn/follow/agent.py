"""The agent: keeps a discovery like the view of a master elsewhere, and acknowledges.

It runs next to what it keeps (a load balancer), not next to the master. Without a master everything
stays as it is; the next master's views are obeyed as soon as there is one.
"""

import threading
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import attrs

from tarn.domain import Applied, DiscoveryView, Epoch
from tarn.errors import (
    ConfigError,
    NotAuthorizedError,
    ProviderError,
    TarnError,
    UnreachableError,
)
from tarn.follow.agent_reporter import AgentReporter
from tarn.follow.api import MasterApi
from tarn.follow.view_applier import ViewApplier
from tarn.follow.views import POLL_EVERY_S, REFUSED_EVERY_S, MasterSource, ViewFollower
from tarn.interfaces import Clock, Discovery

__all__ = ["Agent", "CapacityLimited", "UnservedRequests"]

LEASE_S = 15.0
RENEW_EVERY_S = 4.0
"""A word holds for the lease; it is given again often enough to lose two on the way."""
DEMAND_EVERY_S = 1.0
LOOK_EVERY_S = 0.25
"""How soon `run` hears that it shall end."""
REACH_WITHIN_S = 3.0


@attrs.frozen
class UnservedRequests:
    """What a load balancer has no server for."""

    held: int = 0
    """Requests that it holds now."""
    refused: int = 0
    """Requests that it refused since the last look; who tries again is counted each time."""


@runtime_checkable
class CapacityLimited(Protocol):
    """A discovery that may be too small for a cluster."""

    def capacity(self) -> int | None:
        """Return how many members it can hold; None: as many as there are."""
        ...


def _unheard(_line: str) -> None:
    """Nobody listens."""


class Agent:
    """Follows one cluster's master for one discovery.

    ``run`` blocks, and gives the discovery's word; two threads follow and apply meanwhile, and end
    with it. The word that is given is what `Discovery.applied` says, never what was only heard of.

    Args:
        find: Finds the master, again after each loss.
        discovery: What is kept like the view; it stays the caller's to close.
        name: Of this agent, as `discovery[].options.followers` lists it.
        clock: Monotonic and wall seconds.
        news: Set it to have the discovery's word given now; a discovery's ``wake`` may be its
            ``set``.
        demand: Returns how many requests are held, and how many were refused, because there is no
            server; asked only while there is none.
        say: Gets a line for people at each change.
    """

    def __init__(  # noqa: PLR0913 (what it follows for, and by keyword what may be besides)
        self,
        find: MasterSource,
        discovery: Discovery,
        name: str,
        clock: Clock,
        *,
        news: threading.Event | None = None,
        demand: Callable[[], UnservedRequests] | None = None,
        say: Callable[[str], None] = _unheard,
    ) -> None:
        self._find, self._discovery, self._name, self._clock = find, discovery, name, clock
        self._news = news or threading.Event()
        self._demand = demand
        self._applying = ViewApplier(discovery, clock, self._news.set)
        self._following = ViewFollower(find, self._applying.post, clock, thread="tarn-follow")
        self._line = _MasterConnection(find)
        self._telling = AgentReporter(say, find.name)
        self._told: Applied | None = None
        self._renew_s = self._again_s = self._demand_s = float("-inf")

    def check(self) -> None:
        """Make sure, before `run`, that discovery and master answer, and that they fit.

        Raises:
            DiscoveryError: The discovery cannot be reached.
            ConfigError: It has fewer places than the cluster may have replicas.
            TarnError: There is no master, or it does not let this user.
        """
        self._discovery.reach(REACH_WITHIN_S)
        with self._find.open() as api:
            status = api.status()
        most = status["limits"]["max"]
        capacity = (
            self._discovery.capacity() if isinstance(self._discovery, CapacityLimited) else None
        )
        if capacity is not None and capacity < most:
            raise ConfigError(
                f"there are places for {capacity} servers, but replicas.max is {most}",
                where=f"cluster '{self._find.name}'",
                right=f"Provide at least {most} places"
                + (f", or replicas.max of {capacity}." if capacity else "."),
            )
        self._telling.met(self._name, status)
        self._following.look()  # a way that swallows streams tells that after a while only

    def run(self, stop: threading.Event) -> None:
        """Follow until *stop* is set, and a quarter of a second more.

        Everything published stays as it is afterwards, and traffic goes on to it: so no goodbye is
        said to the master. Its drains wait for this follower until its lease has run out, within
        which an agent that is only restarted is back.
        """
        self._applying.start()
        self._following.start()
        try:
            while not stop.is_set():
                self._news.clear()  # before the look, so that nothing is missed
                self._round()
                self._news.wait(LOOK_EVERY_S)
        finally:
            self._following.close()
            self._applying.close()
            self._line.close()

    def _round(self) -> None:
        self._telling.way(self._following.lost)
        self._telling.failure(self._applying.failure)
        view = self._following.newest
        if self._following.lost is not None or view is None:
            return  # whoever follows looks for the master, and need not be helped
        if self._clock.now_s() < self._again_s:
            return
        try:
            self._give_word(view.epoch)
            self._report_demand(view)
        except (TarnError, OSError) as error:
            self._line.close()
            refused = isinstance(error, NotAuthorizedError)
            self._again_s = self._clock.now_s() + (REFUSED_EVERY_S if refused else POLL_EVERY_S)
            self._telling.unheard(error)

    def _give_word(self, epoch: Epoch) -> None:
        done = self._applying.done  # before the word, which is of this view or a later one
        word, now_s = self._word(), self._clock.now_s()
        if word is None:
            return
        content = attrs.evolve(word, at=0.0)  # that a discovery looked again is no news
        if content == self._told and now_s < self._renew_s:
            return
        self._line.ask(epoch, lambda api: api.acknowledge(word, LEASE_S))
        self._told, self._renew_s = content, now_s + RENEW_EVERY_S
        self._telling.heard(done, word)

    def _word(self) -> Applied | None:
        """Return what the discovery says it did, and why the newest view is not done."""
        applied, failure = self._discovery.applied(), self._applying.failure
        if applied is None:  # revision 0 is not a view's
            if failure is None:
                return None
            return Applied(self._name, failure.view.epoch, 0, failure.at, failure.why)
        error = applied.error
        if failure is not None and _moment(applied) < _moment(failure.view):
            error = failure.why  # else the discovery has done it since by itself
        return attrs.evolve(applied, name=self._name, error=error)

    def _report_demand(self, view: DiscoveryView) -> None:
        now_s = self._clock.now_s()
        asleep = view.complete and not view.members
        if self._demand is None or not asleep or now_s < self._demand_s:
            return
        self._demand_s = now_s + DEMAND_EVERY_S
        try:
            found = self._demand()
        except ProviderError:
            return  # unknown is not zero, and nothing to report either
        if found.held or found.refused:
            self._line.ask(
                view.epoch, lambda api: api.demand(self._name, found.held, found.refused)
            )


def _moment(said: Applied | DiscoveryView) -> tuple[Epoch, int]:
    return said.epoch, said.revision


class _MasterConnection:
    """A connection to the master for words; opened when one is given, again after each loss."""

    def __init__(self, find: MasterSource) -> None:
        self._find = find
        self._api: MasterApi | None = None
        self._epoch: Epoch | None = None

    def ask(self, epoch: Epoch, question: Callable[[MasterApi], object]) -> None:
        """Put *question* to the master of *epoch*, wherever it is now."""
        if self._api is not None and epoch == self._epoch:
            try:
                question(self._api)
            except UnreachableError:
                pass  # it may have moved
            else:
                return
        self.close()
        self._api, self._epoch = self._find.open(), epoch
        question(self._api)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._api is not None:
            self._api.close()
        self._api = None
