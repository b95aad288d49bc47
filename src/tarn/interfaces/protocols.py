"""The Protocols: what a provider must do, on which thread, and what it may not do."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

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
    "Authorizer",
    "CeilingSource",
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
        """Return everything that is known now; never blocks.

        At most one `Pending`, `Running` or `Ended` for an instance, and next to `Running` at most
        one `StubEnded`, where the runtime sees the processes of Python models.
        """
        ...

    def heard_s(self) -> float:
        """Return the monotonic second of the last answer from whoever grants containers.

        Never blocks. Asked in every tick of the control thread, also while nothing is applied.

        Raises:
            Superseded: The one who grants containers said that a newer master is at work.
            PluginError: An error of the runtime's own ended its work. The master ends, the fleet
                stays, and another master follows.
        """
        ...

    def warnings(self) -> tuple[str, ...]:
        """Return what a person should know about the runtime now, a line each. Never blocks."""
        ...

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the last *lines* lines of what an instance wrote to standard error.

        Blocks for a few seconds at most; asked on a thread of its own, like all others, with a
        deadline, so it must be thread-safe. It need not reach further back than a mebibyte.

        Raises:
            NotFoundError: There is no log of an instance of this id, whatever the id holds.
            ProviderError: The keeper of the log does not answer, or refuses it.
        """
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
        """Yield the last *tail* lines (None: all) of one instance's log; '' is the master's.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids of the instances that have a log, sorted; also of those that ended.

        What is over for long, or was collected in a way that cannot be told any more, may be left
        out.
        """
        ...


@runtime_checkable
class Uploader(Protocol):
    """What a `Deployer` also is where its machines read files from somewhere else than here."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        """Copy a file to *uri*; nobody ever sees a part of it.

        Returns:
            The whole URI, and whether a file of this size was there already: then nothing is
            copied.

        Raises:
            RefusedError: Another file is there.
            ProviderError: It cannot be written.
        """
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

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Keep *data* for masters to come, in place of what was kept as *name*; all of it or none.

        Nothing depends on it, unlike on the state. It goes with the cluster. For one thread of its
        own, next to the state thread.

        Args:
            name: Lower-case letters.
            data: As it is given back.
            epoch: Of this master.

        Raises:
            Superseded: A higher epoch has kept something as *name*, or a newer master is at work.
            ProviderError: It was not taken; what was kept before stays.
        """
        ...

    def kept(self, name: str) -> bytes | None:
        """Return what was kept last as *name*; None: nothing was.

        Raises:
            ProviderError: It cannot be read; ``retry_after_s`` says whether it may be later.
        """
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

    def reach(self, within_s: float) -> None:
        """Make sure that the outside world answers; asked once, before the first view.

        Raises:
            DiscoveryError: It could not be reached within *within_s* seconds.
        """
        ...

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view*. On the worker; idempotent; refuses a lower epoch.

        An incomplete view adds, and removes nothing. Raises ``DiscoveryError`` to be tried again.
        """
        ...

    def applied(self) -> Applied | None:
        """Return the last acknowledged view; None before the first. Never blocks.

        Raises:
            Superseded: A newer master has published; the master that asks leaves.
        """
        ...

    def close(self, *, withdraw: bool) -> None:
        """Leave; with *withdraw* nothing published stays. Idempotent, returns within a second."""
        ...


class Authorizer(Protocol):
    """Says who may do what. Called on a small pool; must be thread-safe.

    The actions are those of `tarn.domain.access`: on a model, or (with the model ``""``) on the
    fleet.
    """

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Answer within the deadline of the caller; an exception or a late answer is a no."""
        ...

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Answer for each of *models*, in their order: what a list shows to somebody."""
        ...

    def ready(self) -> Readiness:
        """Say whether checks can be answered at all; shown in ``/health``. Never blocks."""
        ...

    def close(self) -> None:
        """Leave: write what an audit has not written yet. Idempotent, returns within a second."""
        ...


class UserDirectory(Protocol):
    """How a cluster calls people. Asked on a small pool; must be thread-safe, and may block."""

    def short(self, principal: str) -> str:
        """Return the user's name of a Kerberos *principal*, by the cluster's ``auth_to_local``.

        Empty: no rule makes a name of it, so it may not come in. An exception is a no, too.
        """
        ...

    def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*; none of somebody unknown. An exception is a no."""
        ...


class ScalingPolicy(Protocol):
    """Wants a number of replicas. Pure and stateless: everything is in the view."""

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size that *fleet* should have, or None to keep it. Same input, same answer."""
        ...


class SecretStore(Protocol):
    """Reads, and where it can writes, secrets by name. Made and used in a client process only."""

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted; raises like `read`."""
        ...

    def read(self, name: str) -> Secret:
        """Return one secret; ``NotFoundError`` when there is none of that name.

        Raises:
            ConfigError: The store is none, or of a kind that cannot be read, or the password is
                wrong: in words that name no value.
            ProviderError: It did not answer.
        """
        ...

    def write(self, name: str, value: str) -> None:
        """Store *value* durably, in place of an older one; other names keep theirs.

        Everybody who reads meanwhile sees the old store or the new one. ``ProviderError`` where the
        store is read-only.
        """
        ...


class Signal(Protocol):
    """Makes one number for the whole fleet from what was scraped. Pure.

    One that measures the master's own machine is not, and means nothing in a simulation. On the
    policy's thread, within its deadline.
    """

    def read(
        self,
        samples: Mapping[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]],
        window_s: float,
    ) -> Sample[float]:
        """Return the signal over the last *window_s* seconds.

        *samples* maps the id of each ready instance to (monotonic seconds, metrics), oldest first;
        to nothing while it has not been read, or only long ago. An exception is Unknown.
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
