"""Why a container does not come, in words. Pure."""

from collections.abc import Iterator

from tarn_plugins.runtime.yarn.client.overview import MEMORY, VCORES, Amounts, amounts_text
from tarn_plugins.runtime.yarn.probe.messages import ProbeRequest, WaitContext

__all__ = ["hopeless", "waits"]


def hopeless(order: ProbeRequest, crowd: WaitContext) -> str:
    """Say why waiting longer is useless; empty where it may be."""
    overview = crowd.overview
    if not overview.nodes:  # not told
        return ""
    if not any(node.runs for node in overview.nodes):
        return f"none of {len(overview.nodes)} NodeManagers runs"
    label = overview.label(order.label, order.queue)
    if overview.running(label):
        return ""
    others = sorted({node.label for node in overview.nodes if node.runs and node.label})
    known = f"; those that run have: {', '.join(others)}" if others else ""
    return f"no running node {_has(label)}{known}"


def waits(order: ProbeRequest, crowd: WaitContext) -> str:
    """Say why it has not come so far."""
    return "; ".join(_reasons(order, crowd)) or "YARN gave no reason"


def _reasons(order: ProbeRequest, crowd: WaitContext) -> Iterator[str]:
    label = crowd.overview.label(order.label, order.queue)
    nodes = crowd.overview.running(label)
    wanted = _wanted(order)
    if nodes and not any(node.has_free(wanted) for node in nodes):
        yield f"of {len(nodes)} nodes, none that {_has(label)} has {amounts_text(wanted)} free"
    free = crowd.queue_free_mib
    if free is not None and free < order.memory_mib:
        yield f"the queue '{order.queue}' has {max(free, 0)} MiB left for this user"
    if said := crowd.diagnostics.strip().partition("\n")[0]:
        yield f"YARN says: {said}"


def _has(label: str) -> str:
    return f"has the label '{label}'" if label else "is in the default partition"


def _wanted(order: ProbeRequest) -> Amounts:
    gpus = {order.gpu_resource: order.gpus} if order.gpus else {}
    return {MEMORY: order.memory_mib, VCORES: order.vcores, **gpus}
