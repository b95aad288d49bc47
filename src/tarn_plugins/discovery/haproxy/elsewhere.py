"""The discovery of a master whose HAProxys are driven by agents next to them: it does nothing.

The agents follow the view, and acknowledge it over HTTP under the names in ``followers``; the
master counts those words, not this object's.
"""

from tarn.domain import Applied, DiscoveryView

__all__ = ["AgentsElsewhere"]


class AgentsElsewhere:
    """A `Discovery` that publishes nothing itself."""

    def reach(self, within_s: float) -> None:
        """Say nothing: an agent that never comes shows in ``status``."""

    def sync(self, view: DiscoveryView) -> None:
        """Do nothing: the agents have the view from the master's API."""

    def applied(self) -> Applied | None:
        """Return None, always."""
        return None

    def close(self, *, withdraw: bool) -> None:
        """Do nothing: the last view is empty, and the agents obey it."""
