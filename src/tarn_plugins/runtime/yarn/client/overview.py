"""What a client sees of YARN and HDFS before it submits. Values; they cross the child's pipe."""

from collections.abc import Mapping

import attrs

from tarn.interfaces import Finding
from tarn.triton.lint import Stubs

__all__ = [
    "ANY_LABEL",
    "MEMORY",
    "VCORES",
    "Amounts",
    "Queue",
    "YarnNode",
    "YarnOverview",
    "amounts_text",
    "goes_by",
    "listed",
]

ANY_LABEL = "*"
MEMORY, VCORES = "memory-mb", "vcores"

Amounts = Mapping[str, int]
"""Resource type -> how much of it: MiB of ``memory-mb``, and counts of every other one."""


@attrs.frozen
class Queue:
    """One queue, as the ResourceManager shows it to this user."""

    name: str
    running: bool = True
    may_submit: bool = True
    labels: tuple[str, ...] = (ANY_LABEL,)
    """Node labels that its applications may use; ``*``: every one."""
    default_label: str = ""
    """Where what names no label goes."""

    def may_use(self, label: str) -> bool:
        """Whether its applications may ask for the node label *label*."""
        return ANY_LABEL in self.labels or label in self.labels


@attrs.frozen
class YarnNode:
    """One node, as the ResourceManager sees it."""

    host: str
    state: str = "RUNNING"
    label: str = ""
    """Its partition; empty: the default one."""
    total: Amounts = attrs.field(factory=dict, hash=False)
    used: Amounts = attrs.field(factory=dict, hash=False)
    web: str = ""
    """``host:port`` of its web server."""
    health: str = ""
    """What its health script said."""

    @property
    def runs(self) -> bool:
        """Whether YARN starts containers there."""
        return self.state == "RUNNING"

    def holds(self, ask: Amounts) -> bool:
        """Whether it could hold *ask* if nothing else were on it."""
        return all(self.total.get(kind, 0) >= amount for kind, amount in ask.items())

    def has_free(self, ask: Amounts) -> bool:
        """Whether it can hold *ask* besides what is on it now."""
        used, total = self.used, self.total
        return all(total.get(k, 0) - used.get(k, 0) >= amount for k, amount in ask.items())


@attrs.frozen
class YarnOverview:
    """What a client sees of YARN and HDFS before it submits."""

    user: str = ""
    queues: tuple[Queue, ...] = ()
    """Leaf queues; a full path and its last part name the same one."""
    maximum: Amounts = attrs.field(factory=dict, hash=False)
    """The largest container: ``memory-mb``, ``vcores``, and every other resource type."""
    labels: tuple[str, ...] = ()
    """Node labels of the whole YARN."""
    lent: tuple[str, ...] = ()
    """Those whose idle nodes take what asks for no label (``exclusive=false``)."""
    nodes: tuple[YarnNode, ...] = ()
    """Every node, whatever its state; empty: not told."""
    am_max_attempts: int | None = None
    """The RM's cap on a master's attempts; None: not told."""
    staging: str = ""
    staging_problem: str = ""
    """Why nothing can be written there; empty when it can."""
    placement: str = "scheduling"
    placement_reason: str = ""
    repository: tuple[Finding, ...] = ()
    """What is wrong with a repository that the nodes fetch by themselves."""
    python: tuple[Stubs, ...] = ()
    """Its Python models; empty where none are known."""

    def queue(self, name: str) -> Queue | None:
        """Return the queue of this name, or whose path ends in it."""
        return next((queue for queue in self.queues if goes_by(queue.name, name)), None)

    def label(self, asked: str, queue: str) -> str:
        """Return the partition of what asks for the label *asked* in *queue*."""
        here = self.queue(queue)
        return asked or ("" if here is None else here.default_label)

    def running(self, label: str) -> tuple[YarnNode, ...]:
        """Return the nodes that take what asks for a partition, and start containers."""
        lent = () if label else self.lent
        return tuple(n for n in self.nodes if n.runs and (n.label == label or n.label in lent))


def goes_by(path: str, name: str) -> bool:
    """Say whether a queue with this whole path is meant by *name*: all of it, or its last part."""
    return name in (path, path.rpartition(".")[2])


def amounts_text(amounts: Amounts) -> str:
    """Return *amounts* for people: ``8192 MiB, 16 vcores, 2 yarn.io/gpu``; without what is 0."""
    words = {MEMORY: "MiB"}
    first = sorted(amounts, key=lambda kind: (kind != MEMORY, kind != VCORES, kind))
    return ", ".join(f"{amounts[k]} {words.get(k, k)}" for k in first if amounts[k]) or "nothing"


def listed(words: list[str], most: int = 8) -> str:
    """Return *words* with commas; of more than *most* the rest is counted."""
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + rest
