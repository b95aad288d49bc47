"""The probes in the child process: its answers to the question ``probe``.

Usually a probe is an unmanaged application: this process is its master, for as long as it takes.
Each probe has its own user context in the JVM, with the token of its attempt. The asking thread
does the work step by step, so heartbeats stop when the client does not ask.

Otherwise the probe runs in the container of the application's master, in two cases. With Kerberos,
the ResourceManager gives nobody the token of an unmanaged attempt, since it compares the caller's
whole principal with the owner's short name. And a client behind a firewall reaches neither the
ResourceManager's address for masters nor a NodeManager. So YARN itself starts the container, as a
master that never registers, and its output comes with the application's end. The price: it counts
against the queue's limit for masters, and the application ends as failed.
"""

import contextlib
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tarn.domain.endpoint import apart, host_port
from tarn.errors import LaunchError, NotFoundError, TarnError, UnreachableError
from tarn.java import load, mask, throwable
from tarn.plain.structure import from_record
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.reports import ApplicationAttempt, ApplicationReport, alive
from tarn_plugins.runtime.yarn.environment import resource
from tarn_plugins.runtime.yarn.hadoop import credentials
from tarn_plugins.runtime.yarn.hadoop.clients import (
    HadoopNodeManagers,
    HadoopResourceManager,
    Handles,
)
from tarn_plugins.runtime.yarn.hadoop.records import for_master, launch_context, unknown_types
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Ask,
    ContainerLaunch,
    Exchange,
    LocalFile,
)
from tarn_plugins.runtime.yarn.probe.messages import (
    RESOURCE_MANAGER,
    ProbeProgress,
    ProbeRequest,
    ProbeStarted,
    WaitContext,
)
from tarn_plugins.runtime.yarn.probe.script import COMMAND, ProbeInputs, environment

__all__ = ["Applications"]

_CONNECT_S = 3.0
_RECORDS = "org.apache.hadoop.yarn.api.records."
_NUMBER = 1
_OVER = ("FINISHED", "FAILED", "KILLED")

APPLICATION_TYPE = "TARN-PROBE"
# Longer than any probe; then the ResourceManager kills the application of a lost client.
LIFETIME_S = 180
NAME = "tarn-probe"

# Most addresses that a container tries to reach, each for up to three seconds.
_MOST_TARGETS = 6

_EXIT = re.compile(r"exitCode: (-?\d+)")


