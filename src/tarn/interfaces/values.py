"""The values that providers are given, and give back: contexts, references, findings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from tarn.domain import Choice, ClusterSpec, Epoch

if TYPE_CHECKING:  # it speaks of contexts itself
    from tarn.interfaces.protocols import ScalingPolicy

__all__ = [
    "Check",
    "CheckResult",
    "ClientContext",
    "Clock",
    "ClusterRef",
    "Ending",
    "Finding",
    "LaunchPlan",
    "LogTail",
    "MasterContext",
    "Paths",
    "Progress",
    "RuntimeCapabilities",
    "Staged",
]


@runtime_checkable
class Clock(Protocol):
    """Time, passed in so that tests and the simulator can bring their own."""

    def now_s(self) -> float:
        """Return monotonic seconds; never goes back, differences mean something."""
        ...

    def at(self) -> float:
        """Return wall time as Unix seconds, UTC; may jump."""
        ...


@attrs.frozen
class Paths:
    """Where TARN keeps its files."""

    home: Path
    """``~/.tarn``, or ``TARN_HOME``."""
    cache: Path
    """``~/.cache/tarn``, or below ``XDG_CACHE_HOME``: may be deleted at any time."""

    def cluster(self, name: str) -> Path:
        """Return the directory of one cluster (mode 0700, made by its deployer)."""
        return self.home / "clusters" / name


@attrs.frozen
class Progress:
    """One line of progress of long work."""

    phase: str
    """``preflight``, ``staging``, ``launching``, ``loading`` or ``ready``."""
    message: str
    done: float | None = None
    """Part done in ``of`` units; None when there is nothing to count."""
    of: float | None = None


@attrs.frozen
class ClientContext:
    """What a provider may use in a client process (notebook, CLI)."""

    clock: Clock
    environ: Mapping[str, str]
    """The environment as `tarn.config` read it; nobody else reads ``os.environ``."""
    paths: Paths
    progress: Callable[[Progress], None] = lambda _progress: None


def _no_policy(choice: Choice) -> "ScalingPolicy":
    raise LookupError(f"a scaling policy such as '{choice.use}' cannot be created here")


@attrs.frozen
class MasterContext:
    """What a provider may use in a master."""

    clock: Clock
    environ: Mapping[str, str]
    paths: Paths
    spec: ClusterSpec
    epoch: Epoch
    directory: Path
    """The cluster's directory as this master sees it."""
    wake: Callable[[], None] = lambda: None
    """Ask the control thread for a tick now; any thread, never blocks."""
    spec_hash: str = ""
    """Of what instances are launched with at present (``Launch.spec_hash``)."""
    api_url: str = ""
    """Where this master's API listens; empty for what is created before it does (the runtime, the
    authorizer)."""
    policy: Callable[[Choice], "ScalingPolicy"] = _no_policy
    """Make a scaling policy, for one that asks it: `tarn.hookspecs.Factory.asks` names it. Only
    while scaling policies are created."""


@attrs.frozen
class Finding:
    """One thing that a check before the start found."""

    code: str
    where: str
    found: str
    next_step: str
    fatal: bool = True


@attrs.frozen
class CheckResult:
    """What one check of `tarn doctor` saw."""

    seen: str
    """What is so, in words without a full stop: shown where nothing is wrong with it."""
    findings: tuple[Finding, ...] = ()
    """What is wrong with it; ``next_step`` is the exact fix."""
    known: bool = True
    """False: it cannot be seen from here, and *seen* says why."""


@attrs.frozen
class Check:
    """One thing in the surroundings of a cluster that `tarn doctor` looks at."""

    name: str
    """What is looked at, in a few words: ``YARN queue``. Unique among all."""
    matters: str
    """Why it matters: one sentence, shown with what is wrong."""
    look: Callable[[], CheckResult]
    """Looks, and changes nothing. Called once, on a thread in parallel with others, with a
    deadline; a
    `TarnError` becomes a finding, any other exception is a fault of the plugin and shown as one."""
    within_s: float = 60.0
    """Seconds, from when it begins, after which nobody waits for it any more."""


@attrs.frozen
class Staged:
    """Where a model repository lies once instances can use it."""

    location: str
    """Local path, or the URI that the node localizes."""
    kind: str
    """``in_place``, ``localize`` or ``local``."""
    digest: str = ""
    """Content hash where the storage knows one."""
    bytes: int | None = None


@attrs.frozen
class LaunchPlan:
    """What a start would do, as far as a client can know it before."""

    commands: tuple[tuple[str, ...], ...]
    """Arguments of the first instance, a command for each of its ranks; ``free`` stands where a
    port is chosen at the launch."""
    environ: Mapping[str, str] = attrs.field(hash=False, repr=False)
    """What an instance gets besides the environment it inherits; secrets in it are not masked."""
    files: Mapping[str, str] = attrs.field(hash=False)
    """What is written, and what is read, to where it lies."""


@attrs.frozen
class LogTail:
    """The end of a log."""

    lines: tuple[str, ...] = attrs.field(repr=False)
    """Oldest first, without their ends."""
    truncated: bool = False
    """There are earlier lines."""


@attrs.frozen
class ClusterRef:
    """How a cluster's master is found again: the content of ``ref.json``."""

    name: str
    runtime: str
    epoch: Epoch
    url: str | None = None
    """Base URL of the master's HTTP API; None until it listens."""
    proxy_url: str | None = None
    """The same through the RM proxy."""
    orphans: tuple[tuple[str, str], ...] = ()
    """(instance id, ``host:port`` of its HTTP service) of what serves while no master is at work;
    only `Deployer.find` fills it, and then ``url`` is None."""
    restarts: bool = False
    """The last master is gone, and another one is being started; only `Deployer.find` says so, and
    then ``url`` is None."""
    application_id: str | None = None
    pid: int | None = None
    """Local master, with ``pid_started`` (clock ticks since boot) against reuse of the number."""
    pid_started: int | None = None
    started_at: float = 0.0


@attrs.frozen
class Ending:
    """How the last cluster of a name ended, as its runtime remembers it."""

    name: str
    state: str
    """``stopped``, or ``failed``."""
    reason: str
    """In words; empty where there is nothing to say."""
    at: float
    """Wall time, Unix seconds."""
    ref: ClusterRef
    """For `Deployer.logs`."""


@attrs.frozen
class RuntimeCapabilities:
    """What a runtime can do, so that a spec that needs more is refused before it runs."""

    placement: bool = False
    """Anti-affinity, node labels."""
    remote: bool = False
    """Instances run on other machines: a bare path is looked at there, not by the client."""
    reads: frozenset[str] = frozenset()
    """URI schemes that its machines read by themselves, so that nothing is staged."""
    keeps_instances_on_master_loss: bool = False
    private_ports: bool = False
    """Each instance has a network of its own, so fixed ports never clash."""
    tells_memory: bool = False
    """It says how much memory the processes of an instance hold: ``Running.rss_mib``."""
    gpus: bool = False
