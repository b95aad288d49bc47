"""How a cluster is looked at: causes, the card of a notebook, the live view, the check by canaries.

Beneath `Cluster`, which knows how the cluster is asked.
"""

import abc
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarn.cluster import card
from tarn.cluster.dashboard_link import Address, dashboard_link
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.explain import explain
from tarn.cluster.following import follow_events
from tarn.cluster.link import Link
from tarn.cluster.lists import Explanation
from tarn.cluster.logs import Logged
from tarn.cluster.measuring import Measuring
from tarn.cluster.report import VerifyReport
from tarn.cluster.reported_issue import ReportedIssue
from tarn.cluster.table import cluster_table
from tarn.cluster.verifying import VerifyOptions, verify
from tarn.cluster.waiting import Goal
from tarn.cluster.watching import Screen, Watch, screen
from tarn.domain import ClusterSpec
from tarn.errors import NotFoundError, TarnError
from tarn.interfaces import Deployer, Progress
from tarn.plain import did_you_mean
from tarn.plain import seconds as span_of

if TYPE_CHECKING:
    from tarn.cluster.bundle import BundleSubject
    from tarn.cluster.diagnosis import Diagnosis
    from tarn.simulator import Run

__all__ = ["Looking"]


class Looking(Measuring, Logged):
    """The half of `Cluster` that only looks."""

    _environment: ClusterEnvironment

    @property
    @abc.abstractmethod
    def url(self) -> str | None:
        """Where the master's API was last found; None before anything was asked."""

    @property
    @abc.abstractmethod
    def spec(self) -> ClusterSpec:
        """What was asked for."""

    @abc.abstractmethod
    def status(self) -> Mapping[str, Any]:
        """Return name, state, reason, epoch, desired, ready, instances and more."""

    @abc.abstractmethod
    def _deployer(self) -> Deployer:
        """Make the client side of its runtime."""

    def causes(self, instance: str | None = None) -> tuple[ReportedIssue, ...]:
        """Return what `why` says as records: subject, what was found, next step, code.

        Raises:
            NotFoundError: *instance* is unknown.
        """
        status = self.status()
        found = explain(status, instance)
        if not found:
            ids = [item["id"] for item in (*status["instances"], *status["ended"])]
            raise NotFoundError(
                f"cluster '{self.name}' has no instance '{instance}'",
                next_step=did_you_mean(instance, ids) or "`tarn status` lists them.",
            )
        return found

    def explain(self) -> Explanation:
        """Return why the size is what it is: signals, wish, what holds it, what comes next.

        A dict with the shape of ``GET /api/v1/scaling``; printed, it is a sentence and two tables.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: Its master does not answer.
        """
        return Explanation(self._link.read(lambda api: api.scaling()))

    def dashboard(self) -> Address:
        """Return the address of the cluster's dashboard; a notebook shows a link.

        With an api token it signs in: once, within a minute, and for all that the token opens.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: Its master does not answer.
        """
        return dashboard_link(self._link)

    def watch(
        self,
        until: str | int | None = None,
        timeout: str | float | None = None,
        *,
        on: Screen | None = None,
    ) -> None:
        """Show the cluster as it changes, until interrupted, gone, or *until* is reached.

        In a terminal the view rewrites itself, in a notebook the cell's output does; elsewhere
        a line is printed when something changed.

        Args:
            until: ``ready=3`` (or 3), ``state=stopped``; None: only an interrupt ends it.
            timeout: A duration (``5m``) or seconds; None: for ever.
            on: Where to show it; None: what this process has.

        Raises:
            TimedOutError: *until* was not reached in time.
        """
        around = self._environment
        limit_s = None if timeout is None else span_of(timeout)
        goal = None if until is None else Goal.of(until)
        news, stop = threading.Event(), threading.Event()
        link = Link(self.name, around, self._deployer)  # its connection is the follower's own

        def follow() -> None:
            try:
                for _message in follow_events(link, around, stop):
                    news.set()
            except TarnError:
                return  # the looks go on, and say what is wrong

        follower = threading.Thread(target=follow, name="watch-events", daemon=True)
        shown = on or screen()
        follower.start()
        try:
            Watch(self.status, lambda: self.url, around.clock, news).run(shown, goal, limit_s)
        except KeyboardInterrupt:
            return
        finally:
            stop.set()
            shown.close()
            follower.join(2.0)
            link.close()

    def verify(  # noqa: PLR0913 (one for each option)
        self,
        rps: float = 20.0,
        seconds: str | float = 30.0,
        models: Sequence[str] = (),
        *,
        body: bytes | None = None,
        timeout: str | float = 10.0,
        slow: str | float = 1.0,
        progress: Callable[[Progress], None] | None = None,
    ) -> VerifyReport:
        """Send canary inferences straight to the ready instances, and report what came of them.

        They are sent open loop: a slow answer delays no other request. An instance that joins or
        leaves the view meanwhile is followed within a second.

        Args:
            rps: Requests a second, over all instances and models.
            seconds: For how long: seconds, or a duration (``30s``).
            models: Which models; empty: each that is READY.
            body: A JSON inference request to send; None: one made from the model's metadata,
                every input zero, dynamic dimensions 1. With it, exactly one model.
            timeout: Later than this, an answer counts as lost.
            slow: Later than this, an answer counts as slow.
            progress: Hears how many were sent and lost.

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
        """Return what a policy would make of a load; nothing is started, and nobody is asked.

        The code is the master's, the limits and the guard are this spec's; only the instances are
        modelled. A notebook shows the result as a drawing, and
        ``pandas.DataFrame(run.columns())`` is a frame of it.

        Args:
            frame: Requests per second over time: anything with the columns ``t_s`` and
                ``requests_per_s`` (a pandas frame, a mapping), the path of such a CSV file, or a
                made-up load such as ``daily:1``.
            policy: ``target``, ``hpa``, ...; None: the one of the spec.
            options: Of the policy.
            assumed: What is assumed of the instances: fields of `tarn.simulator.WorldModel` with
                units as in the spec, like ``start="45s"``, ``slots=8``.

        Raises:
            ConfigError: The load, the options or the assumptions cannot be meant.
            ProviderMissingError: There is no such policy.
        """
        from tarn.cluster.replaying import load_of, replayed, world  # noqa: PLC0415 (seldom)

        plugins = self._environment.plugins()
        return replayed(self.spec, plugins, load_of(frame), world(assumed), policy, options)

    def doctor(
        self, progress: Callable[[Progress], None] | None = None, *, probe: bool = False
    ) -> "Diagnosis":
        """Return what is wrong around the cluster, without submitting anything.

        It looks at everything that `up` would, and at more. A notebook shows the result as tables.

        Args:
            progress: Hears what is looked at.
            probe: Also start something for a moment: on YARN, a container for each node label.

        Raises:
            PluginError: Two plugins offer a check of one name.
        """
        from tarn.cluster.examining import around_spec  # noqa: PLC0415 (seldom)

        return around_spec(self.spec, self._environment, progress, probe=probe)

    def support_bundle(
        self,
        path: str | Path | None = None,
        progress: Callable[[Progress], None] | None = None,
        *,
        log_mib: float = 2.0,
        with_names: bool = False,
    ) -> Path:
        """Put all that helps others to help you into one file, and no secret; return its path.

        The cluster need not answer, and may have ended. Look through the file before you give it
        away: its README.txt says what is in it, and what is not and why.

        Args:
            path: A .tar.gz that does not exist; None: named by cluster and time, in this folder.
            progress: Hears what is gathered.
            log_mib: How much of the end of each log.
            with_names: Keep the names of people and machines.

        Raises:
            RefusedError: There is a file already.
            TarnError: It cannot be written, or would tell a secret.
        """
        from tarn.cluster.bundle import BundleOptions, make  # noqa: PLC0415 (seldom)

        wanted = BundleOptions(log_mib, with_names=with_names)
        made = make(self.bundle_subject(), wanted, progress or (lambda _progress: None))
        target = Path(path) if path is not None else Path(f"{made.folder}.tar.gz")
        made.write(target)
        return target

    def bundle_subject(self, planned: ClusterSpec | None = None) -> "BundleSubject":
        """Return what a support bundle asks; *planned* stands in for a spec that is not kept."""
        from tarn.cluster.bundle import BundleSubject  # noqa: PLC0415 (seldom)

        try:
            spec: ClusterSpec | None = self.spec
        except TarnError:  # also one that a newer TARN wrote
            spec = planned
        around, link = self._environment, self._link
        return BundleSubject(self.name, around, spec, link, self.status, self.logs, self.logged)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Show the cluster in a notebook, as text and as a card; one that is not there, too."""
        try:
            status = self.status()
        except TarnError as error:
            text = f"{self!r}\n{error}"
            return {"text/plain": text, "text/html": card.message(self.name, str(error), self.url)}
        return {
            "text/plain": cluster_table(status, self.url),
            "text/html": card.cluster(status, self.url),
        }
