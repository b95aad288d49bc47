"""Authorization: by standing first, then by the authorizer; every failure denies."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs

from tarn.control.editions import Editions
from tarn.control.mailbox import Inbox
from tarn.domain import ANONYMOUS, Principal, ProxyRule, Readiness, Verdict
from tarn.domain.access import (
    ADMIN,
    LIST,
    LOAD_BALANCER,
    METADATA,
    VIEW,
    AccessRules,
    by_standing,
)
from tarn.domain.model_totals import OTHER
from tarn.http.authenticator import Proofs
from tarn.http.blocking_pool import AccessGate, LogReader
from tarn.http.grpc_service import GrpcListener
from tarn.http.request import Hosts
from tarn.http.visibility import NOTHING, VisibilityFilter, models_in
from tarn.interfaces import Clock
from tarn.read.retained_history import RetainedHistory
from tarn.read.snapshot import Board, Snapshot
from tarn.triton.restricted import NO_KEYS, Keys

__all__ = ["EVERY", "CachedVisibility", "Groups", "Rights", "Sources"]

# Returns the groups of a user, by short name; empty for an unknown user.
Groups = Callable[[str], Awaitable[frozenset[str]]]


async def _no_groups(_user: str) -> frozenset[str]:
    return frozenset()


@attrs.frozen(eq=False)
class Sources:
    """The parts of the master that its HTTP API may use."""

    board: Board
    inbox: Inbox
    gate: AccessGate
    readiness: Callable[[], Readiness]
    """Whether the authorizer can answer; never blocks."""
    config: Callable[[], Mapping[str, object]]
    """Returns the present spec as plain values, already redacted; never blocks."""
    clock: Clock
    api_token: bytes | None = attrs.field(default=None, repr=False)
    """None if the master asks for none."""
    access: AccessRules = attrs.field(factory=AccessRules)
    """Whose standing counts before the authorizer is asked."""
    groups: Groups = _no_groups
    """Looks up the groups of users about whom a proxy asks."""
    guards_models: bool = True
    """False if the authorizer allows every model, so that no answer needs to be filtered."""
    rate_limit: int = 2000
    """Requests a second from one address, as a mean."""
    proxy: ProxyRule | None = None
    """The runtime's proxy, whose cookie names a user; None if there is none."""
    proofs: Proofs = attrs.field(factory=Proofs)
    """The other proofs: tickets, and trusted proxies."""
    dashboard: str = ""
    """URL of the dashboard, without a proxy."""
    logs: LogReader | None = None
    """Reads the ends of logs; None if none are kept."""
    hosts: Hosts = attrs.field(factory=Hosts)
    """The addresses at which this master is reached."""
    silent_s: Callable[[], float] = lambda: 0.0
    """Returns how long the control thread has missed its ticks; 0 if it runs."""
    past: Callable[[], RetainedHistory] = RetainedHistory
    """Returns the history of the past hours; never blocks."""
    keys_of: Callable[[str], Keys] = lambda _id: NO_KEYS
    """Returns the keys of an instance's restricted API."""
    grpc: GrpcListener | None = None
    """Serves gRPC from when a load balancer first asks for it; None: there is none."""
    editions: Editions | None = None
    """Makes the editions of the spec that an update brings; None: it cannot be updated here."""

    @property
    def only_sessions(self) -> bool:
        """Whether a browser can prove its user only by a session."""
        others = self.proofs.tickets is not None or bool(self.proofs.trusted)
        return self.api_token is not None and not others


# In place of a model: all of them.
EVERY = "*"

# How long a stream uses the last verdicts.
GLANCE_S = 2.0
# How long a stale verdict is reported if there is no newer one about the same user.
STALE_FOR_S = 60.0
MOST_STALE = 4096


