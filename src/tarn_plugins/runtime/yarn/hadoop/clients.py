"""A master's clients of YARN, by means of Hadoop's AMRMClient and NMClient."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import attrs

from tarn.errors import LaunchError, ProviderError, Superseded, TarnError
from tarn.java import Fault, describe, load, throwable
from tarn_plugins.runtime.yarn.hadoop import records
from tarn_plugins.runtime.yarn.hadoop.records import (
    constrained,
    launch_context,
    plain,
    unknown_types,
)
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Ask,
    ContainerLaunch,
    Exchange,
    Registered,
    Rejected,
)

__all__ = ["HadoopNodeManagers", "HadoopResourceManager", "Handles"]

log = logging.getLogger(__name__)

_OVER = (
    # The RM runs another attempt, or ended the application.
    "org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException",
    "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException",
    # The RM forgets an attempt's token with the attempt.
    "org.apache.hadoop.security.token.SecretManager$InvalidToken",
)
# For a request that was valid before YARN's largest container or its labels were changed.
# AMRMClient repeats the request with every later heartbeat, a cancelled one with a count of 0.
_INVALID = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException"
# Of ``DisabledPlacementProcessor``: the RM was restarted with another configuration.
_NO_CONSTRAINTS = "cannot handle placement constraints"
_RM_RETRY_S = 1.0
# YARN wants a number, but a service is never done.
_PROGRESS = 0.5

_RECORDS = "org.apache.hadoop.yarn.api.records."
# The node refused; if the request did not reach it, it is an IOException.
_ANSWERED = "org.apache.hadoop.yarn.exceptions.YarnException"
_NODE_RETRY_S = 5.0


@attrs.define
class Handles:
    """The Java objects of one application. Any thread; needs the JVM."""

    node_tokens: Any = attrs.field(
        factory=lambda: load("org.apache.hadoop.yarn.client.api.NMTokenCache")()  # noqa: PLW0108 (not before there is a JVM)
    )
    """An ``NMTokenCache``; Hadoop's default is shared by the whole JVM."""
    _containers: dict[str, Any] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def keep(self, container: Any) -> None:
        """Keep a granted ``Container``, whose token is needed to start it."""
        with self._lock:
            self._containers[str(container.getId())] = container

    def find(self, container_id: str) -> Any | None:
        """Return the ``Container``; None if it ended, or belongs to an earlier attempt."""
        with self._lock:
            return self._containers.get(container_id)

    def drop(self, container_id: str) -> None:
        """Forget a ``Container``."""
        with self._lock:
            self._containers.pop(container_id, None)


def _rm_client(handles: Handles, conf: Any) -> Any:
    client = load("org.apache.hadoop.yarn.client.api.AMRMClient").createAMRMClient()
    client.setNMTokenCache(handles.node_tokens)
    client.init(conf)
    client.start()
    return client


