"""The Protocols of providers: what each method does, and on which thread."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from tarn.domain import (
    AffinityRule,
    Applied,
    ClusterSpec,
    DiscoveryView,
    Epoch,
    Fact,
    FleetView,
    Issue,
    ModelTraits,
    Principal,
    Readiness,
    Recovered,
    RuntimeWish,
    Sample,
    SavedState,
    Secret,
    Verdict,
    Wish,
)
from tarn.interfaces.values import (
    ClientContext,
    ClusterRef,
    Ending,
    Finding,
    LaunchPlan,
    LogTail,
    Staged,
)

__all__ = [
    "Affinity",
    "Authorizer",
    "Deployer",
    "Discovery",
    "Runtime",
    "ScalingPolicy",
    "SecretStore",
    "Signal",
    "StateStore",
    "Storage",
    "Uploader",
    "UserDirectory",
]


class Runtime(Protocol):
    """Runs instances. Has one worker thread in the master, for which nothing else waits."""

    def start(self, api_url: str) -> Recovered:
        """Announce the API's address, and take over instances of an earlier master.

        Called once, before any other method. YARN registers the application here; the local
        runtime writes the address into ``ref.json``.
        """
        ...

    def apply(self, wish: RuntimeWish) -> None:
        """Start and stop instances as *wish* says. On the worker; may take long; idempotent.

        A wish that was applied before changes nothing. Instances whose ids are in neither ``want``
        nor ``stop`` are left alone. Before every start and kill the runtime compares the epoch; if
        a newer master is at work, it raises ``Superseded`` and does nothing. A failed launch
        becomes an ``Ended`` fact. An exception means that the runtime itself did not answer, and
        the wish is applied again later.
        """
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return all current facts; never blocks.

        There is at most one `Pending`, `Running` or `Ended` for an instance, and in addition to
        `Running` at most one `StubEnded`, if the runtime sees the processes of Python models.
        """
        ...

    def heard_s(self) -> float:
        """Return the monotonic second of the last answer of the resource manager.

        Never blocks. Called in every tick of the control thread, even if nothing is applied.

        Raises:
            Superseded: The resource manager reports that a newer master is at work.
            PluginError: The runtime's worker ended by an error. The master ends, the instances
                run on, and another master takes them over.
        """
        ...

    def warnings(self) -> tuple[Issue | str, ...]:
        """Return the current problems of the runtime. Never blocks.

        An `Issue` without a subject is about the runtime. A string is one line without a code.
        """
        ...

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the last *lines* lines that an instance wrote to standard error.

        May block for a few seconds. Called from several threads, with a deadline, so it must be
        thread-safe. It may return less than requested beyond the last mebibyte.

        Raises:
            NotFoundError: There is no log for this id, which may be any text.
            ProviderError: The log cannot be read.
        """
        ...

    def finish(self) -> None:
        """Unregister the ended cluster, and remove its files. Called once, before `close`."""
        ...

    def close(self) -> None:
        """End threads and close handles; instances run on. Idempotent, within a second."""
        ...


class Deployer(Protocol):
    """Starts, finds and ends masters, from a client process."""

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Return what would make a start fail; changes nothing."""
        ...

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Return what `submit` would do; starts, writes and raises nothing.

        *staged* may be a guess, if the repository was not copied yet. Problems belong to `check`.
        """
        ...

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Start a master for *spec*; of two concurrent calls one raises `RefusedError`.

        *files* (``spec.yaml``, ``staged.json``, ``api_token``) are written with mode 0600 where
        the master reads them. The master takes over instances of an earlier one.

        Raises:
            RefusedError: A cluster of this name runs already, or is being started (TARN-2103).
            LaunchError: The master did not start; nothing of it remains.
        """
        ...

    def find(self, name: str) -> ClusterRef | None:
        """Return the running cluster of this name, or None.

        If only its instances run, ``url`` is None and ``orphans`` names them; with neither, the
        master is being started.
        """
        ...

    def ended(self, name: str) -> Ending | None:
        """Return how the last cluster of this name ended; None if that is unknown."""
        ...

    def end(self, ref: ClusterRef) -> None:
        """Kill whatever of *ref* still runs, and remove its files; idempotent."""
        ...

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        """Yield the last *tail* lines (None: all) of one instance's log; '' is the master's.

        Raises:
            NotFoundError: There is no such log.
        """
        ...

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids of the instances that have a log, also of ended ones, sorted.

        Instances that ended long ago may be left out.
        """
        ...


@runtime_checkable
class Uploader(Protocol):
    """A `Deployer` that can also copy files to where its machines read them."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        """Copy a file to *uri*; it becomes visible only when it is complete.

        Returns:
            The whole URI, and whether a file of this size existed already and was kept.

        Raises:
            RefusedError: Another file exists at *uri*.
            ProviderError: The file cannot be written.
        """
        ...


class StateStore(Protocol):
    """Keeps a master's state. Used by the state thread only."""

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest readable state (or None), and alerts about unreadable ones.

        Raises:
            TarnError: The newest state has a newer schema (code TARN-1007).
        """
        ...

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Save *state* durably, and keep the one before; raise ``Superseded`` for a newer epoch."""
        ...

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Keep *data* under *name* for later masters, in place of older data; atomic.

        A cluster works without it, unlike without its state. It is removed with the cluster. Used
        by one thread other than the state thread.

        Args:
            name: Lower-case letters.
            data: The content.
            epoch: The epoch of this master.

        Raises:
            Superseded: A master with a higher epoch has kept data, or is at work.
            ProviderError: The data was not kept; older data remains.
        """
        ...

    def kept(self, name: str) -> bytes | None:
        """Return the data that was kept under *name*, or None.

        Raises:
            ProviderError: It cannot be read; ``retry_after_s`` tells whether to try again.
        """
        ...


class Storage(Protocol):
    """Makes a model repository usable for instances."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Return the place of *uri*, after copying it if needed.

        A copy is made in a new directory that is renamed at the end, so that a failure leaves the
        old copy usable.

        Raises:
            StorageError: *uri* is missing or unreadable, or there is not enough space; the
                message has the bytes needed and free.
        """
        ...


class Discovery(Protocol):
    """Publishes which instances may get traffic. Has one worker thread in the master."""

    def reach(self, within_s: float) -> None:
        """Check that the service behind the discovery answers; called before the first view.

        Raises:
            DiscoveryError: The service did not answer within *within_s* seconds.
        """
        ...

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view*. On the worker; idempotent; refuses a lower epoch.

        An incomplete view only adds instances. After a ``DiscoveryError`` it is called again.
        """
        ...

    def applied(self) -> Applied | None:
        """Return the last acknowledged view; None before the first. Never blocks.

        Raises:
            Superseded: A newer master has published; the calling master then exits.
        """
        ...

    def close(self, *, withdraw: bool) -> None:
        """Stop; with *withdraw* remove all that was published. Idempotent, within a second."""
        ...


