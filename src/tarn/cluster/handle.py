"""`Cluster`: everything that can be asked of one fleet."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tarn import client as clients
from tarn import config
from tarn.cluster import event_query
from tarn.cluster.dry_run import dry_run
from tarn.cluster.ending import bring_down, never_served
from tarn.cluster.entries import reference
from tarn.cluster.environment import ClusterEnvironment, current_environment
from tarn.cluster.following import follow_events
from tarn.cluster.launch import bring_up
from tarn.cluster.link import Link
from tarn.cluster.lists import Decisions, Events, Instances, Status, Words
from tarn.cluster.looking import Looking
from tarn.cluster.serving import without_master
from tarn.cluster.waiting import Goal, wait_until
from tarn.domain import ClusterSpec, ClusterState
from tarn.errors import NotFoundError, TimedOutError, UnreachableError
from tarn.follow import FleetCall, Message, everywhere
from tarn.interfaces import ClusterRef, Deployer, Progress
from tarn.plain import not_empty, seconds

if TYPE_CHECKING:
    from tarn.client.awaiting import AioClient
    from tarn.client.blocking import HttpClient
    from tarn.client.streaming import GrpcClient

__all__ = ["Cluster"]

Hear = Callable[[Progress], None]


def _unheard(_progress: Progress) -> None:
    """Nobody listens."""


class Cluster(Looking):
    """One fleet of Triton instances, and its master.

    A cluster outlives this object: `detach`, the end of the process or of the notebook leave it
    running, and `connect` finds it again. Only `down` ends it; as a context manager the object
    ends what it started itself, and nothing else::

        cluster = tarn.Cluster("tarn.yaml", replicas={"min": 2}).up()
        cluster.wait(ready=2, timeout="5m")

    Args:
        source: Path of a ``tarn.yaml``, a mapping of the same shape, or None: only *overrides*.
        aliases: Values of the options of the Java TARN, by long name (``min-instances``).
        environment: Environment, clock and plugins; None: those of this process.
        overrides: Keys of the spec; they win over *source* and the environment.

    Raises:
        ConfigErrors: What was written cannot be meant; every error at once.
    """

    def __init__(
        self,
        source: str | Path | Mapping[str, object] | None = "tarn.yaml",
        *,
        aliases: Mapping[str, object] | None = None,
        environment: ClusterEnvironment | None = None,
        **overrides: object,
    ) -> None:
        around = environment or current_environment()
        loaded = config.load(
            Path(source) if isinstance(source, str) else source,
            arguments=overrides,
            aliases=aliases or {},
            environ=around.environ,
            plugins=around.plugins(),
        )
        self._begin(loaded.spec.name, loaded.spec, around, loaded)

    @classmethod
    def named(
        cls,
        name: str,
        environment: ClusterEnvironment | None = None,
        deployer: Deployer | None = None,
    ) -> Self:
        """Return the object of a cluster that was started before; asks nobody.

        *deployer* is who knows it; None: that of the spec which is kept here.
        """
        cluster = cls.__new__(cls)
        not_empty(name, "cluster")
        cluster._begin(name, None, environment or current_environment())  # noqa: SLF001 (its own constructor)
        if deployer is not None:
            cluster._link = Link(name, cluster._environment, lambda: deployer)  # noqa: SLF001
        return cluster

    def _begin(
        self,
        name: str,
        spec: ClusterSpec | None,
        around: ClusterEnvironment,
        loaded: config.LoadedSpec | None = None,
    ) -> None:
        self._name = name
        self._spec = spec
        self._environment = around
        self._notes = loaded.notes if loaded else ()
        self._origins: Mapping[str, str] = loaded.origins if loaded else {}
        self._given_token = loaded.api_token if loaded else None
        self._started = False
        self._ref: ClusterRef | None = None
        self._hear: Hear = _unheard
        self._link = Link(name, around, self._deployer)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._name

    @property
    def notes(self) -> tuple[str, ...]:
        """What the configuration was accepted with, a line each."""
        return self._notes

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for; of a cluster found by name, what its master was started with."""
        if self._spec is None:
            path = self._directory / "spec.yaml"
            if not path.is_file():
                raise NotFoundError(
                    f"this machine does not know a cluster '{self._name}'",
                    next_step="`tarn status` lists the known clusters",
                )
            self._spec = config.load(path, environ={}).spec
        return self._spec

    @property
    def url(self) -> str | None:
        """Where the master's API was last found; None before anything was asked."""
        return self._link.url or (self._ref.url if self._ref else None)

    @property
    def started_here(self) -> bool:
        """Whether this object started the cluster (and so ends it, as a context manager)."""
        return self._started

    @property
    def started_at(self) -> float | None:
        """Wall time (Unix seconds) of the start; None before `up`."""
        return self._ref.started_at if self._ref else None

    @property
    def _directory(self) -> Path:
        return self._environment.paths.cluster(self._name)

    def _deployer(self) -> Deployer:
        runtime = self.spec.runtime
        return self._environment.deployer(runtime.use, runtime.options, self._hear)

    # --- life ---

    def plan(self) -> Mapping[str, Any]:
        """Return what `up` would do: spec and origins, commands, environment, ask, files, findings.

        Starts nothing and writes nothing; secrets are masked.
        """
        return dry_run(self.spec, self._origins, self._environment, self._deployer())

    def up(self, progress: Hear | None = None) -> Self:
        """Start the cluster, or attach to the one that runs with an equal spec; does not `wait`.

        A failed one that never served is replaced.

        Args:
            progress: Hears of each phase; None: nobody.

        Raises:
            ConfigErrors: The spec or the model repository cannot work; nothing was started.
            LaunchError: The surroundings lack something, or the master did not come up.
            TarnError: It runs with another spec (code TARN-2102, with the difference).
        """
        self._hear = progress or _unheard
        if never_served(self._link):
            self._hear(
                Progress("preflight", "the last start failed before it served, and was ended")
            )
            self.down(progress=self._hear)
        deployer, given = self._link.deployer, self._given_token
        outcome = bring_up(self.spec, self._environment, deployer, self._hear, given)
        self._started, self._ref = outcome.started, outcome.ref
        return self

    def wait(
        self,
        ready: int | None = None,
        timeout: str | float = "5m",
        progress: Hear | None = None,
        *,
        state: str | None = None,
    ) -> Self:
        """Return once *ready* instances serve (None: as many as desired), or *state* is reached.

        Args:
            ready: How many instances must be in the view.
            timeout: A duration (``5m``), or seconds.
            progress: Hears what is waited for.
            state: A cluster state to wait for instead of a number.

        Raises:
            TimedOutError: It did not come to that in time; the message says why.
            TarnError: The cluster failed; the message has Triton's own line.
        """
        goal = Goal(ready, None if state is None else ClusterState(state))
        limit_s = seconds(timeout)
        wait_until(goal, self._link, self._environment, limit_s, progress or _unheard)
        return self

    def down(self, timeout: str | float = "15m", progress: Hear | None = None) -> str:
        """End the cluster: withdraw, drain, stop, leave nothing but logs. Idempotent.

        Returns:
            What was done, in words: ended, ended by force, or not running.

        Raises:
            TimedOutError: It still drains after *timeout*; it goes on ending by itself.
            UnreachableError: Something is kept of it here, but not how its runtime is asked.
        """
        limit_s = seconds(timeout)
        try:
            _ = self._link.deployer
        except NotFoundError as error:
            if reference(self._directory) is None:
                return f"cluster '{self._name}' is not running"
            raise UnreachableError(
                "its runtime cannot be asked: its spec.yaml is not on this machine",
                where=self._name,
                next_step="Run `tarn down` where its tarn.yaml is, or with the TARN_HOME that "
                "started it.",
            ) from error
        done = bring_down(self._link, self._environment, limit_s, progress or _unheard)
        self._started = False
        self._link.close()
        return done

    def detach(self) -> None:
        """Let go: the fleet goes on, and `down` ends it. Idempotent."""
        self._started = False
        self._link.close()

    close = detach

    def __enter__(self) -> Self:
        """Bring the cluster up, unless that was done."""
        return self if self._ref is not None else self.up()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what this object started; let go of what it only attached to."""
        if self._started:
            self.down()
        else:
            self.detach()

    # --- inference ---

    @property
    def source(self) -> Link:
        """The way to the master, for a client that follows the view by itself."""
        return self._link

    def client(self, **options: Any) -> "HttpClient":
        """Return a client with the methods of ``tritonclient.http``, balanced per request.

        It follows the view, and outlives this object; close it, or use it as a context manager.

        Args:
            options: Fields of `tarn.client.ClientOptions`, like ``wait_s=5``.

        Raises:
            ProviderMissingError: tritonclient is not installed.
            TarnError: The master does not answer.
        """
        return clients.http(self._link, **options)

    def aio_client(self, **options: Any) -> "AioClient":
        """Return a client with the coroutines of ``tritonclient.http.aio``."""
        return clients.aio(self._link, **options)

    def grpc_client(self, **options: Any) -> "GrpcClient":
        """Return a client that infers and streams over gRPC."""
        return clients.grpc(self._link, **options)

    # --- size and upkeep ---

    def scale(self, replicas: int | None) -> Mapping[str, Any]:
        """Set the size by hand, over restarts, until `adapt`; None gives it back to the policy.

        Raises:
            RefusedError: It is outside the limits; the message gives them.
        """
        if replicas is None:
            return self.adapt()
        return self._link.ask(lambda api: api.scale(replicas))

    def adapt(self, min: int | None = None, max: int | None = None) -> Mapping[str, Any]:  # noqa: A002
        """Give the size to the policy, between *min* and *max* (None: as they are)."""
        return self._link.ask(lambda api: api.adapt(min, max))

    def pause(self, duration: str | float, reason: str = "") -> Mapping[str, Any]:
        """Stop scaling decisions for *duration* (``30m``); dead instances are still replaced."""
        for_s = seconds(duration, "duration")
        return self._link.ask(lambda api: api.pause(for_s, reason))

    def resume(self) -> Mapping[str, Any]:
        """End a pause, thaw replacements, launch again after a halt."""
        return self._link.ask(lambda api: api.resume())

    def drain(self, instance: str, *, now: bool = False) -> Mapping[str, Any]:
        """Replace one instance: once another one serves what it serves (*now*: at once) it drains.

        A ``RefusedError`` says where there is no room for a replacement.
        """
        not_empty(instance, "instance")
        return self._link.ask(lambda api: api.drain(instance, now=now))

    # --- models and settings, at every instance ---

    def load_model(
        self,
        model: str,
        *,
        config: str | None = None,
        wait: str | float | None = "15m",
    ) -> Mapping[str, Any]:
        """Load *model* on every instance there is and will be; one that has it loads it again.

        Args:
            model: As in the model repository.
            config: A model configuration as JSON, in place of the repository's.
            wait: How long to wait until all in the view have it; None: do not.

        Returns:
            The call, with who has had it and who has not yet.

        Raises:
            RefusedError: Somebody refuses it, or their Tritons take no such calls; the error
                names each, with Triton's own words.
            TimedOutError: Somebody in the view has not had it in time; the master goes on.
        """
        parameters = {} if config is None else {"config": config}
        return self._call_all(everywhere.load(model, parameters), wait)

    def unload_model(
        self, model: str, *, dependents: bool = False, wait: str | float | None = "1m"
    ) -> Mapping[str, Any]:
        """Unload *model* on every instance, those that start later included; as `load_model`.

        With *dependents*, the models that an ensemble consists of are unloaded, too.
        """
        return self._call_all(everywhere.unload(model, dependents=dependents), wait)

    def update_trace_settings(
        self,
        model: str = "",
        settings: Mapping[str, object] | None = None,
        *,
        wait: str | float | None = "1m",
    ) -> Mapping[str, Any]:
        """Change trace settings on every instance, of *model* or of all; None unsets one."""
        return self._call_all(everywhere.trace_settings(settings or {}, model), wait)

    def update_log_settings(
        self, settings: Mapping[str, object], *, wait: str | float | None = "1m"
    ) -> Mapping[str, Any]:
        """Change log settings on every instance there is and will be."""
        return self._call_all(everywhere.log_settings(settings), wait)

    def control(self) -> Mapping[str, Any]:
        """Return which control calls are wanted, and who has had each: ``GET /api/v1/control``."""
        return self._link.read(lambda api: api.control())

    def _call_all(self, call: FleetCall, wait: str | float | None) -> Mapping[str, Any]:
        limit_s = None if wait is None else seconds(wait, "wait")
        number = int(self._link.ask(lambda api: api.call_all(call))["call"])

        def look(newest: int) -> Mapping[str, Any]:
            return self._link.read(lambda api: api.control(newest))

        if limit_s is not None:
            around = self._environment
            everywhere.wait_everywhere(number, look, around.clock, limit_s, around.rest)
        answer = look(number)
        rows = (*answer.get("calls", ()), *answer.get("over", ()))
        asked = {"call": number, "kind": call.verb, "model": call.body.get("model", "")}
        return next((row for row in rows if row["call"] == number), asked)  # a new master forgets

    # --- what is the case ---

    def status(self) -> Mapping[str, Any]:
        """Return name, state, reason, epoch, desired, ready, instances and more.

        When no master is at work but instances serve, the state is ``degraded`` and the reason
        says so. Of a cluster that is over the state is ``stopped`` or ``failed``, as long as its
        runtime remembers it.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: There is one, and it does not answer.
        """
        try:
            return Status(self._link.read(lambda api: api.status()))
        except (UnreachableError, TimedOutError, NotFoundError) as error:
            return Status(without_master(self._link, self._directory, error))

    def instances(self) -> tuple[Mapping[str, Any], ...]:
        """Return what is known of each instance that is alive, by id."""
        return Instances(self.status()["instances"])

    def events(
        self,
        *,
        since: str | float | None = None,
        severity: str = "info",
        subject: str | Sequence[str] = (),
    ) -> tuple[Mapping[str, Any], ...]:
        """Return what happened, oldest first; equal things are counted, not repeated.

        Where no master answers, or the cluster is over, it is what its masters wrote down.

        Args:
            since: Only events since then: a duration (``10m``) or a time of ISO 8601.
            severity: Minimum severity: ``info``, ``warning``, ``alert``.
            subject: Only what is about this instance or provider, or these; ``*`` stands for any
                characters.
        """
        now_at = self._environment.clock.at()
        wanted = event_query.parse_event_query(since, severity, subject, now_at=now_at)
        rows: Sequence[Mapping[str, Any]]
        try:
            rows = self._link.read(lambda api: api.events())
        except (NotFoundError, UnreachableError, TimedOutError) as error:
            rows = event_query.stored_events(self._directory, self.logs, error)
        return Events(filter(wanted.takes, rows))

    def decisions(self) -> tuple[Mapping[str, Any], ...]:
        """Return the last decisions about the size, oldest first, each with its reason."""
        return Decisions(self._link.read(lambda api: api.decisions()))

    def follow(self, stop: threading.Event, **wanted: Any) -> Iterator[Message]:
        """Yield what happened and happens, each once, until *stop* is set; a new master goes on.

        *wanted* are the arguments of `events`.
        """
        chosen = event_query.parse_event_query(now_at=self._environment.clock.at(), **wanted)
        for message in follow_events(self._link, self._environment, stop):
            if message.event != "event" or chosen.takes(message.data):
                yield message

    def why(self, instance: str | None = None) -> str:
        """Return a sentence for each thing that is not as desired, a line each, with what to do.

        Raises:
            NotFoundError: *instance* is unknown.
        """
        return Words("\n".join(map(str, self.causes(instance))))

    def __repr__(self) -> str:
        """Return name and address; never a secret."""
        runtime = self._spec.runtime.use if self._spec else ""
        parts = (f"runtime={runtime!r}" if runtime else "", f"url={self.url!r}" if self.url else "")
        said = "".join(f", {part}" for part in parts if part)
        return f"Cluster({self._name!r}{said})"
