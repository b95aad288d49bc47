"""What the RM said, as plain values. Each function takes Java's record.

Text of YARN's is masked here: it may repeat a command's or a URL's secrets, and goes on into
facts, logs and the API.
"""

from collections.abc import Iterator
from typing import Any

from tarn.java import mask
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, Completed, Rejected

__all__ = ["completed", "grant", "leaving_nodes", "maximum", "preempted", "rejected"]


def grant(container: Any) -> AllocatedContainer:
    """Return one ``Container``."""
    node = container.getNodeId()
    return AllocatedContainer(
        container_id=str(container.getId()),
        number=int(container.getAllocationRequestId()),
        node=str(node.getHost()),
        node_port=int(node.getPort()),
        node_http=str(container.getNodeHttpAddress()),
    )


def completed(status: Any) -> Completed:
    """Return one ``ContainerStatus``."""
    said = status.getDiagnostics()
    return Completed(
        container_id=str(status.getContainerId()),
        exit_code=int(status.getExitStatus()),
        diagnostics="" if said is None else mask(str(said).strip()),
    )


def rejected(each: Any) -> Rejected:
    """Return one ``RejectedSchedulingRequest``."""
    return Rejected(int(each.getRequest().getAllocationRequestId()), mask(str(each.getReason())))


def maximum(resource: Any) -> dict[str, int]:
    """Return a ``Resource`` by type: ``memory-mb`` (MiB), ``vcores``, and every other one."""
    return {str(each.getName()): int(each.getValue()) for each in resource.getResources()}


def preempted(message: Any) -> Iterator[tuple[str, str]]:
    """Yield (container id, why) of a ``PreemptionMessage``, which may be None."""
    if message is None:
        return
    # the negotiable part first: what is in both will be taken
    for part, why in (
        (
            message.getContract(),
            "YARN may soon take it away: other applications have a right to its place",
        ),
        (
            message.getStrictContract(),
            "YARN will soon take it away: other applications have a right to its place",
        ),
    ):
        for each in part.getContainers() if part is not None else ():
            yield str(each.getId()), why


def leaving_nodes(reports: Any) -> dict[str, str]:
    """Return ``host:port`` to why, of the ``NodeReport`` of nodes that are put out of service."""
    found = {}
    for report in reports:
        if str(report.getNodeState()) == "DECOMMISSIONING":
            node = report.getNodeId()
            limit = report.getDecommissioningTimeout()
            within = "" if limit is None else f" within {int(limit)} s"
            found[str(node)] = f"its node {node.getHost()} is put out of service{within}"
    return found
