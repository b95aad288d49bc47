"""A client's view of YARN and HDFS, as plain values for the checks.

The process that holds the JVM gathers them, and sends them through its pipe as JSON: an overview
before a submission, a whole survey for `tarn doctor`. Unknown values are None or empty, and a
`Finding` may say why.
"""

from collections.abc import Mapping

import attrs

from tarn.clock import Skew
from tarn.interfaces import Finding
from tarn.triton.lint import Stubs

__all__ = [
    "MEMORY",
    "VCORES",
    "Amounts",
    "Client",
    "HdfsSurvey",
    "NodeSettings",
    "Partition",
    "Queue",
    "QueueFacts",
    "Quota",
    "ResourceManagerSurvey",
    "Scheduler",
    "Survey",
    "YarnNode",
    "YarnOverview",
    "amounts_text",
    "listed",
]

ANY_LABEL = "*"
MEMORY, VCORES = "memory-mb", "vcores"

# Resource type -> amount: MiB of ``memory-mb``, and counts of all others.
Amounts = Mapping[str, int]


@attrs.frozen
class Queue:
    """A queue, as the ResourceManager shows it to this user."""

    name: str
    running: bool = True
    may_submit: bool = True
    labels: tuple[str, ...] = (ANY_LABEL,)
    """Node labels that its applications may use; ``*``: all."""
    default_label: str = ""
    """The label of requests without a label."""

    def may_use(self, label: str) -> bool:
        """Return whether its applications may request the node label *label*."""
        return ANY_LABEL in self.labels or label in self.labels


@attrs.frozen
class YarnNode:
    """A node, as the ResourceManager sees it."""

    host: str
    state: str = "RUNNING"
    label: str = ""
    """Its partition; empty: the default one."""
    total: Amounts = attrs.field(factory=dict, hash=False)
    used: Amounts = attrs.field(factory=dict, hash=False)
    web: str = ""
    """``host:port`` of its web server."""
    health: str = ""
    """The text of its health script."""

    @property
    def runs(self) -> bool:
        """Whether YARN starts containers there."""
        return self.state == "RUNNING"

    def holds(self, ask: Amounts) -> bool:
        """Return whether it could hold *ask* if it were empty."""
        return all(self.total.get(kind, 0) >= amount for kind, amount in ask.items())

    def has_free(self, ask: Amounts) -> bool:
        """Return whether it can hold *ask* now."""
        used, total = self.used, self.total
        return all(total.get(k, 0) - used.get(k, 0) >= amount for k, amount in ask.items())


@attrs.frozen
class YarnOverview:
    """A client's view of YARN and HDFS before it submits."""

    user: str = ""
    queues: tuple[Queue, ...] = ()
    """Leaf queues; a whole path and its last part name the same one."""
    maximum: Amounts = attrs.field(factory=dict, hash=False)
    """The largest container: ``memory-mb``, ``vcores``, and every other resource type."""
    labels: tuple[str, ...] = ()
    """Node labels of the whole YARN."""
    lent: tuple[str, ...] = ()
    """Labels whose idle nodes accept requests without a label (``exclusive=false``)."""
    nodes: tuple[YarnNode, ...] = ()
    """All nodes in any state; empty if unknown."""
    am_max_attempts: int | None = None
    """The RM's limit of a master's attempts; None if unknown."""
    staging: str = ""
    staging_problem: str = ""
    """Why nothing can be written there, or empty."""
    placement: str = "scheduling"
    placement_reason: str = ""
    repository: tuple[Finding, ...] = ()
    """Problems of a repository that the nodes fetch themselves."""
    python: tuple[Stubs, ...] = ()
    """Its Python models, as far as they are known."""

    def queue(self, name: str) -> Queue | None:
        """Return the queue *name*, or None."""
        return next((queue for queue in self.queues if goes_by(queue.name, name)), None)

    def label(self, asked: str, queue: str) -> str:
        """Return the partition for requests of the label *asked* in *queue*."""
        here = self.queue(queue)
        return asked or ("" if here is None else here.default_label)

    def running(self, label: str) -> tuple[YarnNode, ...]:
        """Return the running nodes that accept requests for a partition."""
        lent = () if label else self.lent
        return tuple(n for n in self.nodes if n.runs and (n.label == label or n.label in lent))


def goes_by(path: str, name: str) -> bool:
    """Return whether *name* is the whole *path* of a queue, or its last part."""
    return name in (path, path.rpartition(".")[2])


def amounts_text(amounts: Amounts) -> str:
    """Return *amounts* as text: ``8192 MiB, 16 vcores, 2 yarn.io/gpu``; without zeros."""
    words = {MEMORY: "MiB"}
    first = sorted(amounts, key=lambda kind: (kind != MEMORY, kind != VCORES, kind))
    return ", ".join(f"{amounts[k]} {words.get(k, k)}" for k in first if amounts[k]) or "nothing"


def listed(words: list[str], most: int = 8) -> str:
    """Return *words* with commas, and the number of those beyond *most*."""
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + rest