@attrs.define
class HadoopResourceManager:
    """The `ResourceManager`. For one thread; needs the JVM.

    AMRMClient itself keeps the content of failed heartbeats (requests, releases, blacklist), and
    repeats all of it to a restarted RM.

    Args:
        handles: Shared with the client of the NodeManagers.
        conf: Java's ``YarnConfiguration``, see `hadoop.configuration`.
        mode: ``scheduling``, or ``plain`` if the RM accepts no SchedulingRequests: then the caller
            must enforce scopes by ``Exchange.avoid`` and ``releases``.
        epoch: This master's epoch, for `Superseded`.
    """

    handles: Handles
    conf: Any
    mode: str
    epoch: str
    _client: Any = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: _rm_client(self.handles, self.conf), takes_self=True),
    )
    # Every request ever sent: one number with two contents would make AMRMClient unusable.
    _shapes: dict[int, Ask] = attrs.field(factory=dict, init=False)
    # Number -> the request in AMRMClient that was not granted yet.
    _pending: dict[int, Any] = attrs.field(factory=dict, init=False)
    _cancelled: set[int] = attrs.field(factory=set, init=False)
    # Number -> the first constrained request. AMRMClient keeps that object, and takes only the
    # count of a later one.
    _held: dict[int, Any] = attrs.field(factory=dict, init=False)
    # Requests that were never sent, to be returned as rejected with the next answer.
    _refused: list[Rejected] = attrs.field(factory=list, init=False)
    _ours: dict[str, AllocatedContainer] = attrs.field(factory=dict, init=False)

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        """Register this attempt; called once."""
        with self._doing("register"):
            said = self._client.registerApplicationMaster(host, port, tracking_url)
            return Registered(
                recovered=self._know(said.getContainersFromPreviousAttempts()),
                maximum=records.amounts(said.getMaximumResourceCapability()),
            )

    def exchange(self, said: Exchange) -> AllocateResponse:
        """Send one heartbeat; block while the RM is away, without a limit.

        A request that cannot be sent (a resource type that is unknown to Hadoop on this node, or a
        number that had another content) comes back as rejected.
        """
        with self._doing("exchange a heartbeat"):
            self._say(said)
            return self._heard(self._client.allocate(_PROGRESS))

    def unregister(self, diagnostics: str) -> None:
        """End the application as succeeded."""
        done = load("org.apache.hadoop.yarn.api.records.FinalApplicationStatus").SUCCEEDED
        with self._doing("unregister"):
            self._client.unregisterApplicationMaster(done, diagnostics, None)

    def close(self) -> None:
        """Close the connection; containers stay. Idempotent."""
        with self._doing("let go of its connection"):
            self._client.stop()

    @contextlib.contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Raise a Java exception as an error that names the action *what*."""
        try:
            yield
        except throwable() as error:
            raise self._failed(what, describe(error)) from None

    @property
    def _constrains(self) -> bool:
        return self.mode == "scheduling"

    def _say(self, said: Exchange) -> None:
        """Pass everything to AMRMClient, which sends it with the next allocate."""
        for ask in said.asks:
            self._ask(ask)
        for ask in said.cancels:
            self._cancel(ask)
        ids = load("org.apache.hadoop.yarn.api.records.ContainerId")
        for container_id in said.releases:
            self._client.releaseAssignedContainer(ids.fromString(container_id))
            self.handles.drop(container_id)
        if said.avoid or said.welcome:
            lists = load("java.util.ArrayList")
            self._client.updateBlacklist(lists(list(said.avoid)), lists(list(said.welcome)))

    def _ask(self, ask: Ask) -> None:
        if ask.number in self._pending:
            return
        if self._shapes.setdefault(ask.number, ask) != ask:
            reason = f"instance number {ask.number} was requested before with another size"
            self._refused.append(Rejected(ask.number, reason))
            return
        unknown = unknown_types(ask.shape)
        if unknown:
            reason = f"resource-types.xml of this node's Hadoop has no {', '.join(unknown)}"
            self._refused.append(Rejected(ask.number, reason))
            return
        if self._constrains:
            request = constrained(ask, 1)
            self._client.addSchedulingRequests([request])
            self._held.setdefault(ask.number, request)
        else:
            request = plain(ask)
            self._client.addContainerRequest(request)
        self._pending[ask.number] = request
        self._cancelled.discard(ask.number)

    def _cancel(self, ask: Ask) -> None:
        request = self._pending.pop(ask.number, None)
        if request is None:
            return  # granted, rejected or cancelled before
        if self._constrains:
            self._client.addSchedulingRequests([constrained(self._shapes[ask.number], 0)])
            self._cancelled.add(ask.number)
        else:
            self._client.removeContainerRequest(request)

    def _heard(self, response: Any) -> AllocateResponse:
        allocated = response.getAllocatedContainers()
        granted = self._know(allocated)
        for container in allocated:
            self.handles.keep(container)
            self._settle(int(container.getAllocationRequestId()))
        # The field is missing if the RM sends none.
        late = self._know(response.getContainersFromPreviousAttempts() or ())
        dropped = [records.rejected(r) for r in response.getRejectedSchedulingRequests() or ()]
        for rejected in dropped:
            self._pending.pop(rejected.number, None)
            # Otherwise AMRMClient would repeat the request to a restarted RM.
            self._count_none(rejected.number)
        over = tuple(map(records.completed, response.getCompletedContainersStatuses()))
        leaving = self._leaving(response)
        for done in over:
            self._ours.pop(done.container_id, None)
            self.handles.drop(done.container_id)
        free = response.getAvailableResources()
        refused, self._refused = self._refused, []
        return AllocateResponse(
            granted=granted,
            completed=over,
            rejected=(*refused, *dropped),
            recovered=late,
            leaving=leaving,
            nodes=int(response.getNumClusterNodes()),
            free_mib=None if free is None else int(free.getMemorySize()),
        )

    def _know(self, containers: Any) -> tuple[AllocatedContainer, ...]:
        """Remember *containers* as this application's, and return them as grants."""
        grants = tuple(map(records.grant, containers))
        self._ours.update({each.container_id: each for each in grants})
        return grants

    def _settle(self, number: int) -> None:
        """Note that the request *number* was granted."""
        request = self._pending.pop(number, None)
        if request is None:
            if number in self._cancelled:
                # Granted while the cancellation was under way: AMRMClient counts 0 - 1, and would
                # request -1 containers of a restarted RM.
                self._count_none(number)
        elif not self._constrains:
            # The RM counts down by itself, but AMRMClient would request one more.
            self._client.removeContainerRequest(request)

    def _count_none(self, number: int) -> None:
        held = self._held.get(number)
        if held is not None:
            held.getResourceSizing().setNumAllocations(0)

    def _leaving(self, response: Any) -> dict[str, str]:
        nodes = records.leaving_nodes(response.getUpdatedNodes())
        found = {
            each.container_id: nodes[f"{each.node}:{each.node_port}"]
            for each in self._ours.values()
            if f"{each.node}:{each.node_port}" in nodes
        }
        return {**found, **dict(records.preempted(response.getPreemptionMessage()))}

    def _failed(self, what: str, fault: Fault) -> TarnError:
        if _NO_CONSTRAINTS in str(fault):
            # Every later heartbeat of this attempt would be rejected, too, since AMRMClient repeats
            # its requests.
            log.error("the ResourceManager takes no placement constraints any more: %s", fault)
            return Superseded(self.epoch, "one that asks without placement constraints")
        if fault.is_a(*_OVER):
            return Superseded(self.epoch, "a newer attempt, or the application has ended")
        if fault.is_a(_INVALID):
            return ProviderError(
                "yarn",
                f"it rejected a request as invalid ({fault})",
                next_step="Have the node labels and the largest container of the queue set as "
                "before, or run `tarn down`, then `tarn up`",
            )
        return ProviderError(
            "yarn",
            f"the ResourceManager and this master could not {what}: {fault}",
            retry_after_s=_RM_RETRY_S,
        )


