"""One look at a YARN and its HDFS: plain facts, which every check reads. Values.

They are gathered by `looking` in the process that holds the JVM, and cross its pipe as JSON. What
could not be seen is None or empty, and a `Finding` may say why: a check then does not know.
"""

from collections.abc import Mapping

import attrs

from tarn.clock import Skew
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn.client.overview import Amounts, YarnOverview, goes_by

__all__ = [
    "Client",
    "HdfsSurvey",
    "NodeSettings",
    "Partition",
    "QueueFacts",
    "Quota",
    "ResourceManagerSurvey",
    "Scheduler",
    "Survey",
]


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
    """Of the keytab that was named, and that Kerberos took; empty: a ticket, where one is asked."""
    token_life_s: float | None = None
    """How long a delegation token of HDFS can be renewed, as the NameNode says."""


@attrs.frozen
class ResourceManagerSurvey:
    """The web server of one ResourceManager."""

    url: str
    state: str = ""
    """``ACTIVE`` or ``STANDBY``; '' where *problem* says why it is not known."""
    version: str = ""
    clock: Skew | None = None
    """How far its clock is off; None: it told no time."""
    problem: str = ""


@attrs.frozen
class Partition:
    """What a queue has of one partition."""

    label: str = ""
    guaranteed: Amounts = attrs.field(factory=dict, hash=False)
    most: Amounts = attrs.field(factory=dict, hash=False)
    """To what it may grow; empty: not told."""
    used: Amounts = attrs.field(factory=dict, hash=False)
    masters: Amounts = attrs.field(factory=dict, hash=False)
    """What masters of applications may have together; empty: not told."""
    masters_used: Amounts = attrs.field(factory=dict, hash=False)


@attrs.frozen
class QueueFacts:
    """A leaf queue, as the scheduler shows it."""

    path: str
    partitions: tuple[Partition, ...] = ()
    user_factor: float | None = None
    """A user may have so many times what is guaranteed; None or below 0: no such limit."""
    master_percent: float | None = None
    """``maximum-am-resource-percent``, as a fraction."""
    active: int = 0
    """Applications whose masters run."""
    applications: int = 0
    """Those that wait among them."""
    most_applications: int | None = None
    max_lifetime_s: int | None = None
    """After so long an application is killed, whatever it asked for; -1: never."""
    default_lifetime_s: int | None = None
    """The same for one that asked for nothing."""
    policy: str = ""
    """Of a fair scheduler's queue: ``fair``, ``drf`` or ``fifo``, in lower case."""

    def partition(self, label: str) -> Partition | None:
        """Return its part of the partition *label*."""
        return next((one for one in self.partitions if one.label == label), None)


@attrs.frozen
class Scheduler:
    """The ResourceManager's scheduler."""

    kind: str
    """``capacity``, ``fair``, or what else it calls itself."""
    counts_all: bool | None = None
    """Whether it counts more than memory; None: nothing tells."""
    queues: tuple[QueueFacts, ...] = ()
    policy: str = ""
    """Of a fair scheduler: that of its root queue, in lower case."""

    def queue(self, name: str) -> QueueFacts | None:
        """Return the queue of this name, or whose path ends in it."""
        return next((q for q in self.queues if goes_by(q.path, name)), None)


@attrs.frozen
class NodeSettings:
    """The live properties of one NodeManager."""

    host: str
    version: str = ""
    properties: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    problem: str = ""
    """Why they could not be read; empty when they were."""


@attrs.frozen
class Quota:
    """What a directory of HDFS may still take."""

    path: str
    names: int | None = None
    """Files and directories that may be added; None: no such quota."""
    space: int | None = None
    """Bytes, every replica counted; None: no such quota."""


@attrs.frozen
class HdfsSurvey:
    """The file system on which the files of clusters lie."""

    staging: str
    problem: str = ""
    """Why nothing can be written there; empty when it can."""
    existing: str = ""
    """The staging directory, or the nearest one above it that is there."""
    closed: tuple[str, ...] = ()
    """Directories on the way to it that not everybody may pass."""
    quotas: tuple[Quota, ...] = ()
    block: int = 0
    """Bytes that a new file of one block takes from a quota at first: every replica whole."""
    replication: int = 1
    free: int | None = None
    """Bytes, every replica counted; None: the file system does not tell."""
    safe_mode: bool = False
    to_copy: int | None = None
    """Bytes of a model repository that would be copied here; None: it stays where it is, or its
    size is not known."""
    repository: tuple[Finding, ...] = ()
    """What is wrong with a repository that the nodes fetch by themselves."""
    models: int | None = None
    """Files of such a repository."""


@attrs.frozen
class Survey:
    """Everything that one look saw."""

    client: Client = attrs.field(factory=Client)
    overview: YarnOverview | None = None
    """What a submission looks at, too; None: *failure* says why."""
    failure: Finding | None = None
    """Why YARN gave no answer."""
    resource_managers: tuple[ResourceManagerSurvey, ...] = ()
    properties: Mapping[str, str] | None = attrs.field(default=None, hash=False)
    """Live properties of the ResourceManager; None: it shows none."""
    scheduler: Scheduler | None = None
    nodes: tuple[NodeSettings, ...] = ()
    """One node of each label and kind of size first, as far as they could be asked."""
    name_node_clock: Skew | None = None
    """How far the NameNode's clock is off; None: it told no time."""
    hdfs: HdfsSurvey | None = None
    hdfs_failure: Finding | None = None
    python: tuple[Finding, ...] = ()
    """What is wrong with a packed environment; nothing where none is named."""
