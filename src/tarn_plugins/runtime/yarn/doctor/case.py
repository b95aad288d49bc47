"""The input of a rule of `tarn doctor`, and its result when facts are missing. Pure."""

from collections.abc import Callable, Iterable, Mapping

import attrs

from tarn.domain import ClusterSpec
from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.survey import (
    HdfsSurvey,
    NodeSettings,
    QueueFacts,
    Survey,
    YarnOverview,
)

__all__ = [
    "CONNECTION",
    "IN_NM",
    "JAVA",
    "USER",
    "VERSIONS",
    "Case",
    "NotSeen",
    "Rule",
    "elsewhere",
    "looked",
    "teller",
    "truth",
]

CONNECTION, USER, VERSIONS, JAVA = "YARN connection", "YARN user", "Hadoop versions", "Java here"
_TELLERS = {
    "TARN-3132": USER,
    **dict.fromkeys((f"TARN-376{i}" for i in range(1, 7)), USER),  # keytab, ticket, realm, KDC
    "TARN-3120": VERSIONS,
    "TARN-3121": VERSIONS,
    "TARN-3122": JAVA,
    "TARN-3123": JAVA,
}
IN_NM = "in yarn-site.xml of every node, and its NodeManager restarted"


class NotSeen(Exception):  # noqa: N818 (a state of affairs)
    """A rule's facts are not visible from here; the text says why, without a full stop."""


@attrs.frozen
class Case:
    """A spec, and the YARN that it would run on."""

    spec: ClusterSpec
    settings: YarnSettings
    """``runtime.options``."""
    python: str
    """Interpreter on the nodes."""
    survey: Survey

    @property
    def overview(self) -> YarnOverview:
        """YARN's overview.

        Raises:
            NotSeen: YARN gave no answer.
        """
        if self.survey.overview is None:
            failure = self.survey.failure
            raise NotSeen(elsewhere(failure.code if failure else ""))
        return self.survey.overview

    @property
    def hdfs(self) -> HdfsSurvey:
        """The survey of the file system.

        Raises:
            NotSeen: It gave no answer.
        """
        if self.survey.hdfs is None:
            raise NotSeen("the file system gave no answer: see 'staging directory'")
        return self.survey.hdfs

    @property
    def properties(self) -> Mapping[str, str]:
        """Live properties of the ResourceManager.

        Raises:
            NotSeen: No ResourceManager shows them.
        """
        if self.survey.properties is None:
            urls = ", ".join(f"{one.url}/conf" for one in self.survey.resource_managers)
            raise NotSeen(f"no ResourceManager shows its properties (at {urls})")
        return self.survey.properties

    def queue(self) -> QueueFacts:
        """Return the scheduler's facts of the spec's queue.

        Raises:
            NotSeen: It shows no such queue.
        """
        scheduler, name = self.survey.scheduler, self.settings.queue
        found = None if scheduler is None else scheduler.queue(name)
        if found is None:
            raise NotSeen(f"the ResourceManager's web server shows no queue '{name}'")
        return found

    def nodes(self, name: str) -> tuple[NodeSettings, ...]:
        """Return the nodes that showed their properties, for a rule about the property *name*.

        Raises:
            NotSeen: No node did; the text says where a person can look.
        """
        found = tuple(node for node in self.survey.nodes if not node.problem)
        if not found:
            problem = next((n.problem for n in self.survey.nodes), "no node was asked")
            raise NotSeen(f"no node shows its properties ({problem}); look for {name} in the "
                          "yarn-site.xml of a node")  # fmt: skip
        return found


@attrs.frozen
class Rule:
    """A check: its texts, and its function."""

    name: str
    matters: str
    look: Callable[[Case], CheckResult]
    """May raise `NotSeen`."""
    concerns: Callable[[ClusterSpec, YarnSettings], bool] = lambda _spec, _settings: True
    """Returns whether the check applies to a spec."""


def teller(code: str) -> str:
    """Return the name of the check that reports the failure *code* of the survey."""
    return _TELLERS.get(code, CONNECTION)


def elsewhere(code: str) -> str:
    """Return the text of all other checks after that failure."""
    return f"not looked at: see '{teller(code)}'"


def looked(seen: str, findings: Iterable[Finding] = ()) -> CheckResult:
    """Return a result with what was *seen*, and its problems."""
    return CheckResult(seen, tuple(findings))


def truth(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return a boolean property of Hadoop."""
    return properties.get(name, str(default)).strip().lower() == "true"