@attrs.frozen
class Client:
    """Hadoop's client on this machine."""

    user: str = ""
    hadoop: str = ""
    """Its version."""
    java: str = ""
    java_home: str = ""
    kerberos: bool = False
    principal: str = ""
    """The keytab's principal; empty: a ticket is used, if any."""
    token_life_s: float | None = None
    """How long a delegation token of HDFS can be renewed, by the NameNode."""


@attrs.frozen
class ResourceManagerSurvey:
    """The web server of one ResourceManager."""

    url: str
    state: str = ""
    """``ACTIVE`` or ``STANDBY``; '' if unknown, see *problem*."""
    version: str = ""
    clock: Skew | None = None
    """How far its clock is off; None if unknown."""
    problem: str = ""


@attrs.frozen
class Partition:
    """A queue's share of a partition."""

    label: str = ""
    guaranteed: Amounts = attrs.field(factory=dict, hash=False)
    most: Amounts = attrs.field(factory=dict, hash=False)
    """The most that it may grow to; empty if unknown."""
    used: Amounts = attrs.field(factory=dict, hash=False)
    masters: Amounts = attrs.field(factory=dict, hash=False)
    """The limit of all masters of applications together; empty if unknown."""
    masters_used: Amounts = attrs.field(factory=dict, hash=False)


@attrs.frozen
class QueueFacts:
    """A leaf queue, as the scheduler shows it."""

    path: str
    partitions: tuple[Partition, ...] = ()
    user_factor: float | None = None
    """A user's limit as a multiple of the guarantee; None or below 0: no limit."""
    master_percent: float | None = None
    """``maximum-am-resource-percent``, as a fraction."""
    active: int = 0
    """Applications whose masters run."""
    applications: int = 0
    """Active and waiting applications."""
    most_applications: int | None = None
    max_lifetime_s: int | None = None
    """The longest lifetime that an application can request; -1: no limit."""
    default_lifetime_s: int | None = None
    """The lifetime of an application that requests none; -1: no limit."""
    policy: str = ""
    """Of a fair scheduler's queue: ``fair``, ``drf`` or ``fifo``, in lower case."""

    def partition(self, label: str) -> Partition | None:
        """Return its share of the partition *label*, or None."""
        return next((one for one in self.partitions if one.label == label), None)


@attrs.frozen
class Scheduler:
    """The ResourceManager's scheduler."""

    kind: str
    """``capacity``, ``fair``, or another name."""
    counts_all: bool | None = None
    """Whether it counts more than memory; None if unknown."""
    queues: tuple[QueueFacts, ...] = ()
    policy: str = ""
    """The policy of a fair scheduler's root queue, in lower case."""

    def queue(self, name: str) -> QueueFacts | None:
        """Return the queue *name*, or None."""
        return next((q for q in self.queues if goes_by(q.path, name)), None)


@attrs.frozen
class NodeSettings:
    """The live properties of one NodeManager."""

    host: str
    version: str = ""
    properties: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    problem: str = ""
    """Why they could not be read, or empty."""


@attrs.frozen
class Quota:
    """The rest of a directory's quotas on HDFS."""

    path: str
    names: int | None = None
    """Files and directories that may be added; None: no such quota."""
    space: int | None = None
    """Bytes, every replica counted; None: no such quota."""


@attrs.frozen
class HdfsSurvey:
    """The file system with the files of clusters."""

    staging: str
    problem: str = ""
    """Why nothing can be written there, or empty."""
    existing: str = ""
    """The staging directory, or the nearest existing one above it."""
    impassable: tuple[str, ...] = ()
    """Directories above it through which not everybody may pass."""
    quotas: tuple[Quota, ...] = ()
    block: int = 0
    """Bytes that HDFS reserves for a new file of one block, in all replicas."""
    replication: int = 1
    free: int | None = None
    """Bytes, every replica counted; None if unknown."""
    safe_mode: bool = False
    to_copy: int | None = None
    """Bytes of a model repository to be copied there; None: it is not copied, or its size is
    unknown."""
    repository: tuple[Finding, ...] = ()
    """Problems of a repository that the nodes fetch themselves."""
    models: int | None = None
    """Files of such a repository."""


@attrs.frozen
class Survey:
    """The results of one survey."""

    client: Client = attrs.field(factory=Client)
    overview: YarnOverview | None = None
    """The part that a submission also checks; None: see *failure*."""
    failure: Finding | None = None
    """Why YARN gave no answer."""
    resource_managers: tuple[ResourceManagerSurvey, ...] = ()
    properties: Mapping[str, str] | None = attrs.field(default=None, hash=False)
    """Live properties of the ResourceManager; None if unknown."""
    scheduler: Scheduler | None = None
    nodes: tuple[NodeSettings, ...] = ()
    """First one node of each label and size, then others."""
    name_node_clock: Skew | None = None
    """How far the NameNode's clock is off; None if unknown."""
    hdfs: HdfsSurvey | None = None
    hdfs_failure: Finding | None = None
    python: tuple[Finding, ...] = ()
    """Problems of the packed environment, if there is one."""