@attrs.define
class UnmanagedProbe:
    """A container of an unmanaged application. For one thread; needs the JVM.

    Args:
        hadoop: The client's access to YARN.
        order: The container to request.
        launch: The process to start.
        schedulers: ``host:port`` of each ResourceManager's address for masters.
    """

    hadoop: Hadoop
    order: ProbeRequest
    launch: ContainerLaunch
    schedulers: tuple[str, ...]
    free_mib: int | None = attrs.field(default=None, init=False)
    """Memory that the queue would still grant, by the last heartbeat."""
    application_id: str = attrs.field(default="", init=False)
    _rm: HadoopResourceManager | None = attrs.field(default=None, init=False)
    _nodes: HadoopNodeManagers | None = attrs.field(default=None, init=False)
    _grant: AllocatedContainer | None = attrs.field(default=None, init=False)
    _step: ProbeProgress = attrs.field(default=ProbeProgress("submitted"), init=False)

    def submit(self) -> None:
        """Hand the application to YARN; returns once it is accepted.

        Raises:
            LaunchError: YARN refused it.
        """
        nothing = launch_context(ContainerLaunch("true", {}))

        def fill(context: Any) -> None:
            context.setUnmanagedAM(True)
            # YARN requires a size and a command, but starts no process for an unmanaged master.
            context.setResource(load(_RECORDS + "Resource").newInstance(128, 1))
            context.setAMContainerSpec(nothing)

        self.application_id = submit(self.hadoop, self.order, fill)

    def step(self) -> ProbeProgress:
        """Continue as far as possible without waiting, and return the progress.

        Raises:
            TarnError: YARN refused the request, or the node the container.
        """
        if self._step.state == "submitted":
            self._try_to_register()
        elif self._step.state in ("asked", "running"):
            self._hear(self._service().exchange(Exchange()))
        return self._step

    def end(self, why: str) -> None:
        """End the application with its container, for the reason *why*. Idempotent.

        Raises:
            TarnError: YARN does not answer, and will end it after its lifetime.
        """
        try:
            if not self._unregistered(why):
                self.hadoop.kill(self.application_id, why)
        finally:
            for service in (self._nodes, self._rm):
                if service is not None:
                    with contextlib.suppress(TarnError):
                        service.close()
            self._rm = self._nodes = None

    def _service(self) -> HadoopResourceManager:
        assert self._rm is not None
        return self._rm

    def _unregistered(self, why: str) -> bool:
        if self._rm is None:
            return False
        try:
            self._rm.unregister(why)
        except TarnError:
            return False
        return True

    def _try_to_register(self) -> None:
        java_id = load(_RECORDS + "ApplicationId").fromString(self.application_id)
        report = self.hadoop.client.getApplicationReport(java_id)
        state, said = str(report.getYarnApplicationState()), str(report.getDiagnostics() or "")
        if state in _OVER:
            self._step = ProbeProgress("over", mask(said.strip()))
            return
        # There is one as soon as the scheduler has accepted the attempt.
        token = self.hadoop.client.getAMRMToken(java_id) if state == "ACCEPTED" else None
        if token is None:
            self._step = ProbeProgress("submitted", mask(said.strip()))
            return
        self._register(token)
        if self._step.state == "submitted":
            self._step = ProbeProgress("asked")

    def _register(self, token: Any) -> None:
        _require(self.schedulers, "the ResourceManager's address for masters")
        users = load("org.apache.hadoop.security.UserGroupInformation")
        user = users.createRemoteUser(self.hadoop.user)
        user.addToken(token)

        def connect() -> None:
            handles = Handles()
            self._rm = HadoopResourceManager(handles, self.hadoop.conf, "plain", NAME)
            self._nodes = HadoopNodeManagers(handles, self.hadoop.conf)
            # Without host, port and page, since nobody calls this master.
            self._rm.register("", -1, "")

        _do_as(user, connect)
        ask = Ask(_NUMBER, self.order.shape)
        self._hear(self._service().exchange(Exchange(asks=(ask,))))

    def _hear(self, answer: AllocateResponse) -> None:
        self.free_mib = answer.free_mib
        for rejected in answer.rejected:
            raise LaunchError("yarn", f"YARN rejects the request: {rejected.reason}")
        if self._grant is None and answer.granted:
            self._start(answer.granted[0])
        for done in answer.completed:
            if self._grant is not None and done.container_id == self._grant.container_id:
                self._step = attrs.evolve(
                    self._step,
                    state="ended",
                    diagnostics=done.diagnostics,
                    exit_code=done.exit_code,
                    heard_at=time.time(),
                )

    def _start(self, grant: AllocatedContainer) -> None:
        assert self._nodes is not None
        self._grant = grant
        self._step = ProbeProgress(
            "running", node=grant.node, container_id=grant.container_id, started_at=time.time()
        )
        _require((host_port(grant.node, grant.node_port),), "the NodeManager")
        self._nodes.start(grant, self.launch)


def _require(addresses: tuple[str, ...], what: str) -> None:
    """Check that this machine reaches one of *addresses*, which Hadoop would try for long.

    Raises:
        UnreachableError: It reaches none; a master on a node may still do so.
    """
    for address in addresses:
        host, port = apart(address)
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _CONNECT_S):
            return
    raise UnreachableError(
        f"the probe needs {what} ({' or '.join(addresses)}), which this machine cannot reach; "
        "run it on a machine in the cluster, such as an edge node that no firewall separates "
        "from it"
    )


