"""Convert plain values to Java's records, and the RM's answers to plain values.

Findings about requests, measured on 3.4.2:

* The only constraint that works with and without a partition is a single ``targetNotIn``. A
  conjunction stays pending for ever, and some versions refuse a partition alone.
* From a heartbeat with both kinds of requests, the CapacityScheduler takes the plain ones and loses
  the constrained ones. A restarted RM gets all requests in one heartbeat, so sending them at
  different times does not help.

Texts of YARN are masked here, since they may repeat secrets of a command or a URL, and reach facts,
logs and the API.
"""

from collections.abc import Iterator
from typing import Any

from tarn.java import load, mask
from tarn_plugins.runtime.yarn.hadoop import credentials
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Ask,
    Completed,
    ContainerLaunch,
    LocalFile,
    Rejected,
    Shape,
)

__all__ = [
    "amounts",
    "completed",
    "constrained",
    "for_master",
    "grant",
    "launch_context",
    "leaving_nodes",
    "plain",
    "preempted",
    "rejected",
    "unknown_types",
]

_RECORDS = "org.apache.hadoop.yarn.api.records."
# Scope -> YARN's namespace of allocation tags.
_NAMESPACES = {"all": "all", "cluster": "self"}
# A tag that no container has, so that avoiding it constrains nothing.
_NOBODY = "tarn-nobody"
# The tag of containers without one, since AMRMClient keys requests by their tags.
_ANYBODY = "tarn"

_RECORDS = "org.apache.hadoop.yarn.api.records."


def unknown_types(shape: Shape) -> tuple[str, ...]:
    """Return the resource types of *shape* that Hadoop's configuration does not have."""
    known = load("org.apache.hadoop.yarn.util.resource.ResourceUtils").getResourceTypes()
    return tuple(name for name, _ in shape.accelerators if not known.containsKey(name))


def constrained(ask: Ask, count: int) -> Any:
    """Return a ``SchedulingRequest`` for *count* containers: 1, or 0 to cancel.

    Requests with the same key (priority 0, the number) may only differ in *count*.
    """
    shape = ask.shape
    constraints = load("org.apache.hadoop.yarn.api.resource.PlacementConstraints")
    targets = load("org.apache.hadoop.yarn.api.resource.PlacementConstraints$PlacementTargets")
    namespace = _NAMESPACES.get(shape.scope) if shape.tag else None
    wanted = [
        targets.allocationTagWithNamespace(namespace, shape.tag)
        if namespace is not None
        else targets.allocationTagWithNamespace("self", _NOBODY)
    ]
    if shape.node_label:
        wanted.append(targets.nodePartition(shape.node_label))
    apart = constraints.build(constraints.targetNotIn(constraints.NODE, *wanted))
    guaranteed = load(_RECORDS + "ExecutionTypeRequest").newInstance(
        load(_RECORDS + "ExecutionType").GUARANTEED,
        True,  # noqa: FBT003 (enforced)
    )
    return (
        load(_RECORDS + "SchedulingRequest")
        .newBuilder()
        .priority(_priority())
        .allocationRequestId(ask.number)
        .executionType(guaranteed)
        .allocationTags(load("java.util.HashSet")([shape.tag or _ANYBODY]))
        .placementConstraintExpression(apart)
        .resourceSizing(load(_RECORDS + "ResourceSizing").newInstance(count, _resource(shape)))
        .build()
    )


def plain(ask: Ask) -> Any:
    """Return a ``ContainerRequest`` for one container anywhere in the partition.

    Without a label YARN takes the queue's own partition.
    """
    builder = load("org.apache.hadoop.yarn.client.api.AMRMClient$ContainerRequest").newBuilder()
    if ask.shape.node_label:
        builder = builder.nodeLabelsExpression(ask.shape.node_label)
    return (
        builder.capability(_resource(ask.shape))
        .priority(_priority())
        .allocationRequestId(ask.number)
        .relaxLocality(True)  # noqa: FBT003 (Java takes no keywords)
        .build()
    )


def for_master(shape: Shape) -> Any:
    """Return a ``ResourceRequest`` for a master's own container, with its node label."""
    requests = load(_RECORDS + "ResourceRequest")
    ask = requests.newInstance(_priority(), requests.ANY, _resource(shape), 1)
    if shape.node_label:
        ask.setNodeLabelExpression(shape.node_label)
    return ask


def _priority() -> Any:
    return load(_RECORDS + "Priority").newInstance(0)


def _resource(shape: Shape) -> Any:
    found = load(_RECORDS + "Resource").newInstance(shape.memory_mib, shape.vcores)
    for name, count in shape.accelerators:
        found.setResourceValue(name, count)
    return found


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


def amounts(resource: Any) -> dict[str, int]:
    """Return the amounts of a ``Resource`` by type: ``memory-mb`` (MiB), ``vcores``, others."""
    return {str(each.getName()): int(each.getValue()) for each in resource.getResources()}


def preempted(message: Any) -> Iterator[tuple[str, str]]:
    """Yield (container id, why) of a ``PreemptionMessage``, which may be None."""
    if message is None:
        return
    # The negotiable part first, so that the strict one wins for a container in both.
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
    """Return ``host:port`` -> reason, for the nodes that are being decommissioned."""
    found = {}
    for report in reports:
        if str(report.getNodeState()) == "DECOMMISSIONING":
            node = report.getNodeId()
            limit = report.getDecommissioningTimeout()
            within = "" if limit is None else f" within {int(limit)} s"
            found[str(node)] = f"its node {node.getHost()} is put out of service{within}"
    return found


def local_resource(file: LocalFile) -> Any:
    """Return the ``LocalResource`` for *file*."""
    assert not (file.public and file.application), file.name
    kinds, places = load(_RECORDS + "LocalResourceType"), load(_RECORDS + "LocalResourceVisibility")
    place = places.APPLICATION if file.application else places.PRIVATE
    path = load("org.apache.hadoop.fs.Path")(file.uri)
    return load(_RECORDS + "LocalResource").newInstance(
        load(_RECORDS + "URL").fromPath(path),
        kinds.ARCHIVE if file.archive else kinds.FILE,
        places.PUBLIC if file.public else place,
        file.bytes,
        file.modified_ms,
    )


def launch_context(launch: ContainerLaunch) -> Any:
    """Return the ``ContainerLaunchContext``."""
    # JPype converts a list to a Java collection, but not a dict to a map.
    files, environ = load("java.util.HashMap")(), load("java.util.HashMap")()
    for each in launch.files:
        files.put(each.name, local_resource(each))
    for name, value in launch.environ.items():
        environ.put(name, value)
    tokens = launch.tokens
    if tokens is None:
        tokens = credentials.packed(credentials.for_containers())
    return load(_RECORDS + "ContainerLaunchContext").newInstance(
        files,
        environ,
        load("java.util.ArrayList")([launch.command]),
        None,  # data of auxiliary services
        load("java.nio.ByteBuffer").wrap(tokens),
        None,  # who may look and kill: the application's own lists
    )
