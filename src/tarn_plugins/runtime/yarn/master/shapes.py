"""What is asked of YARN for one instance, and where its Triton listens. Pure."""

from collections.abc import Iterable, Mapping

from tarn.domain import Endpoint, Launch
from tarn.domain.spec import PlacementSpec, TritonSpec
from tarn_plugins.runtime.yarn.launch.ports import wanted_ports
from tarn_plugins.runtime.yarn.messages import Shape

__all__ = [
    "NoPortError",
    "endpoint_on",
    "number_of",
    "shape_of",
    "size_in_words",
    "too_large",
]

FIRST_FREE = 20_000
"""For a port of 0: above the services that people know by number, below outgoing connections."""
_SETS = 4_000
_STEP = 3
_LAST = 65_535


class NoPortError(Exception):
    """A node has no set of ports left."""


def number_of(instance_id: str) -> int:
    """Return the number in ``<name>-<nnnn>``, the allocationRequestId; 0 for another form."""
    digits = instance_id.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def shape_of(launch: Launch, placement: PlacementSpec) -> Shape:
    """Return the container that one instance of *launch* needs."""
    resources = launch.instance.resources
    accelerators = ((resources.gpu_resource, resources.gpus),) if resources.gpus else ()
    return Shape(
        resources.memory_mib,
        resources.vcores,
        accelerators,
        placement.node_label,
        placement.tag,
        placement.scope if placement.spread == "node" else "none",
    )


def too_large(shape: Shape, maximum: Mapping[str, int]) -> str:
    """Return in words why no container can ever be this large; '' when one can be.

    *maximum* is what the ResourceManager told at registration; an empty one tells nothing.
    """
    if not maximum:
        return ""
    sizes = (
        ("memory-mb", shape.memory_mib, "MiB of memory", "yarn.scheduler.maximum-allocation-mb"),
        ("vcores", shape.vcores, "vcores", "yarn.scheduler.maximum-allocation-vcores"),
        *((name, count, name, "yarn.resource-types") for name, count in shape.accelerators),
    )
    for name, asked, unit, key in sizes:
        most = maximum.get(name, 0)
        if asked > most:
            return (
                f"asks {asked} {unit}; the ResourceManager grants at most {most} to one container; "
                f"see {key} and the nodes"
            )
    return ""


def size_in_words(shape: Shape) -> str:
    """Return what must be free on a node: ``4096 MiB, 2 vcores and 1 yarn.io/gpu``."""
    parts = [f"{shape.memory_mib} MiB", f"{shape.vcores} vcore{'s' * (shape.vcores != 1)}"]
    parts += [f"{count} {name}" for name, count in shape.accelerators]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def endpoint_on(node: str, number: int, triton: TritonSpec, held: Iterable[Endpoint]) -> Endpoint:
    """Return where instance *number* listens on *node*: a set of ports that none of ours has.

    The ports of the spec, else the next set, three further on, and so forth. A port of 0 is taken
    from a range of its own, at a place that depends on the number: nobody can look from here what
    is free there, and an instance that follows another at once meets no socket of it.

    Args:
        node: Host name of the NodeManager.
        number: The instance's number.
        triton: Its ports.
        held: Endpoints of our other instances on that node.

    Raises:
        NoPortError: Every set is taken.
    """
    taken = {port for e in held for port in (e.http_port, e.grpc_port, e.metrics_port)}
    first = wanted_ports(triton)
    chance = FIRST_FREE + _STEP * (number % _SETS)
    for step in range(_SETS):
        free = FIRST_FREE + (chance - FIRST_FREE + _STEP * step) % (_STEP * _SETS)
        ports = [p + _STEP * step if p else free + i for i, p in enumerate(first)]
        if max(ports) <= _LAST and len(set(ports)) == len(ports) and not taken & set(ports):
            return Endpoint(node, *ports)
    raise NoPortError(node)
