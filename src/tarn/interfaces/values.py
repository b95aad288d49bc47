"""The values that providers take and return: contexts, references, findings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from tarn.domain import Choice, ClusterSpec, Epoch

if TYPE_CHECKING:  # it speaks of contexts itself
    from tarn.interfaces.protocols import ScalingPolicy
from collections.abc import Iterator
from typing import Any

from tarn.errors import TarnError

__all__ = [
    "Check",
    "CheckResult",
    "ClientContext",
    "Clock",
    "ClusterInspection",
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
    """Time; an argument everywhere, so that tests and the simulator can replace it."""

    def now_s(self) -> float:
        """Return monotonic seconds, which never go back; only differences have a meaning."""
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
    """``~/.cache/tarn``, or below ``XDG_CACHE_HOME``; may be deleted at any time."""

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
    """How much is done, in the unit of ``of``; None: it cannot be counted."""
    of: float | None = None
    note: bool = False
    """Whether it stays of interest: then it is shown on a separate line, after ``note: ``."""


@attrs.frozen
class ClientContext:
    """What a provider may use in a client process (notebook, CLI)."""

    clock: Clock
    environ: Mapping[str, str]
    """The environment as `tarn.config` read it; use it instead of ``os.environ``."""
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
    """Ask the control thread for a tick now. Any thread; never blocks."""
    spec_hash: str = ""
    """Hash of what instances are launched with at present (``Launch.spec_hash``)."""
    api_url: str = ""
    """Address of this master's API; empty for providers that are created before it listens (the
    runtime, the authorizer)."""
    policy: Callable[[Choice], "ScalingPolicy"] = _no_policy
    """Make a scaling policy that another one uses, as `tarn.hookspecs.Factory.asks` declares. May
    be called only while scaling policies are created."""


@attrs.frozen
class Finding:
    """One problem that a check before the start found."""

    code: str
    where: str
    found: str
    next_step: str
    fatal: bool = True


@attrs.frozen
class CheckResult:
    """The result of one check of `tarn doctor`."""

    seen: str
    """What the check saw, without a full stop; shown if it has no findings."""
    findings: tuple[Finding, ...] = ()
    """The problems; ``next_step`` of each is the exact fix."""
    known: bool = True
    """False: the check is not possible here, for the reason in *seen*."""


@attrs.frozen
class Check:
    """One check of `tarn doctor` around a cluster."""

    name: str
    """The subject in a few words, such as ``YARN queue``; unique among all checks."""
    matters: str
    """Why it matters: one sentence, shown with the findings."""
    look: Callable[[], CheckResult]
    """Makes the check, without changing anything. Called once, in a thread, in parallel with
    others. A `TarnError` becomes a finding; any other exception is shown as a fault of the
    plugin."""
    within_s: float = 60.0
    """The deadline, in seconds from its beginning; a later result is ignored."""


@attrs.frozen
class Staged:
    """The place of a model repository where instances can use it."""

    location: str
    """Local path, or the URI that the nodes fetch."""
    kind: str
    """``in_place``, ``localize`` or ``local``."""
    digest: str = ""
    """Content hash, if the storage knows one."""
    bytes: int | None = None


@attrs.frozen
class LaunchPlan:
    """What a start would do, as far as a client knows before it."""

    commands: tuple[tuple[str, ...], ...]
    """Arguments of the first instance, a command for each of its ranks; ``free`` is in place of a
    port that is chosen at the launch."""
    environ: Mapping[str, str] = attrs.field(hash=False, repr=False)
    """Variables of an instance in addition to its inherited ones; secrets are not masked."""
    files: Mapping[str, str] = attrs.field(hash=False)
    """The places of the files that it writes and reads, by what they are."""


@attrs.frozen
class LogTail:
    """The end of a log."""

    lines: tuple[str, ...] = attrs.field(repr=False)
    """Oldest first, without line ends."""
    truncated: bool = False
    """Whether there are earlier lines."""


@attrs.frozen
class ClusterRef:
    """The data with which a cluster's master is found again: the content of ``ref.json``."""

    name: str
    runtime: str
    epoch: Epoch
    url: str | None = None
    """Base URL of the master's HTTP API; None until it listens."""
    proxy_url: str | None = None
    """The URL through the proxy of YARN's ResourceManager."""
    orphans: tuple[tuple[str, str], ...] = ()
    """(instance id, ``host:port`` of its HTTP service) of each instance that serves without a
    master; set only by `Deployer.find`, and then ``url`` is None."""
    restarts: bool = False
    """Whether the last master has ended and another one is starting; set only by `Deployer.find`,
    and then ``url`` is None."""
    application_id: str | None = None
    pid: int | None = None
    """Process id of a local master."""
    pid_started: int | None = None
    """Clock ticks from boot to the start of ``pid``, which tell it from a later process."""
    started_at: float = 0.0