def _do_as(user: Any, act: Callable[[], None]) -> None:
    """Call *act* as another user of this JVM, for the connections that it makes."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 (raised again on this side of Java)
            failures.append(error)

    user.doAs(load("java.security.PrivilegedAction") @ run)
    if failures:
        raise failures[0]


def submit(hadoop: Hadoop, order: ProbeRequest, fill: Callable[[Any], None]) -> str:
    """Hand an application to YARN, and return its id once it is accepted.

    Args:
        hadoop: The client's access to YARN.
        order: Names the queue.
        fill: Sets the process in the ``ApplicationSubmissionContext``.

    Raises:
        LaunchError: YARN refused it.
    """
    context = hadoop.client.createApplication().getApplicationSubmissionContext()
    application_id = str(context.getApplicationId())
    context.setApplicationName(NAME)
    context.setApplicationType(APPLICATION_TYPE)
    context.setQueue(order.queue)
    context.setMaxAppAttempts(1)
    lifetime = load("java.util.HashMap")()
    kind = load(_RECORDS + "ApplicationTimeoutType").LIFETIME
    lifetime.put(kind, load("java.lang.Long")(LIFETIME_S))
    context.setApplicationTimeouts(lifetime)
    # (include, exclude, ...): no log is kept, since the facts are in the diagnostics.
    logs = load(_RECORDS + "LogAggregationContext").newInstance("", ".*", "", ".*")
    context.setLogAggregationContext(logs)
    fill(context)
    try:
        hadoop.client.submitApplication(context)
    except throwable() as error:
        with contextlib.suppress(Exception):  # it may run, if only the answer was lost
            hadoop.kill(application_id, "its submission failed")
        raise hadoop.refused(application_id, error) from None
    return application_id


@attrs.define
class ManagedProbe:
    """The container of an application's master, started by YARN. For one thread; needs the JVM.

    Args:
        hadoop: The client's access to YARN.
        order: The container to request.
        launch: The process to start.
    """

    hadoop: Hadoop
    order: ProbeRequest
    launch: ContainerLaunch
    free_mib: int | None = attrs.field(default=None, init=False)
    """Always None, since YARN tells only masters."""
    application_id: str = attrs.field(default="", init=False)
    _step: ProbeProgress = attrs.field(default=ProbeProgress("submitted"), init=False)
    _submitted_at: float = attrs.field(default=0.0, init=False)

    def submit(self) -> None:
        """Hand the application to YARN; returns once it is accepted.

        Raises:
            LaunchError: YARN refused it, or does not know a resource type.
        """
        for kind in unknown_types(self.order.shape):
            raise LaunchError("yarn", f"YARN knows no resource type '{kind}'")
        self._submitted_at = time.time()
        self.application_id = submit(self.hadoop, self.order, self._fill)

    def step(self) -> ProbeProgress:
        """Return the progress."""
        report = self.hadoop.report(self.application_id, attempts=True)
        if report is None:
            self._step = attrs.evolve(self._step, state="over")
        elif alive(report):
            self._step = self._alive(report)
        elif self._step.state != "ended":
            self._step = self._over(report)
        return self._step

    def end(self, why: str) -> None:
        """End the application, for the reason *why*. Idempotent."""
        self.hadoop.end(self.application_id, why)

    def _fill(self, context: Any) -> None:
        ask = for_master(self.order.shape)
        context.setResource(ask.getCapability())
        context.setAMContainerResourceRequest(ask)
        context.setAMContainerSpec(launch_context(self.launch))

    def _alive(self, report: ApplicationReport) -> ProbeProgress:
        last = _last(report)
        if last is None or not last.container_id:
            return ProbeProgress("submitted", mask(report.diagnostics.strip()))
        if self._step.state == "running" and self._step.node:
            return self._step
        return ProbeProgress(
            "running",
            node=self._node(last.container_id),
            container_id=last.container_id,
            started_at=self._submitted_at,
        )

    def _over(self, report: ApplicationReport) -> ProbeProgress:
        last = _last(report)
        said = mask((report.diagnostics or (last.diagnostics if last else "")).strip())
        code = _EXIT.search(said)
        if last is None or not last.container_id or code is None:
            return ProbeProgress("over", said)
        return attrs.evolve(
            self._step,
            state="ended",
            diagnostics=said,
            exit_code=int(code[1]),
            container_id=last.container_id,
            started_at=self._submitted_at,
            heard_at=time.time(),
        )

    def _node(self, container_id: str) -> str:
        """Return the node of a container; '' if YARN does not know it (any more)."""
        java_id = load(_RECORDS + "ContainerId").fromString(container_id)
        try:
            node = self.hadoop.client.getContainerReport(java_id).getAssignedNode()
        except throwable():
            return ""
        return "" if node is None else str(node.getHost())


class Applications:
    """Probes by the ids of their applications. For one thread; needs the JVM."""

    def __init__(self, hadoop: Hadoop) -> None:
        self._hadoop = hadoop
        self._all: dict[str, ManagedProbe | UnmanagedProbe] = {}

    def answer(self, do: str, **parts: Any) -> Any:
        """Do one of ``begin``, ``step``, ``crowd``, ``end``."""
        doing: Mapping[str, Callable[..., Any]] = {
            "begin": self.begin,
            "step": self.step,
            "crowd": self.crowd,
            "end": self.end,
        }
        return doing[do](**parts)

    def begin(self, order: Mapping[str, Any]) -> Any:
        """Submit an application; returns a `ProbeStarted`."""
        wanted = from_record(ProbeRequest, order)
        conf = self._hadoop.conf
        there = (
            *((RESOURCE_MANAGER, each) for each in _resource_managers(conf)),
            *(("HDFS NameNode", each) for each in _name_nodes(conf)),
        )
        targets = there[:_MOST_TARGETS] if wanted.reach else ()
        question = ProbeInputs(
            python=wanted.python,
            targets=tuple(address for _, address in targets),
            ports=wanted.ports,
            word=wanted.word,
            environ=wanted.inner,
        )
        environ = {**wanted.outer, **environment(question)}
        files = self._files(wanted.archive) if wanted.archive else ()
        one = self._made(wanted, ContainerLaunch(COMMAND, environ, files))
        one.submit()
        self._all[one.application_id] = one
        return attrs.asdict(ProbeStarted(one.application_id, targets))

    def step(self, application_id: str) -> Any:
        """Go on with it; returns a `ProbeProgress`."""
        return attrs.asdict(self._of(application_id).step())

    def crowd(self, application_id: str) -> Any:
        """Return what is known of a container that does not come; returns a `WaitContext`."""
        report = self._hadoop.report(application_id)
        return attrs.asdict(
            WaitContext(
                overview=self._hadoop.overview(None, ()),
                queue_free_mib=self._of(application_id).free_mib,
                diagnostics="" if report is None else report.diagnostics,
            )
        )

    def end(self, application_id: str, why: str) -> None:
        """End it, whoever began it; one that is over is not an error."""
        one = self._all.pop(application_id, None)
        if one is not None:
            one.end(why)
        elif self._hadoop.report(application_id) is not None:
            self._hadoop.kill(application_id, why)

    def close(self) -> None:
        """End all: the client has gone."""
        for application_id in tuple(self._all):
            with contextlib.suppress(Exception):  # the others are to be ended, too
                self.end(application_id, "the client is gone")

    def _made(self, wanted: ProbeRequest, launch: ContainerLaunch) -> ManagedProbe | UnmanagedProbe:
        users = load("org.apache.hadoop.security.UserGroupInformation")
        if wanted.managed or users.isSecurityEnabled():
            return ManagedProbe(self._hadoop, wanted, launch)
        schedulers = tuple(_resource_managers(self._hadoop.conf))
        return UnmanagedProbe(self._hadoop, wanted, launch, schedulers)

    def _files(self, archive: str) -> tuple[LocalFile, ...]:
        """Return the packed environment as a node fetches it, with this user's rights."""
        mine = credentials.collect(self._hadoop.conf, [archive], {})
        load("org.apache.hadoop.security.UserGroupInformation").getCurrentUser().addCredentials(
            mine
        )
        return (resource(self._hadoop.files.entry(archive)),)

    def _of(self, application_id: str) -> ManagedProbe | UnmanagedProbe:
        one = self._all.get(application_id)
        if one is None:
            raise NotFoundError(f"no probe {application_id} is under way", where="yarn")
        return one