class Rights:
    """Asks the authorizer, unless standing or a rule decides already. Lives on one event loop."""

    def __init__(self, sources: Sources) -> None:
        self._board = sources.board
        self._gate: AccessGate = sources.gate
        self._readiness: Callable[[], Readiness] = sources.readiness
        self._rules: AccessRules = sources.access
        self._guarding = sources.guards_models
        self._was_ready = False
        self._seen: object = None
        self._config = sources.config
        self._known = frozenset(models_in(sources.config()))
        self._now_s = sources.clock.now_s
        # Principals whose newest verdict was stale, and since when; the oldest first.
        self._stale: OrderedDict[tuple[str, str], float] = OrderedDict()

    @property
    def stale(self) -> bool:
        """Whether the newest verdict about any principal came from a stale cache."""
        while self._stale:
            who, at_s = next(iter(self._stale.items()))
            if self._now_s() - at_s < STALE_FOR_S:
                return True
            del self._stale[who]
        return False

    def stale_for(self, principal: Principal) -> bool:
        """Return whether the newest verdict about *principal* was stale.

        The holder of the api token, who has no name, learns it about every principal.
        """
        if principal.via == "token":
            return self.stale
        at_s = self._stale.get((principal.via, principal.user))
        return at_s is not None and self._now_s() - at_s < STALE_FOR_S

    def begins(self) -> bool:
        """Return true until the authorizer has been ready once."""
        return not self._ready() and not self._was_ready

    async def on_fleet(self, principal: Principal, action: str) -> Verdict:
        """Return whether *principal* may do *action* to the fleet."""
        standing = by_standing(principal, action, self._rules)
        return standing or (await self._ask(principal, action, ("",)))[0]

    def stands(self, principal: Principal) -> bool:
        """Return whether *principal* may change the fleet without asking the authorizer."""
        return by_standing(principal, ADMIN, self._rules) is not None

    async def on_model(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return whether *principal* may do *action* to *model*; `EVERY`: to all models."""
        # For `EVERY` the authorizer is asked about each known model and also about "*" itself:
        # a right to all that is served now is not a right to what is served tomorrow.
        known = sorted(self.models(self._board.current)) if model == EVERY else []
        verdicts = await self._ask(_named(principal), action, (model, *known))
        return next((verdict for verdict in verdicts if not verdict.allowed), verdicts[0])

    def knows(self, model: str) -> bool:
        """Return whether *model* is `EVERY`, or was ever seen here."""
        return model == EVERY or model in self.models(self._board.current)

    async def hidden(self, principal: Principal, snapshot: Snapshot) -> VisibilityFilter:
        """Return the filter for what *principal* may not see of *snapshot*."""
        names = self.models(snapshot) if self._guarding else frozenset()
        # Who may change the fleet by standing can read its model repository anyway.
        if not names or self.stands(principal):
            return NOTHING
        # One question about all models, one about the details of those that may be listed.
        listed = await self._allowed(principal, LIST, names)
        shown = await self._allowed(principal, METADATA, listed) if listed else listed
        return VisibilityFilter(names - listed, shown, snapshot.name, listed - shown)

    async def _allowed(
        self, principal: Principal, action: str, names: frozenset[str]
    ) -> frozenset[str]:
        asked = sorted(names)
        verdicts = await self._ask(_named(principal), action, asked)
        return frozenset(n for n, v in zip(asked, verdicts, strict=True) if v.allowed)

    def models(self, snapshot: Snapshot) -> frozenset[str]:
        """Return every model that was ever seen; events about a model outlive it."""
        if self._seen is not snapshot.instances:
            self._seen = snapshot.instances
            rows = (*snapshot.instances, *snapshot.ended)
            self._known |= {name for instance in rows for name, _, _ in instance.models}
            self._known |= set(models_in(self._config()))  # an update may bring others
        if not self._known.issuperset(snapshot.models.newest):  # Triton counts it, or did
            self._known |= snapshot.models.newest.keys() - {OTHER}
        return self._known

    def _ready(self) -> bool:
        ready = self._readiness().ready
        self._was_ready = self._was_ready or ready
        return ready

    async def _ask(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        if not self._ready():
            return (Verdict(allowed=False, reason="the authorizer is not ready"),) * len(models)
        verdicts = await self._gate.allow_each(principal, action, models)
        self._note(principal, stale=any(verdict.stale for verdict in verdicts))
        return verdicts

    def _note(self, principal: Principal, *, stale: bool) -> None:
        who = (principal.via, principal.user)
        self._stale.pop(who, None)
        if stale:
            self._stale[who] = self._now_s()
            if len(self._stale) > MOST_STALE:
                self._stale.popitem(last=False)


class CachedVisibility:
    """What one reader of a stream may see, looked up every two seconds and for a new model."""

    def __init__(self, rights: Rights, sources: Sources, principal: Principal) -> None:
        self._rights, self._sources, self._principal = rights, sources, principal
        self._looked_s: float | None = None
        self._models: frozenset[str] = frozenset()
        self._hidden: VisibilityFilter | None = None

    async def __call__(self) -> VisibilityFilter | None:
        """Return what is hidden now; None if the reader may not view the fleet any more."""
        now_s, current = self._sources.clock.now_s(), self._sources.board.current
        models = self._rights.models(current)
        old = self._looked_s is None or now_s - self._looked_s >= GLANCE_S
        if old or models != self._models:
            self._looked_s, self._models = now_s, models
            allowed = (await self._rights.on_fleet(self._principal, VIEW)).allowed
            seen = await self._rights.hidden(self._principal, current) if allowed else None
            self._hidden = seen
        return self._hidden


def _named(principal: Principal) -> Principal:
    # A holder of the api token has no name that an authorizer would know.
    return ANONYMOUS if principal.via in ("token", "scrape", LOAD_BALANCER.via) else principal
