"""Why a container does not come, in words. Pure."""

from collections.abc import Iterator

from tarn_plugins.runtime.yarn.client.land import MEMORY, VCORES, Amounts, shown
from tarn_plugins.runtime.yarn.probe.order import Crowd, Order

__all__ = ["hopeless", "waits"]


def hopeless(order: Order, crowd: Crowd) -> str:
    """Say why waiting longer is useless; empty where it may be."""
    land = crowd.land
    if not land.nodes:  # not told
        return ""
    if not any(node.runs for node in land.nodes):
        return f"none of {len(land.nodes)} NodeManagers runs"
    label = land.label(order.label, order.queue)
    if land.running(label):
        return ""
    others = sorted({node.label for node in land.nodes if node.runs and node.label})
    known = f"; those that run have: {', '.join(others)}" if others else ""
    return f"no running node {_has(label)}{known}"


def waits(order: Order, crowd: Crowd) -> str:
    """Say why it has not come so far."""
    return "; ".join(_reasons(order, crowd)) or "YARN gave no reason"


def _reasons(order: Order, crowd: Crowd) -> Iterator[str]:
    label = crowd.land.label(order.label, order.queue)
    nodes = crowd.land.running(label)
    wanted = _wanted(order)
    if nodes and not any(node.has_free(wanted) for node in nodes):
        yield f"of {len(nodes)} nodes, none that {_has(label)} has {shown(wanted)} free"
    free = crowd.queue_free_mib
    if free is not None and free < order.memory_mib:
        yield f"the queue '{order.queue}' has {max(free, 0)} MiB left for this user"
    if said := crowd.diagnostics.strip().partition("\n")[0]:
        yield f"YARN says: {said}"


def _has(label: str) -> str:
    return f"has the label '{label}'" if label else "is in the default partition"


def _wanted(order: Order) -> Amounts:
    gpus = {order.gpu_resource: order.gpus} if order.gpus else {}
    return {MEMORY: order.memory_mib, VCORES: order.vcores, **gpus}
