"""What the HTTP API reads from and asks: handed over once, by the composition root."""

from collections.abc import Awaitable, Callable, Mapping

import attrs

from tarn.control.inbox import Inbox
from tarn.control.retained_history import RetainedHistory
from tarn.control.snapshot import Board
from tarn.domain import ProxyRule, Readiness
from tarn.domain.access import AccessRules
from tarn.http.authorizer_pool import AccessGate
from tarn.http.hosts import Hosts
from tarn.http.identity.proofs import Proofs
from tarn.http.log_reader import LogReader
from tarn.interfaces import Clock

__all__ = ["Groups", "Sources"]

Groups = Callable[[str], Awaitable[frozenset[str]]]
"""Short name of a user -> their groups; empty for somebody unknown."""


async def _no_groups(_user: str) -> frozenset[str]:
    return frozenset()


@attrs.frozen(eq=False)
class Sources:
    """The master, as far as its HTTP API may see it."""

    board: Board
    inbox: Inbox
    gate: AccessGate
    readiness: Callable[[], Readiness]
    """Whether the authorizer can answer; never blocks."""
    config: Mapping[str, object]
    """The spec as plain values, redacted already."""
    clock: Clock
    api_token: bytes | None = attrs.field(default=None, repr=False)
    """None: nobody is asked for one."""
    access: AccessRules = attrs.field(factory=AccessRules)
    """Whose standing counts before the authorizer is asked."""
    groups: Groups = _no_groups
    """Of users about whom somebody else asks."""
    guards_models: bool = True
    """False: the authorizer says yes to every model, so no answer needs to be looked through."""
    rate_limit: int = 2000
    """Requests a second from one address, as a mean."""
    proxy: ProxyRule | None = None
    """Whose cookie names a user; None: nobody's."""
    proofs: Proofs = attrs.field(factory=Proofs)
    """What else proves somebody: tickets, and trusted proxies."""
    dashboard: str = ""
    """The address of the page for people, without any proxy."""
    logs: LogReader | None = None
    """Reads the ends of logs; None: none are kept."""
    hosts: Hosts = attrs.field(factory=Hosts)
    """By which addresses this master is reached."""
    silent_s: Callable[[], float] = lambda: 0.0
    """For how long the control thread has missed its ticks; 0: it turns."""
    past: Callable[[], RetainedHistory] = RetainedHistory
    """What was seen over the hours; never blocks."""

    @property
    def only_sessions(self) -> bool:
        """Whether a browser proves somebody by a session, and by nothing else."""
        others = self.proofs.tickets is not None or bool(self.proofs.trusted)
        return self.api_token is not None and not others
