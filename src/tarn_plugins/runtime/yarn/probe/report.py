"""One container that was tried, with what came of it: what each check is asked with."""

import attrs

from tarn.interfaces import CheckResult
from tarn_plugins.runtime.yarn.probe.driver import ProbeResult
from tarn_plugins.runtime.yarn.probe.facts import Facts
from tarn_plugins.runtime.yarn.probe.subjects import ProbeSubject

__all__ = ["ProbeReport"]


@attrs.frozen
class ProbeReport:
    """A container, and what it told."""

    subject: ProbeSubject
    outcome: ProbeResult

    @property
    def facts(self) -> Facts:
        """What it said."""
        return self.outcome.facts

    @property
    def node(self) -> str:
        """Where it was."""
        return self.outcome.node

    @property
    def nothing(self) -> CheckResult | None:
        """What every check but the first says where there are no facts; else None."""
        if self.outcome.failure is None and not self.outcome.untold:
            return None
        first = "Docker" if self.subject.image else "container"
        seen = f"no container reported it: see 'node {first} ({self.subject.where})'"
        return CheckResult(seen, known=False)