def _resource_managers(conf: Any) -> Iterator[str]:
    """Yield where masters register."""
    if not conf.getBoolean("yarn.resourcemanager.ha.enabled", False):  # noqa: FBT003 (Java)
        names = [""]
    else:
        names = [f".{one}" for one in _words(conf.get("yarn.resourcemanager.ha.rm-ids"))]
    for name in names:
        yield _address(
            conf.get(f"yarn.resourcemanager.scheduler.address{name}"),
            conf.get(f"yarn.resourcemanager.hostname{name}"),
            8030,
        )


def _name_nodes(conf: Any) -> Iterator[str]:
    uri = load("org.apache.hadoop.fs.FileSystem").getDefaultUri(conf)
    if str(uri.getScheme()) != "hdfs" or uri.getHost() is None:
        return
    service = str(uri.getHost())
    names = _words(conf.get(f"dfs.ha.namenodes.{service}"))
    if not names:
        yield f"{service}:{int(uri.getPort()) if int(uri.getPort()) > 0 else 8020}"
    for name in names:
        yield _address(conf.get(f"dfs.namenode.rpc-address.{service}.{name}"), None, 8020)


def _address(address: Any, host: Any, port: int) -> str:
    """Return ``host:port``: YARN's default address stands on the host name."""
    if address is None:
        return host_port(host, port)
    text = str(address)
    return text if ":" in text else f"{text}:{port}"


def _words(text: Any) -> list[str]:
    return [] if text is None else [each.strip() for each in str(text).split(",") if each.strip()]


def _last(report: ApplicationReport) -> ApplicationAttempt | None:
    return report.attempts[-1] if report.attempts else None