@attrs.frozen
class Ending:
    """How the last cluster of a name ended, as its runtime recorded it."""

    name: str
    state: str
    """``stopped``, or ``failed``."""
    reason: str
    """A phrase; may be empty."""
    at: float
    """Wall time, Unix seconds."""
    ref: ClusterRef
    """For `Deployer.logs`."""


@attrs.frozen
class RuntimeCapabilities:
    """The capabilities of a runtime; a spec that needs more is refused before a start."""

    placement: bool = False
    """Anti-affinity, node labels."""
    remote: bool = False
    """Instances run on other machines, so the client does not check plain paths."""
    reads: frozenset[str] = frozenset()
    """URI schemes that its machines read themselves, so that nothing is staged."""
    tells_memory: bool = False
    """It reports the memory of an instance's processes: ``Running.rss_mib``."""
    gpus: bool = False


class ClusterInspection(Protocol):
    """One cluster, or its remains, as a client process sees it. Used by one thread.

    Each method may block for seconds, and raises a ``TarnError`` if there is no answer.
    """

    @property
    def name(self) -> str:
        """The cluster's name; empty: no cluster, only this machine is inspected."""
        ...

    @property
    def context(self) -> ClientContext:
        """Environment, clock and paths; its ``progress`` is shown to the user."""
        ...

    @property
    def spec(self) -> ClusterSpec | None:
        """The cluster's spec; None: it is not known here."""
        ...

    @property
    def directory(self) -> Path | None:
        """The cluster's directory on this machine, which may not exist."""
        ...

    @property
    def asks(self) -> bool:
        """Whether the cluster can be asked; otherwise `unknown` may say why not."""
        ...

    @property
    def unknown(self) -> TarnError | None:
        """Why the cluster cannot be asked; None: it can, or no cluster was named."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Return the status, as ``GET /api/v1/status`` has it, even without a master."""
        ...

    def why(self, status: Mapping[str, Any]) -> str:
        """Return a line for each thing that is not as desired in *status*."""
        ...

    def get(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object that the master has at *path*."""
        ...

    def text(self, path: str) -> str:
        """Return the text that the master has at *path*, such as ``/metrics``."""
        ...

    def logs(self, instance: str, tail: int | None) -> Iterator[str]:
        """Yield the last *tail* lines (None: all) of an instance's log; '' is the master's."""
        ...

    def logged(self) -> tuple[str, ...]:
        """Return the ids of the instances that have logs, some of which have ended."""
        ...

    def api_token(self) -> str:
        """Return the api token that this process was given; '' if it was given none."""
        ...

    def stored_secrets(self) -> tuple[str, ...]:
        """Return every value in the secret stores of the spec."""
        ...

    def doctor(self) -> tuple[list[dict[str, object]], str]:
        """Return the result of `tarn doctor`: a row for each check, and as text."""
        ...

    def lint(self) -> Mapping[str, Any]:
        """Return the findings of `tarn lint` in the spec's model repository, a directory."""
        ...

    def providers(self) -> list[Mapping[str, str]]:
        """Return ``kind``, ``name`` and ``plugin`` of each provider that plugins offer."""
        ...

    def close(self) -> None:
        """Close the connection to the master, and finish the output of progress."""
        ...
