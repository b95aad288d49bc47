"""The client of the ResourceManager, over Hadoop's AMRMClient."""

import logging
from typing import Any

import attrs

from tarn.errors import ProviderError, Superseded, TarnError
from tarn.java import Fault, describe, load, throwable
from tarn_plugins.runtime.yarn.hadoop import answers
from tarn_plugins.runtime.yarn.hadoop.handles import Handles
from tarn_plugins.runtime.yarn.hadoop.requests import constrained, plain, unknown_types
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Ask,
    Exchange,
    Registered,
    Rejected,
)

__all__ = ["HadoopResourceManager"]

log = logging.getLogger(__name__)

_OVER = (
    # the RM has another attempt at work, or ended the application
    "org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException",
    "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException",
    # it forgets an attempt's token with the attempt
    "org.apache.hadoop.security.token.SecretManager$InvalidToken",
)
_INVALID = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException"
"""An ask that YARN would have met before: its largest container or its labels were changed since.
AMRMClient says the ask with every later heartbeat, and a cancelled one with a count of 0."""
_NO_CONSTRAINTS = "cannot handle placement constraints"
"""``DisabledPlacementProcessor``: the RM was configured again, and started again."""
_RETRY_S = 1.0
_PROGRESS = 0.5
"""A service is never done; YARN wants a number."""


def _client(handles: Handles, conf: Any) -> Any:
    client = load("org.apache.hadoop.yarn.client.api.AMRMClient").createAMRMClient()
    client.setNMTokenCache(handles.node_tokens)
    client.init(conf)
    client.start()
    return client


@attrs.define
class HadoopResourceManager:
    """`wire.ResourceManager`. One thread; needs the JVM.

    AMRMClient itself keeps what a failed heartbeat said (asks, releases, blacklist) and says all
    of it again to a restarted RM, so nothing is kept twice here.

    Args:
        handles: Shared with the client of the NodeManagers.
        conf: Java's ``YarnConfiguration``, see `configuration`.
        mode: ``scheduling``, or ``plain`` where the RM takes no SchedulingRequests: then scopes
            are kept by nobody but the caller, with ``Exchange.avoid`` and ``releases``.
        epoch: This master's, for `Superseded`.
    """

    handles: Handles
    conf: Any
    mode: str
    epoch: str
    _client: Any = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: _client(self.handles, self.conf), takes_self=True),
    )
    _shapes: dict[int, Ask] = attrs.field(factory=dict, init=False)
    """Every ask ever sent: a number with another content would poison this client for ever."""
    _pending: dict[int, Any] = attrs.field(factory=dict, init=False)
    """Number to the request that AMRMClient holds, asked and not granted."""
    _cancelled: set[int] = attrs.field(factory=set, init=False)
    _held: dict[int, Any] = attrs.field(factory=dict, init=False)
    """Number to the first constrained request: AMRMClient keeps that one, and takes over no more
    than the count of a later one."""
    _refused: list[Rejected] = attrs.field(factory=list, init=False)
    """Asks that were never sent; told with the next good answer."""
    _ours: dict[str, AllocatedContainer] = attrs.field(factory=dict, init=False)

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        """Register this attempt; called once."""
        try:
            said = self._client.registerApplicationMaster(host, port, tracking_url)
            return Registered(
                recovered=self._know(said.getContainersFromPreviousAttempts()),
                maximum=answers.maximum(said.getMaximumResourceCapability()),
            )
        except throwable() as error:
            raise self._failed("register", describe(error)) from None

    def exchange(self, said: Exchange) -> AllocateResponse:
        """Send one heartbeat; blocks while the RM is away, for as long as that lasts.

        An ask that cannot be sent (a resource type that Hadoop does not know here, a number that
        had another content) comes back as rejected.
        """
        try:
            self._say(said)
            return self._heard(self._client.allocate(_PROGRESS))
        except throwable() as error:
            raise self._failed("exchange a heartbeat", describe(error)) from None

    def unregister(self, diagnostics: str) -> None:
        """End the application as succeeded."""
        done = load("org.apache.hadoop.yarn.api.records.FinalApplicationStatus").SUCCEEDED
        try:
            self._client.unregisterApplicationMaster(done, diagnostics, None)
        except throwable() as error:
            raise self._failed("unregister", describe(error)) from None

    def close(self) -> None:
        """Let go of connections; containers stay. Idempotent."""
        try:
            self._client.stop()
        except throwable() as error:
            raise self._failed("let go of its connection", describe(error)) from None

    @property
    def _constrains(self) -> bool:
        return self.mode == "scheduling"

    def _say(self, said: Exchange) -> None:
        """Hand everything to AMRMClient, which sends it with the next allocate."""
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
        # the field is missing where an RM sends none
        late = self._know(response.getContainersFromPreviousAttempts() or ())
        dropped = [answers.rejected(r) for r in response.getRejectedSchedulingRequests() or ()]
        for rejected in dropped:
            self._pending.pop(rejected.number, None)
            # AMRMClient would ask a restarted RM once more, also when nobody wants it any more
            self._count_none(rejected.number)
        over = tuple(map(answers.completed, response.getCompletedContainersStatuses()))
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
        """Remember containers of ours, and return them as grants."""
        grants = tuple(map(answers.grant, containers))
        self._ours.update({each.container_id: each for each in grants})
        return grants

    def _settle(self, number: int) -> None:
        """One container came under this number: nothing is outstanding any more."""
        request = self._pending.pop(number, None)
        if request is None:
            if number in self._cancelled:
                # granted while the cancel was under way: AMRMClient counts 0 - 1, and would say
                # -1 to a restarted RM
                self._count_none(number)
        elif not self._constrains:
            # the RM counts down by itself, AMRMClient does not: it would ask once more
            self._client.removeContainerRequest(request)

    def _count_none(self, number: int) -> None:
        held = self._held.get(number)
        if held is not None:
            held.getResourceSizing().setNumAllocations(0)

    def _leaving(self, response: Any) -> dict[str, str]:
        nodes = answers.leaving_nodes(response.getUpdatedNodes())
        found = {
            each.container_id: nodes[f"{each.node}:{each.node_port}"]
            for each in self._ours.values()
            if f"{each.node}:{each.node_port}" in nodes
        }
        return {**found, **dict(answers.preempted(response.getPreemptionMessage()))}

    def _failed(self, what: str, fault: Fault) -> TarnError:
        if _NO_CONSTRAINTS in str(fault):
            # every later word of this attempt would be rejected, too: AMRMClient says all again
            log.error("the ResourceManager takes no placement constraints any more: %s", fault)
            return Superseded(self.epoch, "one that asks without placement constraints")
        if fault.is_a(*_OVER):
            return Superseded(self.epoch, "a newer attempt, or the application has ended")
        if fault.is_a(_INVALID):
            return ProviderError(
                "yarn",
                f"it rejects a request as invalid ({fault})",
                next_step="Have the queue's node labels and largest container restored, or end the "
                "cluster and start it again",
            )
        return ProviderError(
            "yarn",
            f"the ResourceManager and this master could not {what}: {fault}",
            retry_after_s=_RETRY_S,
        )
