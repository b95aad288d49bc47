"""An instance's request to YARN, its Triton's ports, and the reason of its waiting. Pure.

The texts change rarely, for example in steps of time, since each change publishes a snapshot.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping

import attrs

from tarn.domain import Endpoint, Launch
from tarn.domain.spec import PlacementSpec, TritonSpec
from tarn.errors import TarnError
from tarn.triton.exits import port_taken
from tarn_plugins.runtime.yarn.launch.instance import wanted_ports
from tarn_plugins.runtime.yarn.messages import Shape

__all__ = [
    "ForeignPorts",
    "LaunchDeadline",
    "NoPortError",
    "Outlook",
    "endpoint_on",
    "number_of",
    "refusal",
    "rejection",
    "shape_of",
    "silence",
    "size_in_words",
    "too_large",
    "unprepared",
    "waits_for",
]

# For a port of 0: above well-known services, below the ports of outgoing connections.
FIRST_FREE = 20_000
_SETS = 4_000
# A Triton listens at three ports: HTTP, gRPC, and metrics.
_STEP = 3
_LAST = 65_535

# The oldest are dropped, so that a master that lives for months keeps no ever longer list.
_MOST = 1000

# A grant takes up to this long: the scheduler considers a node at each of its heartbeats.
USUAL_S = 5.0
SILENT_AFTER_S = 5.0
_SILENCES = (
    (3600.0, "an hour"),
    (600.0, "10 minutes"),
    (60.0, "a minute"),
    (30.0, "30 s"),
    (10.0, "10 s"),
    (SILENT_AFTER_S, "5 s"),
)
_ROUND_MIB = 256


class NoPortError(Exception):
    """A node has no free set of ports."""


def number_of(instance_id: str) -> int:
    """Return the number in ``<name>-<nnnn>``, the allocationRequestId; else 0."""
    digits = instance_id.rpartition("-")[2]
    # `isdigit` alone also accepts digits such as '²', which `int` refuses.
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
    """Return why no container can ever be this large; '' if one can.

    *maximum* is the ResourceManager's, from the registration; empty if unknown.
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
    """Return a size as text: ``4096 MiB, 2 vcores and 1 yarn.io/gpu``."""
    parts = [f"{shape.memory_mib} MiB", f"{shape.vcores} vcore{'s' * (shape.vcores != 1)}"]
    parts += [f"{count} {name}" for name, count in shape.accelerators]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def endpoint_on(node: str, number: int, triton: TritonSpec, held: Iterable[Endpoint]) -> Endpoint:
    """Return the endpoint of instance *number* on *node*, with ports that *held* does not have.

    They are the ports of the spec, or the next free set, three further on each time. For a port of
    0 they come from a separate range.

    Args:
        node: Host name of the NodeManager.
        number: The instance's number.
        triton: Its ports.
        held: Endpoints of other instances on that node.

    Raises:
        NoPortError: Every set is taken.
    """
    taken = {port for e in held for port in (e.http_port, e.grpc_port, e.metrics_port)}
    first = wanted_ports(triton)
    # Free ports of a node are not known here. Starting at a place that depends on the number, an
    # instance does not meet a socket that its predecessor on the node has just closed.
    chance = FIRST_FREE + _STEP * (number % _SETS)
    for step in range(_SETS):
        free = FIRST_FREE + (chance - FIRST_FREE + _STEP * step) % (_STEP * _SETS)
        ports = [p + _STEP * step if p else free + i for i, p in enumerate(first)]
        if max(ports) <= _LAST and len(set(ports)) == len(ports) and not taken & set(ports):
            return Endpoint(node, *ports)
    raise NoPortError(node)


@attrs.define(eq=False)
class ForeignPorts:
    """Remembers the endpoints at which an instance could not listen, while this master lives."""

    # Free ports of a node are not known here: any other program may have Triton's usual ports.
    _found: deque[Endpoint] = attrs.field(factory=lambda: deque(maxlen=_MOST))

    def ended(self, endpoint: Endpoint, error: str) -> None:
        """Note the *error* with which the instance at *endpoint* ended."""
        if port_taken(error):
            self._found.append(endpoint)

    def choose(
        self, node: str, number: int, triton: TritonSpec, held: Iterable[Endpoint]
    ) -> Endpoint | None:
        """Return an endpoint on *node* that is not in *held*, nor foreign; None if none is left."""
        foreign = (endpoint for endpoint in self._found if endpoint.host == node)
        try:
            return endpoint_on(node, number, triton, (*held, *foreign))
        except NoPortError:
            return None


