"""What the HTTP API reads from and asks: handed over once, by the composition root."""

from collections.abc import Callable, Mapping

import attrs

from tarn.control.inbox import Inbox
from tarn.control.snapshot import Board
from tarn.domain import ProxyRule, Readiness
from tarn.domain.access import AccessRules
from tarn.http.gate import Gate
from tarn.interfaces import Clock

__all__ = ["Sources"]


@attrs.frozen(eq=False)
class Sources:
    """The master, as far as its HTTP API may see it."""

    board: Board
    inbox: Inbox
    gate: Gate
    readiness: Callable[[], Readiness]
    """Whether the authorizer can answer; never blocks."""
    config: Mapping[str, object]
    """The spec as plain values, redacted already."""
    clock: Clock
    api_token: bytes | None = attrs.field(default=None, repr=False)
    """None: nobody is asked for one."""
    access: AccessRules = attrs.field(factory=AccessRules)
    """Whose standing counts before the authorizer is asked."""
    proxy: ProxyRule | None = None
    """Whose cookie names a user; None: nobody's."""
    alive: Callable[[], bool] = lambda: True
    """Whether the control thread still turns; for ``/livez``."""
