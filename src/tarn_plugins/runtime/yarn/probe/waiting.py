"""Why a container does not come, in words. Pure."""

from collections.abc import Iterator

from tarn_plugins.runtime.yarn.probe.order import Crowd, Node, Order

__all__ = ["hopeless", "waits"]

_UNITS = {"memory-mb": " MiB", "vcores": " vcores"}


def hopeless(order: Order, crowd: Crowd) -> str:
    """Say why waiting longer is of no use; empty where it may be."""
    if not crowd.nodes:
        return "no NodeManager runs"
    if order.label and not _of(order.label, crowd):
        others = sorted({node.label for node in crowd.nodes if node.label})
        known = f"; nodes that run have: {', '.join(others)}" if others else "; no node has any"
        return f"no node that runs has the label '{order.label}'{known}"
    return ""


def waits(order: Order, crowd: Crowd) -> str:
    """Say why it has not come so far."""
    return "; ".join(_reasons(order, crowd)) or "YARN gave no reason"


def _reasons(order: Order, crowd: Crowd) -> Iterator[str]:
    nodes = _of(order.label, crowd) or crowd.nodes
    wanted = _wanted(order)
    if nodes and not any(_fits(wanted, node) for node in nodes):
        asked = ", ".join(f"{count}{_UNITS.get(kind, f' {kind}')}" for kind, count in wanted)
        yield f"none of the {len(nodes)} nodes {_named(order.label)} has {asked} free"
    free = crowd.queue_free_mib
    if free is not None and free < order.memory_mib:
        yield f"the queue '{order.queue}' has {max(free, 0)} MiB left for this user"
    if said := crowd.diagnostics.strip().partition("\n")[0]:
        yield f"YARN says: {said}"


def _of(label: str, crowd: Crowd) -> tuple[Node, ...]:
    return tuple(node for node in crowd.nodes if node.label == label)


def _named(label: str) -> str:
    return f"with the label '{label}'" if label else "of the default partition"


def _wanted(order: Order) -> list[tuple[str, int]]:
    gpus = [(order.gpu_resource, order.gpus)] if order.gpus else []
    return [("memory-mb", order.memory_mib), ("vcores", order.vcores), *gpus]


def _fits(wanted: list[tuple[str, int]], node: Node) -> bool:
    return all(node.free.get(kind, 0) >= count for kind, count in wanted)