@attrs.frozen
class Outlook:
    """YARN's present state, as far as it is known."""

    nodes: int = 0
    """NodeManagers; 0 before the first answer."""
    heard: bool = False
    """Whether YARN has answered."""
    holding: int = 0
    """Nodes with an instance of this cluster."""
    avoided: int = 0
    """Nodes avoided after failures."""
    free_mib: int | None = None
    """The scheduler's headroom for this application in the master's partition; None if unknown.

    It is a hint only: after the loss of a node, CapacityScheduler reported less than its smallest
    container, and still granted more (seen with Hadoop 3.4.2)."""


@attrs.frozen
class LaunchDeadline:
    """A time after which nothing new can start."""

    at_s: float = math.inf
    """Monotonic seconds."""
    words: str = ""

    def why(self, now_s: float) -> str:
        """Return why nothing can start any more; '' before the deadline."""
        return self.words if now_s >= self.at_s else ""


def refusal(error: TarnError) -> str:
    """Return the text for a ResourceManager that refuses this master's requests."""
    step = f". {error.next_step}" if error.next_step else ""
    return f"the ResourceManager refuses every request of this master: {error.found}{step}"


def rejection(reason: str) -> str:
    """Return the text for a rejected request."""
    return f"the ResourceManager rejected the request ({reason}); TARN keeps retrying"


def unprepared(error: Exception) -> str:
    """Return the text for a container whose files could not be prepared."""
    return f"its start could not be prepared ({error}); TARN keeps retrying"


def waits_for(shape: Shape, outlook: Outlook, waited_s: float, again: str) -> str:
    """Return what a request waits for; '' while nothing is unusual.

    Args:
        shape: The requested container.
        outlook: YARN's last known state.
        waited_s: Seconds since the first request.
        again: Why it is requested once more; '' if nothing went wrong.
    """
    if again:
        return again
    if waited_s < USUAL_S or not outlook.heard:
        return ""
    if not outlook.nodes:
        return "YARN has no NodeManager at present"
    # If no node is permitted, the queue is not the cause.
    taken = shape.scope != "none" and outlook.holding + outlook.avoided >= outlook.nodes
    # The headroom is that of the master's partition, and not of a labelled one.
    free_mib = None if shape.node_label else outlook.free_mib
    if not taken and free_mib is not None and free_mib < shape.memory_mib:
        # Rounded, so that the text changes rarely.
        left_mib = free_mib // _ROUND_MIB * _ROUND_MIB
        left = f"{left_mib} MiB" if left_mib else f"less than {_ROUND_MIB} MiB"
        return (
            f"YARN reports {left} left in the queue for this cluster, "
            f"and an instance needs {shape.memory_mib} MiB {_count(shape, outlook)}"
        )
    label = f" labelled '{shape.node_label}'" if shape.node_label else ""
    untagged = "" if shape.scope == "none" else f" without tag '{shape.tag}'"
    lacks = "is free" if taken else f"has {size_in_words(shape)} free"
    return f"no node{label}{untagged} {lacks} {_count(shape, outlook)}"


def silence(silent_s: float) -> str:
    """Return the text for a ResourceManager that does not answer; '' while it does."""
    for least_s, words in _SILENCES:
        if silent_s >= least_s:
            return f"the ResourceManager has not answered for {words}"
    return ""


def _count(shape: Shape, outlook: Outlook) -> str:
    """Return how many nodes there are, and how many are not permitted."""
    avoided = f"; {outlook.avoided} avoided after failures" if outlook.avoided else ""
    total = f"{outlook.nodes} node{'s' * (outlook.nodes != 1)}"
    if shape.scope == "none":
        return f"({total}{avoided})"
    hold = "holds" if outlook.holding == 1 else "hold"
    return f"({outlook.holding} of {total} {hold} an instance{avoided})"
