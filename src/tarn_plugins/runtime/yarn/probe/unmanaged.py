"""One application without a master on a node: this process is it, for as long as a probe takes.

Each has its own user's context in the JVM, which holds the token of its attempt. The thread that
asks does the work, a step at a time, so heartbeats stop when nobody asks.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import attrs

from tarn.domain.address import apart, host_port
from tarn.errors import LaunchError, TarnError, UnreachableError
from tarn.java import load, mask
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.hadoop.handles import Handles
from tarn_plugins.runtime.yarn.hadoop.node_managers import HadoopNodeManagers, launch_context
from tarn_plugins.runtime.yarn.hadoop.resource_manager import HadoopResourceManager
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Ask,
    ContainerLaunch,
    Exchange,
)
from tarn_plugins.runtime.yarn.probe.messages import ProbeProgress, ProbeRequest
from tarn_plugins.runtime.yarn.probe.submitting import NAME, submit

__all__ = ["UnmanagedProbe"]

_CONNECT_S = 3.0
_RECORDS = "org.apache.hadoop.yarn.api.records."
_NUMBER = 1
_OVER = ("FINISHED", "FAILED", "KILLED")


@attrs.define
class UnmanagedProbe:
    """One container of one application. One thread; needs the JVM.

    Args:
        hadoop: YARN as the client sees it.
        order: What to ask for.
        launch: What the container runs.
        schedulers: ``host:port`` of each ResourceManager's address for masters.
    """

    hadoop: Hadoop
    order: ProbeRequest
    launch: ContainerLaunch
    schedulers: tuple[str, ...]
    free_mib: int | None = attrs.field(default=None, init=False)
    """What the queue would still grant, by the last heartbeat."""
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
            context.setResource(load(_RECORDS + "Resource").newInstance(128, 1))
            context.setAMContainerSpec(nothing)

        self.application_id = submit(self.hadoop, self.order, fill)

    def step(self) -> ProbeProgress:
        """Go on as far as is possible at once, and say how far that is.

        Raises:
            TarnError: YARN refused the ask, or the node the container.
        """
        if self._step.state == "submitted":
            self._try_to_register()
        elif self._step.state in ("asked", "running"):
            self._hear(self._service().exchange(Exchange()))
        return self._step

    def end(self, why: str) -> None:
        """End the application, and with it its container. Idempotent; *why* is for YARN's record.

        Raises:
            TarnError: YARN does not answer; its lifetime ends it then.
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
        # it has one as soon as the scheduler took its attempt
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
    """Refuse to go on where this machine reaches none of *addresses*: Hadoop would try for long.

    Raises:
        UnreachableError: None; a master on a node may reach them all the same.
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
    """Do *act* as another user of this JVM; its connections remember who made them."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 (raised again on this side of Java)
            failures.append(error)

    user.doAs(load("java.security.PrivilegedAction") @ run)
    if failures:
        raise failures[0]
