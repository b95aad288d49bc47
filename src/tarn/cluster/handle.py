"""`Cluster`: the user's object for one fleet. Its methods delegate to the modules next to it."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from tarn import client as clients
from tarn import config
from tarn.cluster.entries import kept_spec
from tarn.cluster.environment import ClusterEnvironment, current_environment, unheard
from tarn.cluster.explain import explain
from tarn.cluster.inspection import Inspection
from tarn.cluster.link import Link
from tarn.cluster.monitoring import metrics_rows, metrics_text
from tarn.cluster.operate.ending import NEVER_SERVED, bring_down, never_served
from tarn.cluster.operate.updating import (
    UpdatePlan,
    plan_update,
    raise_if_undone,
    update,
    wait_for_update,
)
from tarn.cluster.operate.verifying import VerifyOptions, VerifyReport, verify
from tarn.cluster.operate.waiting import Goal, call_everywhere, wait_until
from tarn.cluster.operate.watching import Screen, Watch, news_of, screen
from tarn.cluster.read import card, records, results
from tarn.cluster.read.dashboard import Address, dashboard_link
from tarn.cluster.read.events import follow_events, known_events, parse_event_query
from tarn.cluster.read.frames import Plot
from tarn.cluster.read.logs import ClusterLogs, LogLine
from tarn.cluster.read.masterless import read_status
from tarn.cluster.read.table import cluster_table
from tarn.cluster.start.launch import bring_up, dry_run
from tarn.domain import Choice, ClusterSpec, ClusterState, Issue
from tarn.errors import NotFoundError, TarnError
from tarn.follow import FleetCall, MasterApi, Message, everywhere
from tarn.interfaces import ClusterRef, Deployer, Progress
from tarn.plain import did_you_mean, not_empty
from tarn.plain import seconds as span_of

if TYPE_CHECKING:
    from tarn.client.awaiting import AioClient
    from tarn.client.blocking import HttpClient
    from tarn.client.streaming import GrpcClient
    from tarn.cluster.examining import Diagnosis
    from tarn.cluster.simulated import Run

__all__ = ["Cluster"]

Hear = Callable[[Progress], None]
Settings = Mapping[str, object]
# A duration such as ``5m``, or seconds.
Span = str | float


class Cluster:
    """One fleet of Triton instances, and its master.

    A cluster outlives this object: it runs on after `detach` or the end of the process, and
    `connect` finds it again. Only `down` ends it; used as a context manager, the object ends a
    cluster that it started itself, and no other::

        cluster = tarn.Cluster("tarn.yaml", replicas={"min": 2}).up()
        cluster.wait(ready=2, timeout="5m")

    Args:
        source: Path of a ``tarn.yaml``, a mapping of the same shape, or None: only *overrides*.
        aliases: Values of the Java TARN's options, by long name (``min-instances``).
        environment: Environment, clock and plugins; None: those of this process.
        overrides: Keys of the spec; they take precedence over *source* and the environment.

    Raises:
        ConfigErrors: The configuration is invalid; every error at once.
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
        self._begin(loaded.spec.name, around, loaded)

    @classmethod
    def named(
        cls,
        name: str,
        environment: ClusterEnvironment | None = None,
        deployer: Deployer | None = None,
    ) -> Self:
        """Return the object of a cluster that was started before, without any request.

        *deployer* is the one that knows it; None: the one of the spec that is kept here.
        """
        cluster = cls.__new__(cls)
        not_empty(name, "cluster")
        cluster._begin(name, environment or current_environment())  # noqa: SLF001 (its own constructor)
        if deployer is not None:
            cluster._link = Link(name, cluster._environment, lambda: deployer)  # noqa: SLF001
        return cluster

    def _begin(
        self, name: str, around: ClusterEnvironment, loaded: config.LoadedSpec | None = None
    ) -> None:
        self._name, self._environment = name, around
        self._spec = loaded.spec if loaded else None
        self._notes = loaded.notes if loaded else ()
        self._origins: Mapping[str, str] = loaded.origins if loaded else {}
        self._given_token = loaded.api_token if loaded else None
        self._started = False
        self._ref: ClusterRef | None = None
        self._hear: Hear = unheard
        self._state = ""  # the last known one, for `repr`, which makes no request
        self._link = Link(name, around, self._deployer)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._name

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the accepted configuration, a line each."""
        return self._notes

    @property
    def spec(self) -> ClusterSpec:
        """The spec; for a cluster found by name, the one with which it was started."""
        if self._spec is None:
            self._spec = kept_spec(self._directory)
        return self._spec

    @property
    def url(self) -> str | None:
        """The last known address of the master's API; None before the first request."""
        return self._link.url or (self._ref.url if self._ref else None)

    @property
    def started_here(self) -> bool:
        """Whether this object started the cluster (and ends it, as a context manager)."""
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

    def plan(self) -> records.StartPlan:
        """Return what `up` would do, with secrets masked; starts and writes nothing."""
        plan = dry_run(self.spec, self._origins, self._environment, self._deployer())
        return records.StartPlan.from_answer(plan)

    def up(self, progress: Hear | None = None) -> Self:
        """Start the cluster, or attach to the one that runs with an equal spec; does not `wait`.

        A cluster that failed before it ever served is replaced. *progress* is called with each
        phase.

        Raises:
            ConfigErrors: The spec or the model repository cannot work; nothing was started.
            LaunchError: Something is missing around the spec, or the master did not start.
            TarnError: It runs with another spec (code TARN-2102, with the difference).
        """
        self._hear = progress or unheard
        if never_served(self._link):
            self._hear(Progress("preflight", NEVER_SERVED))
            self.down(progress=self._hear)
        deployer, given = self._link.deployer, self._given_token
        outcome = bring_up(self.spec, self._environment, deployer, self._hear, given)
        self._started, self._ref = outcome.started, outcome.ref
        return self

    def wait(
        self,
        ready: int | None = None,
        timeout: Span = "5m",
        progress: Hear | None = None,
        *,
        state: str | None = None,
    ) -> Self:
        """Return once *ready* instances serve (None: as many as desired), or *state* is reached.

        *progress* is called with what is still missing.

        Raises:
            TimedOutError: The goal was not reached in time; the message says why.
            TarnError: The cluster failed; the message quotes Triton.
        """
        goal = Goal(ready, None if state is None else ClusterState(state))
        wait_until(goal, self._link, self._environment, span_of(timeout), progress or unheard)
        return self

    def down(self, timeout: Span = "15m", progress: Hear | None = None) -> str:
        """End the cluster: drain and stop every instance, keep only the logs. Idempotent.

        Returns a sentence that says whether it ended, was ended by force, or was not running.

        Raises:
            TimedOutError: The cluster still drains after *timeout*, and will end by itself.
            UnreachableError: This machine knows the cluster, but has no spec to reach its runtime.
        """
        done = bring_down(self._link, self._environment, span_of(timeout), progress or unheard)
        self._started = False
        self._link.close()
        return done

    def detach(self) -> None:
        """Close the connections; the fleet runs on until `down`. Idempotent."""
        self._started = False
        self._link.close()

    close = detach

    def __enter__(self) -> Self:
        """Bring the cluster up, unless that was done."""
        return self if self._ref is not None else self.up()

    def __exit__(self, *_exc: object) -> None:
        """End a cluster that this object started; detach from any other."""
        if self._started:
            self.down()
        else:
            self.detach()

    # --- updates ---

    def plan_update(self) -> UpdatePlan:
        """Return what `update` would do with each key that differs; changes nothing.

        A repository that is copied may have another content, too, which only `update` finds out.
        """
        return plan_update(self.spec, self._link)

    def update(self, progress: Hear | None = None) -> records.CommandAnswer:
        """Bring the running cluster to this object's spec and the present models; does not wait.

        Instances that it changes are replaced, a few at a time (``update.surge``,
        ``update.max_unavailable``); the first one that fails undoes the update.

        Raises:
            ConfigErrors: A key changed that cannot change while the cluster runs; each is named.
            RefusedError: Another update is on its way.
        """
        answer = update(self.spec, self._link, self._environment, progress or unheard)
        return records.CommandAnswer.from_answer(answer)

    def wait_for_update(
        self, timeout: Span = "1h", progress: Hear | None = None, *, undone: bool = False
    ) -> Self:
        """Return once no update is on its way; with *undone*, also if it was rolled back.

        Raises:
            TarnError: The newest one was rolled back (code TARN-1184); the message says why.
            TimedOutError: It is still on its way.
        """
        hear = progress or unheard
        ended = wait_for_update(self._link, self._environment, span_of(timeout), hear)
        if not undone:
            raise_if_undone(ended, self._name)
        return self

    def hold_update(self, *, paused: bool = True) -> records.CommandAnswer:
        """Replace no further instance; with ``paused=False``, go on."""
        return self._command(lambda api: api.hold_update(paused=paused))

    def rollback(self) -> records.CommandAnswer:
        """Undo the newest update, whether it is on its way or done; does not wait.

        Raises:
            RefusedError: There is no earlier spec.
        """
        status = self._link.read(lambda api: api.status())
        newest = status.get("updating") or status.get("last_update") or {}
        return self._command(lambda api: api.rollback(newest.get("number")))

    # --- inference ---

    @property
    def source(self) -> Link:
        """The connection to the master, for a client that follows the view by itself."""
        return self._link

    def client(self, **options: Any) -> "HttpClient":
        """Return a client with the methods of ``tritonclient.http``, balanced per request.

        It follows the view, and outlives this object; close it, or use it as a context manager.
        *options* are fields of `tarn.client.ClientOptions`, like ``wait_s=5``.

        Raises:
            TarnError: tritonclient is not installed, or the master does not answer.
        """
        return clients.http(self._link, **options)

    def aio_client(self, **options: Any) -> "AioClient":
        """Return a client with the coroutines of ``tritonclient.http.aio``."""
        return clients.aio(self._link, **options)

    def grpc_client(self, **options: Any) -> "GrpcClient":
        """Return a client that infers and streams over gRPC."""
        return clients.grpc(self._link, **options)

    # --- size and upkeep ---

    def scale(self, replicas: int | None) -> records.CommandAnswer:
        """Set the size by hand until `adapt`, also over restarts; None: let the policy choose.

        Raises:
            RefusedError: The size is outside the limits, which the message gives.
        """
        return self.adapt() if replicas is None else self._command(lambda api: api.scale(replicas))

    def adapt(self, min: int | None = None, max: int | None = None) -> records.CommandAnswer:  # noqa: A002
        """Let the policy choose the size between *min* and *max* (None: unchanged)."""
        return self._command(lambda api: api.adapt(min, max))

    def pause(self, duration: Span, reason: str = "") -> records.CommandAnswer:
        """Stop scaling decisions for *duration* (``30m``); dead instances are still replaced."""
        for_s = span_of(duration, "duration")
        return self._command(lambda api: api.pause(for_s, reason))

    def resume(self) -> records.CommandAnswer:
        """End a pause, allow replacements again, and launch again after a halt."""
        return self._command(lambda api: api.resume())

    def drain(self, instance: str, *, now: bool = False) -> records.CommandAnswer:
        """Replace one instance: it drains once another serves its models (*now*: at once).

        Raises:
            RefusedError: There is no room for a replacement.
        """
        not_empty(instance, "instance")
        return self._command(lambda api: api.drain(instance, now=now))

    def _command(self, command: Callable[[MasterApi], Mapping[str, Any]]) -> records.CommandAnswer:
        return records.CommandAnswer.from_answer(self._link.ask(command))

    # --- models and settings, at every instance ---

    def load_model(
        self, model: str, *, config: str | None = None, wait: Span | None = "15m"
    ) -> records.CallStatus:
        """Load *model* on every present and future instance, again where it is loaded already.

        Args:
            model: Its name in the model repository.
            config: A model configuration as JSON, in place of the repository's.
            wait: How long to wait until every instance in the view has it; None: do not wait.

        Raises:
            RefusedError: An instance refuses it, or does not accept such calls; the error names
                each one, with Triton's message.
            TimedOutError: An instance in the view does not have it in time; the master continues.
        """
        parameters = {} if config is None else {"config": config}
        return self._call_all(everywhere.load(model, parameters), wait)

    def unload_model(
        self, model: str, *, dependents: bool = False, wait: Span | None = "1m"
    ) -> records.CallStatus:
        """Unload *model* on every present and future instance; raises as `load_model` does.

        With *dependents*, also unload the models of which an ensemble consists.
        """
        return self._call_all(everywhere.unload(model, dependents=dependents), wait)

    def update_trace_settings(
        self, model: str = "", settings: Settings | None = None, *, wait: Span | None = "1m"
    ) -> records.CallStatus:
        """Change trace settings of *model* or of all, everywhere; the value None unsets one."""
        return self._call_all(everywhere.trace_settings(settings or {}, model), wait)

    def update_log_settings(
        self, settings: Settings, *, wait: Span | None = "1m"
    ) -> records.CallStatus:
        """Change log settings on every present and future instance."""
        return self._call_all(everywhere.log_settings(settings), wait)

    def control(self) -> records.CallsAnswer:
        """Return the control calls and their progress, as ``GET /api/v1/control`` does."""
        return records.CallsAnswer.from_answer(self._link.read(lambda api: api.control()))

    def _call_all(self, call: FleetCall, wait: Span | None) -> records.CallStatus:
        limit_s = None if wait is None else span_of(wait, "wait")
        return records.CallStatus.from_answer(
            call_everywhere(self._link, self._environment, call, limit_s)
        )

    # --- state ---

    def status(self) -> records.Status:
        """Return name, state, reason, epoch, desired, ready, instances and more.

        If instances serve without a master, the state is ``degraded`` and the reason says so.
        After its end, a cluster's state is ``stopped`` or ``failed``, as long as its runtime
        remembers it.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: The cluster does not answer.
        """
        status = records.Status.from_answer(read_status(self._link, self._directory))
        self._state = status.state
        return status

    def instances(self) -> results.Instances:
        """Return the status of each live instance, by id."""
        return results.Instances(self.status().instances)

    def events(
        self,
        *,
        since: Span | None = None,
        severity: str = "info",
        subject: str | Sequence[str] = (),
    ) -> results.Events:
        """Return the events, oldest first; equal ones are one row with a count.

        If no master answers, they are read from the files that masters wrote.

        Args:
            since: Only events since then: a duration (``10m``) or a time of ISO 8601.
            severity: Minimum severity: ``info``, ``warning``, ``alert``.
            subject: Only events about this instance or provider, or these; ``*`` matches any
                characters.
        """
        now_at = self._environment.clock.at()
        wanted = parse_event_query(since, severity, subject, now_at=now_at)
        rows = known_events(self._link, self._directory, self.logs)
        return results.Events.read(filter(wanted.takes, rows))

    def decisions(self) -> results.Decisions:
        """Return the last decisions about the size, oldest first, each with its reason."""
        return results.Decisions.read(self._link.read(lambda api: api.decisions()))

    def follow(self, stop: threading.Event, **wanted: Any) -> Iterator[Message]:
        """Yield past and new events, each once, until *stop* is set; follows a new master.

        *wanted* are the arguments of `events`.
        """
        chosen = parse_event_query(now_at=self._environment.clock.at(), **wanted)
        for message in follow_events(self._link, self._environment, stop):
            if message.event != "event" or chosen.takes(message.data):
                yield message

    def why(self, instance: str | None = None) -> str:
        """Return a line for each thing that is not as desired, with what to do.

        Raises as `causes` does.
        """
        return results.Words("\n".join(map(str, self.causes(instance))))

    def causes(self, instance: str | None = None) -> tuple[Issue, ...]:
        """Return the lines of `why` as records: subject, finding, next step, code.

        Raises:
            NotFoundError: *instance* is unknown.
        """
        status = self.status()
        found = explain(status, instance)
        if not found:
            ids = [item.id for item in (*status.instances, *status.ended)]
            raise NotFoundError(
                f"cluster '{self.name}' has no instance '{instance}'",
                next_step=did_you_mean(instance, ids) or "`tarn status` lists them.",
            )
        return found

    def explain(self) -> records.Explanation:
        """Return why the size is what it is: signals, the policy's wish, and its limits.

        It has the fields of ``GET /api/v1/scaling``; printed, it is a sentence and two tables.
        Raises as `status` does.
        """
        return records.Explanation.from_answer(self._link.read(lambda api: api.scaling()))

    def dashboard(self) -> Address:
        """Return the address of the cluster's dashboard; a notebook shows a link.

        If the cluster has an api token, the address signs in with its rights, once, within a
        minute. Raises as `status` does.
        """
        return dashboard_link(self._link)

    # --- long operations ---

    def watch(
        self,
        until: str | int | None = None,
        timeout: Span | None = None,
        *,
        on: Screen | None = None,
    ) -> None:
        """Show the cluster as it changes, until it is gone or *until* is reached.

        The view is redrawn in place in a terminal or a notebook's cell; elsewhere a line is
        printed at each change. An interrupt ends it.

        Args:
            until: ``ready=3`` (or 3), ``state=stopped``; None: until an interrupt.
            timeout: A duration (``5m``) or seconds; None: no limit.
            on: Where to show it; None: the terminal, cell or output of this process.

        Raises:
            TimedOutError: *until* was not reached in time.
        """
        clock = self._environment.clock
        limit_s = None if timeout is None else span_of(timeout)
        goal = None if until is None else Goal.of(until)
        # Events are followed in another thread, which needs its own connection.
        link = Link(self.name, self._environment, self._deployer)
        with (
            contextlib.closing(on or screen()) as shown,
            contextlib.suppress(KeyboardInterrupt),
            news_of(link, self._environment) as news,
        ):
            Watch(self.status, lambda: self.url, clock, news).run(shown, goal, limit_s)

    def verify(  # noqa: PLR0913 (one for each option)
        self,
        rps: float = 20.0,
        seconds: Span = 30.0,
        models: Sequence[str] = (),
        *,
        body: bytes | None = None,
        timeout: Span = 10.0,
        slow: Span = 1.0,
        progress: Hear | None = None,
    ) -> VerifyReport:
        """Send canary inferences directly to the ready instances, and report the result.

        They are sent open loop: a slow answer delays no other request. Changes of the view are
        followed within a second.

        Args:
            rps: Requests per second, over all instances and models.
            seconds: How long to send: seconds, or a duration (``30s``).
            models: Which models; empty: each that is READY.
            body: A JSON inference request to send; None: one made from the model's metadata,
                every input zero, dynamic dimensions 1. With it, exactly one model.
            timeout: A later answer counts as lost.
            slow: A later answer counts as slow.
            progress: Called with how many were sent and lost.

        Raises:
            NotFoundError: No such cluster, or no such model in it.
            UnreachableError: No instance is ready.
        """
        order = VerifyOptions(
            rps, span_of(seconds), tuple(models), body, span_of(timeout), span_of(slow)
        )
        return verify(self.name, self.status, order, self._environment.clock, progress)

    def replay(
        self,
        frame: Any,
        policy: str | None = None,
        options: Mapping[str, object] | None = None,
        **assumed: object,
    ) -> "Run":
        """Simulate a policy under a load, without starting or asking anything.

        It runs the master's code with the limits of this spec; only the instances are modelled.
        A notebook shows the result as a drawing; ``pandas.DataFrame(run.columns())`` makes a
        frame of it.

        Args:
            frame: Requests per second over time: anything with the columns ``t_s`` and
                ``requests_per_s`` (a pandas frame, a mapping), the path of such a CSV file, or a
                generated load such as ``daily:1``.
            policy: ``target``, ``hpa``, ...; None: the one of the spec.
            options: Options of the policy.
            assumed: Assumptions about the instances: the keys of ``tarn simulate --world``, with
                units as in the spec, like ``start="45s"``, ``slots=8``.

        Raises:
            ConfigError: The load, the options or the assumptions are invalid.
            ProviderMissingError: There is no such policy.
        """
        chosen = Choice(policy or self.spec.scaling.use, options or {})
        run = self._environment.plugins().replay(self.spec, frame, chosen, assumed)
        return cast("Run", run)

    def doctor(self, progress: Hear | None = None, *, probe: bool = False) -> "Diagnosis":
        """Check everything around the cluster, without submitting anything.

        It makes the checks of `up`, and more. A notebook shows the result as tables.

        Args:
            progress: Called with each check.
            probe: Also start something briefly: on YARN, a container for each node label.

        Raises:
            PluginError: Two plugins offer a check of the same name.
        """
        from tarn.cluster.examining import around_spec  # noqa: PLC0415 (seldom)

        return around_spec(self.spec, self._environment, progress, probe=probe)

    def support_bundle(
        self,
        path: str | Path | None = None,
        progress: Hear | None = None,
        *,
        log_mib: float = 2.0,
        with_names: bool = False,
    ) -> Path:
        """Collect diagnostics into one file, without secrets; return its path.

        The cluster need not answer, and may have ended. Look through the file before you share
        it: its README.txt says what it contains, and what was left out and why.

        Args:
            path: A new .tar.gz; None: named by cluster and time, in the current folder.
            progress: Called with each step.
            log_mib: How much of the end of each log to include.
            with_names: Keep the names of people and machines.

        Raises:
            RefusedError: The file exists already.
            TarnError: It cannot be written, would contain a secret, or no plugin makes bundles.
        """
        subject = Inspection.of(self, self._environment, progress or unheard)
        target, plugins = None if path is None else Path(path), self._environment.plugins()
        return plugins.support_bundle(subject, target, log_mib, with_names=with_names)

    # --- logs ---

    def logs(self, instance: str = "", tail: int | None = None) -> Iterator[str]:
        """Yield the last *tail* lines (None: all) of an instance's log; '' is the master's.

        Raises:
            NotFoundError: There is no such cluster, or no log of that instance.
        """
        return self._logs.lines(instance, tail)

    def follow_logs(self, instance: str = "", tail: int | None = None) -> Iterator[str]:
        """Yield lines as `logs` does, then new ones, until the cluster is over.

        Lines that cannot be read at the moment are yielded later.
        """
        return self._logs.follow(instance, tail)

    def logged(self) -> tuple[str, ...]:
        """Return the sources of logs: ``master``, and instances, some of which have ended."""
        return self._logs.sources()

    def log_lines(
        self,
        sources: Sequence[str] | None = None,
        *,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """Yield the lines of several logs in the order of their times.

        Args:
            sources: ``master`` and ids of instances; None: every log.
            since: Unix seconds; earlier lines are left out.
            tail: How many of the last lines, over all logs; None: all.

        Raises:
            NotFoundError: There is no such cluster, or none of the logs exists.
        """
        return self._logs.merge(sources, since, tail)

    def follow_log_lines(
        self,
        sources: Sequence[str] | None = None,
        *,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """Yield lines as `log_lines` does, then new ones, until the cluster is over.

        With *sources* None, instances that start meanwhile are included.
        """
        return self._logs.follow_merged(sources, since, tail)

    @property
    def _logs(self) -> ClusterLogs:
        return ClusterLogs(self._link, self._environment, self._ref)

    # --- measurements ---

    def metrics(self) -> results.Metrics:
        """Return every sample of ``/metrics``; ``.to_pandas()`` has a column for each label."""
        return results.Metrics.read(metrics_rows(metrics_text(self._link)))

    def history(self, since: Span = "3h") -> results.History:
        """Return a row for each step since then: sizes, load, queue, requests, latency.

        Steps are ten seconds for up to three hours, a minute for up to a day, ten minutes for up
        to two weeks. A new master continues the history. *since* is how far back to go.
        """
        path = f"/api/v1/history?since_s={span_of(since, 'since'):g}"
        return results.History.of(self.name, self._link.ask(lambda api: api.get(path)))

    def usage(self, since: Span = "24h") -> results.Usage:
        """Return the requests, failures and seconds of each instance and each model.

        ``request_s`` is the sum of the seconds from arrival to answer. ``instance_s`` is how long
        the instance had a process, or how long the model was READY, summed over instances.
        ``gpu_s`` is the same times the GPUs of an instance; the models of an instance share its
        GPUs, and each is counted with all of them. *since* is how far back to go, at most a week.
        Whole slots are summed: of ten minutes for up to a day, else of an hour.
        """
        path = f"/api/v1/usage?since_s={span_of(since, 'since'):g}"
        return results.Usage.of(self._link.ask(lambda api: api.get(path)))

    def alerts(self) -> results.Alerts:
        """Return the active alerts, newest first, then past ones; each with what to do."""
        return results.Alerts.read(self._link.ask(lambda api: api.get("/api/v1/alerts"))["alerts"])

    def plot(self, since: Span = "3h") -> Plot:
        """Return the `history` as a drawing; needs matplotlib."""
        return self.history(since).plot()

    # --- display ---

    def __repr__(self) -> str:
        """Return name, last known state and address, without any request."""
        runtime = self._spec.runtime.use if self._spec else None
        said = {"runtime": runtime, "state": self._state, "url": self.url}
        return f"Cluster({self._name!r}{''.join(f', {k}={v!r}' for k, v in said.items() if v)})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the cluster for a notebook, as text and as a card."""
        try:
            status = self.status()
        except TarnError as error:  # a notebook shows no traceback for a missing cluster
            shown = f"{self!r}\n{error}", card.message(self.name, str(error), self.url)
        else:
            shown = cluster_table(status, self.url), card.cluster(status, self.url)
        return {"text/plain": shown[0], "text/html": shown[1]}
