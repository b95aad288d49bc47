"""Asks as Java's requests: of one kind for a whole application.

Measured on 3.4.2:

* Of the constraints only a single ``targetNotIn`` works with and without a partition; a
  conjunction stays pending for ever, and a partition alone is refused by some versions.
* In a heartbeat that brings both kinds the CapacityScheduler takes the plain requests and loses
  the constrained ones. A restarted RM is told everything in one heartbeat, so mixing them at
  different times is no way out.
"""

from typing import Any

from tarn.java import load
from tarn_plugins.runtime.yarn.messages import Ask, Shape

__all__ = ["constrained", "for_master", "plain", "unknown_types"]

_RECORDS = "org.apache.hadoop.yarn.api.records."
_NAMESPACES = {"all": "all", "cluster": "self"}
"""Scope to YARN's namespace of allocation tags."""
_NOBODY = "tarn-nobody"
"""A tag that no container has: keeping away from it is a constraint that constrains nothing."""
_ANYBODY = "tarn"
"""The tag of containers without one; AMRMClient keeps asks by their tags."""


def unknown_types(shape: Shape) -> tuple[str, ...]:
    """Return the resource types of *shape* that Hadoop's configuration does not have."""
    known = load("org.apache.hadoop.yarn.util.resource.ResourceUtils").getResourceTypes()
    return tuple(name for name, _ in shape.accelerators if not known.containsKey(name))


def constrained(ask: Ask, count: int) -> Any:
    """Return a ``SchedulingRequest`` for *count* containers in all: 1, or 0 to cancel.

    The content under one key (priority 0, the number) must never change but for *count*.
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