class Authorizer(Protocol):
    """Decides which user may do what. Called from a small pool of threads; thread-safe.

    The actions are those of `tarn.domain.access`, on a model or (with the model ``""``) on the
    fleet.
    """

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the verdict; an exception, or one after the caller's deadline, denies."""
        ...

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the verdict for each of *models*, in their order."""
        ...

    def ready(self) -> Readiness:
        """Return whether checks can be answered at all, for ``/health``. Never blocks."""
        ...

    def close(self) -> None:
        """Stop, and write the rest of the audit. Idempotent, returns within a second."""
        ...


class Affinity(Protocol):
    """Says which requests must reach the same instance. Pure and stateless."""

    def rules(self, models: Sequence[ModelTraits]) -> tuple[AffinityRule, ...]:
        """Return the rules for these *models*, which are all that the fleet serves now.

        Called on a worker thread of the master when the models change. The first rule that names a
        model counts. There may be 64 rules, with 4,096 names in all.
        """
        ...


class UserDirectory(Protocol):
    """Names of users and groups. Called from a small pool of threads; thread-safe; may block."""

    def short(self, principal: str) -> str:
        """Return the user name of a Kerberos *principal*, by the cluster's ``auth_to_local``.

        '' means that no rule matches; then, as after an exception, access is denied.
        """
        ...

    def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*, empty if it is unknown; an exception denies access."""
        ...


class ScalingPolicy(Protocol):
    """Computes the wanted number of replicas. Pure and stateless: all input is in the view."""

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size that *fleet* should have, or None to keep its size."""
        ...


class SecretStore(Protocol):
    """Reads secrets by name, and may write them. Used in client processes only."""

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted; raises as `read` does."""
        ...

    def read(self, name: str) -> Secret:
        """Return one secret.

        Raises:
            NotFoundError: There is no secret of that name.
            ConfigError: The store has an unknown format, or the password is wrong; the message
                contains no value.
            ProviderError: The store did not answer.
        """
        ...

    def write(self, name: str, value: str) -> None:
        """Store *value* durably, in place of an older one.

        A concurrent reader sees the whole old store or the whole new one.

        Raises:
            ProviderError: The store is read-only.
        """
        ...


class Signal(Protocol):
    """Computes one number for the whole fleet from scraped metrics.

    It should be pure: a signal that measures the master's own machine has no meaning in a
    simulation. Called on the policy's thread, within its deadline.
    """

    def read(
        self,
        samples: Mapping[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]],
        window_s: float,
    ) -> Sample[float]:
        """Return the signal over the last *window_s* seconds.

        *samples* maps the id of each ready instance to its (monotonic seconds, metrics), oldest
        first; empty if it was not scraped recently. After an exception the signal is unknown.
        """
        ...
