"""Which nodes fail again and again. Pure; seconds are monotonic and passed in."""

import attrs

from tarn_plugins.runtime.yarn.master.slots import Note
from tarn_plugins.runtime.yarn.messages import Exchange

__all__ = ["BadNodes"]

FORGIVE_AFTER_S = 600.0
"""An avoided node is tried again after this long: somebody may have fixed it."""


@attrs.define(eq=False)
class BadNodes:
    """Counts failures in a row for each node, and says which to avoid.

    At most half of the nodes are avoided at a time, those that failed first, so that one is always
    left: when every node fails, the nodes are not to blame.
    """

    limit: int
    """Failures in a row after which a node is avoided."""
    _failures: dict[str, int] = attrs.field(factory=dict)
    _avoided: dict[str, float] = attrs.field(factory=dict)
    """Host name to the second since which it is avoided, oldest first."""
    _noted: set[str] = attrs.field(factory=set)

    def failed(self, node: str, now_s: float) -> None:
        """Count a failure that may be the node's."""
        self._failures[node] = self._failures.get(node, 0) + 1
        if self._failures[node] >= self.limit:
            self._avoided.setdefault(node, now_s)

    def succeeded(self, node: str) -> None:
        """Forget a node's failures: an instance works there."""
        self._failures.pop(node, None)
        self._avoided.pop(node, None)

    def forgive(self, now_s: float, *, starving: bool) -> None:
        """Let nodes back in whose time is over; with *starving*, the one avoided longest.

        The next failure there counts at once.
        """
        over = [n for n, since_s in self._avoided.items() if now_s - since_s >= FORGIVE_AFTER_S]
        if starving and not over:
            over = list(self._avoided)[:1]
        for node in over:
            del self._avoided[node]
            self._failures[node] = self.limit - 1

    def remember(self, nodes: frozenset[str], now_s: float) -> None:
        """Go on avoiding what an earlier master avoided, as if it had begun now."""
        for node in sorted(nodes):
            self._failures[node] = self.limit
            self._avoided[node] = now_s
            self._noted.add(node)

    def notes(self, said: Exchange) -> tuple[Note, ...]:
        """Return what is to be noted after *said* was heard: YARN keeps its list over masters."""
        bad = [node for node in said.avoid if node in self._avoided and node not in self._noted]
        good = [node for node in said.welcome if node in self._noted]
        self._noted = (self._noted | set(bad)) - set(good)
        return (*(Note(n, avoided=True) for n in bad), *(Note(n, avoided=False) for n in good))

    def avoided(self, nodes: int) -> frozenset[str]:
        """Return the host names to avoid now, of *nodes* NodeManagers in all."""
        return frozenset(list(self._avoided)[: nodes // 2])