def _nm_client(handles: Handles, conf: Any) -> Any:
    client = load("org.apache.hadoop.yarn.client.api.NMClient").createNMClient()
    client.setNMTokenCache(handles.node_tokens)
    client.init(conf)
    # By default, the client stops its containers; the next attempt is to adopt them.
    client.cleanupRunningContainersOnStop(False)  # noqa: FBT003 (Java takes no keywords)
    client.start()
    return client


@attrs.define
class HadoopNodeManagers:
    """The `NodeManagers`. Any thread; needs the JVM.

    A node that does not answer blocks a call for about 10 s (see `hadoop.configuration`).
    """

    handles: Handles
    conf: Any
    _client: Any = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: _nm_client(self.handles, self.conf), takes_self=True),
    )

    def start(self, grant: AllocatedContainer, launch: ContainerLaunch) -> None:
        """Start a container's process."""
        container = self.handles.find(grant.container_id)
        if container is None:
            raise LaunchError(
                "yarn",
                "this master may not start it: the container has ended, or was given back",
                retry_after_s=_NODE_RETRY_S,
                where=f"{grant.container_id} on {grant.node}",
            )
        try:
            self._client.startContainer(container, launch_context(launch))
        except throwable() as error:
            raise _not_started(grant, describe(error)) from None

    def stop(self, grant: AllocatedContainer) -> None:
        """Stop it; one that is gone already is not an error."""
        # From text, since there is no Java object of an earlier attempt's container.
        container = load(_RECORDS + "ContainerId").fromString(grant.container_id)
        node = load(_RECORDS + "NodeId").newInstance(grant.node, grant.node_port)
        try:
            self._client.stopContainer(container, node)
        except throwable() as error:
            fault = describe(error)
        else:
            return
        if not (fault.is_a(_ANSWERED) and self._is_gone(container, node)):
            raise ProviderError(
                "yarn",
                f"it could not be stopped: {fault}",
                retry_after_s=_NODE_RETRY_S,
                where=f"{grant.container_id} on {grant.node}",
            )

    def close(self) -> None:
        """Let go of connections; containers stay. Idempotent."""
        try:
            self._client.stop()
        except throwable() as error:
            raise ProviderError(
                "yarn", f"could not close the connections to NodeManagers: {describe(error)}"
            ) from None

    def _is_gone(self, container: Any, node: Any) -> bool:
        """Return whether the node, which refused to stop it, has it no more."""
        try:
            status = self._client.getContainerStatus(container, node)
        except throwable() as error:
            # Only an answer of the node shows that it does not know the container any more.
            return describe(error).is_a(_ANSWERED)
        return str(status.getState()) == "COMPLETE"


def _not_started(grant: AllocatedContainer, fault: Fault) -> LaunchError:
    return LaunchError(
        "yarn",
        f"the node did not start it: {fault}",
        retry_after_s=_NODE_RETRY_S,
        where=f"{grant.container_id} on {grant.node}",
    )
