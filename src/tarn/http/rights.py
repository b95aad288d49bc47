"""Who may do what: standing first, then the authorizer, through one place that fails closed."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from starlette.requests import Request

from tarn.control.snapshot import Snapshot
from tarn.domain import ANONYMOUS, Principal, Readiness, Verdict
from tarn.domain.access import ADMIN, LIST, METADATA, VIEW, AccessRules, by_standing
from tarn.domain.model_totals import OTHER
from tarn.http.authorizer_pool import AccessGate
from tarn.http.sources import Sources
from tarn.http.visibility import NOTHING, VisibilityFilter, models_in

__all__ = ["EVERY", "PRINCIPAL", "CachedVisibility", "Rights", "principal_of"]

EVERY = "*"
"""Instead of a model: all of them at once."""

GLANCE_S = 2.0
"""How long a stream goes on by what was answered last."""
STALE_FOR_S = 60.0
"""How long a stale verdict is told of, where nobody asks about the same user again."""
MOST_STALE = 4096
PRINCIPAL = "tarn.principal"
"""Key in the scope of a request that was let in."""


def principal_of(request: Request) -> Principal:
    """Return who asks; nobody, where no one was asked for a proof."""
    found = request.scope.get(PRINCIPAL)
    return found if isinstance(found, Principal) else ANONYMOUS


class Rights:
    """Asks for verdicts, and never about more than there is to know. Lives on one event loop."""

    def __init__(self, sources: Sources) -> None:
        self._board = sources.board
        self._gate: AccessGate = sources.gate
        self._readiness: Callable[[], Readiness] = sources.readiness
        self._rules: AccessRules = sources.access
        self._guarding = sources.guards_models
        self._was_ready = False
        self._seen: object = None
        self._known = frozenset(models_in(sources.config))
        self._now_s = sources.clock.now_s
        self._stale: OrderedDict[tuple[str, str], float] = OrderedDict()
        """About whom the newest verdict was stale, and when; the oldest first."""

    @property
    def stale(self) -> bool:
        """Whether the newest verdict about anybody came from a cache that was not refreshed."""
        while self._stale:
            who, at_s = next(iter(self._stale.items()))
            if self._now_s() - at_s < STALE_FOR_S:
                return True
            del self._stale[who]
        return False

    def stale_for(self, principal: Principal) -> bool:
        """Return whether the newest verdict about *principal* was stale.

        The holder of the api token is told of anybody: they are asked about as nobody.
        """
        if principal.via == "token":
            return self.stale
        at_s = self._stale.get((principal.via, principal.user))
        return at_s is not None and self._now_s() - at_s < STALE_FOR_S

    def begins(self) -> bool:
        """Say whether the authorizer has not been ready yet: there is no no of its own either."""
        return not self._ready() and not self._was_ready

    async def on_fleet(self, principal: Principal, action: str) -> Verdict:
        """Return whether *principal* may do *action* to the fleet."""
        standing = by_standing(principal, action, self._rules)
        return standing or (await self._ask(principal, action, ("",)))[0]

    def stands(self, principal: Principal) -> bool:
        """Say whether *principal* may change the fleet without any authorizer's word."""
        return by_standing(principal, ADMIN, self._rules) is not None

    async def on_model(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return whether *principal* may do *action* to *model*; `EVERY`: to each that is known.

        Of every model the authorizer is asked also whether it may be by that word: else a right to
        all that is served now would be one to what is served tomorrow.
        """
        known = sorted(self.models(self._board.current)) if model == EVERY else []
        verdicts = await self._ask(_named(principal), action, (model, *known))
        return next((verdict for verdict in verdicts if not verdict.allowed), verdicts[0])

    def knows(self, model: str) -> bool:
        """Say whether *model* is one that was ever heard of, or `EVERY`."""
        return model == EVERY or model in self.models(self._board.current)

    async def hidden(self, principal: Principal, snapshot: Snapshot) -> VisibilityFilter:
        """Return what of *snapshot* is kept from *principal*.

        One question is asked about all its models, and one about the details of those that they
        may list. Without an authorizer that can say no nothing is asked, and nothing is hidden;
        neither from who may change the fleet by standing, and so reads its repository anyway.
        """
        names = self.models(snapshot) if self._guarding else frozenset()
        if not names or self.stands(principal):
            return NOTHING
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
        """Return every model that was ever heard of: words about one outlive it."""
        if self._seen is not snapshot.instances:
            self._seen = snapshot.instances
            rows = (*snapshot.instances, *snapshot.ended)
            self._known |= {name for instance in rows for name, _, _ in instance.models}
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
    """What one reader of a stream may see: looked up again every two seconds, and for a model."""

    def __init__(self, rights: Rights, sources: Sources, principal: Principal) -> None:
        self._rights, self._sources, self._principal = rights, sources, principal
        self._looked_s: float | None = None
        self._models: frozenset[str] = frozenset()
        self._hidden: VisibilityFilter | None = None

    async def __call__(self) -> VisibilityFilter | None:
        """Return what is hidden now; None: they may not look any more."""
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
    """Return about whom a question on models is: who holds the api token has no name."""
    return ANONYMOUS if principal.via in ("token", "scrape") else principal
