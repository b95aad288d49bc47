"""The Protocols: what a provider must do, on which thread, and what it may not do."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from tarn.domain import (
    Applied,
    ClusterSpec,
    DiscoveryView,
    Epoch,
    Fact,
    FleetView,
    Principal,
    Readiness,
    Recovered,
    RuntimeWish,
    Sample,
    SavedState,
    Verdict,
    Wish,
)

__all__ = [
    "Authorizer",
    "CeilingSource",
    "ClientContext",
    "Clock",
    "ClusterRef",
    "Deployer",
    "Discovery",
    "Ending",
    "Finding",
    "LaunchPlan",
    "MasterContext",
    "Paths",
    "Progress",
    "Runtime",
    "RuntimeCapabilities",
    "ScalingPolicy",
    "Secret",
    "SecretStore",
    "Signal",
    "Staged",
    "StateStore",
    "Storage",
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


@attrs.frozen
class Finding:
    """One thing that a check before the start found."""

    code: str
    where: str
    found: str
    next_step: str
    fatal: bool = True


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
    """What an instance gets beside the environment it inherits; secrets in it are not masked."""
    files: Mapping[str, str] = attrs.field(hash=False)
    """What is written, and what is read, to where it lies."""


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
    gpus: bool = False


class Runtime(Protocol):
    """Runs instances. Owns one worker in the master; the control thread only posts and reads."""

    def start(self, api_url: str) -> Recovered:
        """Announce where the API listens, and adopt what an earlier master left running.

        Called once, before anything else, by the master that starts. YARN registers the
        application here; locally the address goes into ``ref.json``.
        """
        ...

    def apply(self, wish: RuntimeWish) -> None:
        """Bring the world closer to *wish*. On the worker; may take long; idempotent.

        A wish that was applied before changes nothing. An id in neither ``want`` nor ``stop`` is
        left alone. Before every spawn and kill the epoch is compared: a newer one raises
        ``Superseded`` and nothing is done. A launch that fails becomes an ``Ended`` fact, not an
        exception; an exception means that the whole runtime did not answer, and is tried again.
        """
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return everything that is known now, at most one fact for an instance. Never blocks."""
        ...

    def heard_s(self) -> float:
        """Return the monotonic second of the last good word from whoever grants containers."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Return what a person should know about the runtime now, a line each. Never blocks."""
        ...

    def finish(self) -> None:
        """The cluster ended: unregister, and remove what the runtime keeps. Called once, last."""
        ...

    def close(self) -> None:
        """Leave: end threads and handles; instances stay. Idempotent, returns within a second."""
        ...


class Deployer(Protocol):
    """Starts, finds and ends masters, from a client process."""

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Look for what would make a start fail; changes nothing."""
        ...

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Say what `submit` would lead to; starts nothing, writes nothing, and raises nothing.

        *staged* may be a guess, where nothing was copied yet. What cannot work is for `check`.
        """
        ...

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Start a master for *spec*. Two at once: one wins by exclusive creation.

        *files* (``spec.yaml``, ``staged.json``, ``api_token``) are put, mode 0600, where the
        master finds them before it starts. Instances that lost their master are taken over.

        Raises:
            RefusedError: One of this name runs already, or is being started (TARN-2103).
            LaunchError: The master did not come up; nothing is left behind.
        """
        ...

    def find(self, name: str) -> ClusterRef | None:
        """Return the running cluster of this name, or None.

        Where only its instances run, ``url`` is None and ``orphans`` names them; with none of
        these the master is being started.
        """
        ...

    def ended(self, name: str) -> Ending | None:
        """Return how the last cluster of this name ended; None where nobody remembers one."""
        ...

    def end(self, ref: ClusterRef) -> None:
        """End by force what the master of *ref* did not end itself; idempotent."""
        ...

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        """Yield the last *tail* lines (None: all) of one instance's log; '' is the master's."""
        ...


class StateStore(Protocol):
    """Keeps a master's state. Used by the state thread only."""

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the highest state that parses (None: there is none) and alerts about the others.

        Raises:
            TarnError: The newest one has a newer schema (code TARN-1007).
        """
        ...

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Write, fsync, rename; two are kept. ``Superseded`` when a higher epoch saved."""
        ...


class Storage(Protocol):
    """Makes a model repository usable for instances."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Return where *uri* is, after copying it where that is needed.

        Copies go to a fresh place and are renamed into it: a failure leaves the old copy usable.

        Raises:
            StorageError: Missing, unreadable, or not enough space (bytes needed and free).
        """
        ...


class Discovery(Protocol):
    """Publishes who may get traffic. Owns one worker in the master."""

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view*. On the worker; idempotent; refuses a lower epoch.

        An incomplete view adds, and removes nothing. Raises ``DiscoveryError`` to be tried again.
        """
        ...

    def applied(self) -> Applied | None:
        """Return the last acknowledged view; None before the first. Never blocks."""
        ...

    def close(self, *, withdraw: bool) -> None:
        """Leave; with *withdraw* nothing published stays. Idempotent, returns within a second."""
        ...


class Authorizer(Protocol):
    """Says who may do what. Called on a small pool; must be thread-safe."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Answer within the deadline of the caller; an exception or a late answer is a no."""
        ...

    def ready(self) -> Readiness:
        """Say whether checks can be answered at all; shown in ``/health``."""
        ...


class ScalingPolicy(Protocol):
    """Wants a number of replicas. Pure and stateless: everything is in the view."""

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size that *fleet* should have, or None to keep it. Same input, same answer."""
        ...


class Secret(Protocol):
    """A secret value whose ``repr`` and ``str`` are masked."""

    def reveal(self) -> str:
        """Return the value; the one way to read it."""
        ...


class SecretStore(Protocol):
    """Reads, and where it can writes, secrets by name."""

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        ...

    def read(self, name: str) -> Secret:
        """Return one secret; ``NotFoundError`` when there is none of that name."""
        ...

    def write(self, name: str, value: str) -> None:
        """Store *value*; ``ProviderError`` where the store is read-only."""
        ...


class Signal(Protocol):
    """Makes one number for the whole fleet from what was scraped. Pure."""

    def read(
        self,
        samples: Mapping[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]],
        window_s: float,
    ) -> Sample[float]:
        """Return the signal over the last *window_s* seconds.

        *samples* maps instance id to (monotonic seconds, metrics), oldest first.
        """
        ...


class CeilingSource(Protocol):
    """Grants a farm's ceiling. Asked off the control thread."""

    def register(self, status: Mapping[str, object]) -> None:
        """Tell the farm what this cluster has and wants."""
        ...

    def ceiling(self) -> Sample[int]:
        """Return the most replicas granted at present."""
        ...
