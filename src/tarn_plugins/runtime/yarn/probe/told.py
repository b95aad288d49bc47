"""One container that was tried, with what came of it: what each check is asked with."""

import attrs

from tarn.interfaces import Looked
from tarn_plugins.runtime.yarn.probe.driver import Outcome
from tarn_plugins.runtime.yarn.probe.facts import Facts
from tarn_plugins.runtime.yarn.probe.subjects import Subject

__all__ = ["Told"]


@attrs.frozen
class Told:
    """A container, and what it told."""

    subject: Subject
    outcome: Outcome

    @property
    def facts(self) -> Facts:
        """What it said."""
        return self.outcome.facts

    @property
    def node(self) -> str:
        """Where it was."""
        return self.outcome.node

    @property
    def nothing(self) -> Looked | None:
        """What every check but the first says where there are no facts; else None."""
        if self.outcome.failure is None and not self.outcome.untold:
            return None
        first = "Docker" if self.subject.image else "container"
        seen = f"no container reported it: see 'node {first} ({self.subject.where})'"
        return Looked(seen, known=False)
