"""What an instance that was asked for waits for, in words. Pure.

The words change only when what they say changes: a snapshot is published for each change.
"""

import math

import attrs

from tarn.errors import TarnError
from tarn_plugins.runtime.yarn.master.shapes import size_in_words
from tarn_plugins.runtime.yarn.messages import Shape

__all__ = [
    "LaunchDeadline",
    "Outlook",
    "refusal",
    "rejection",
    "silence",
    "unprepared",
    "waits_for",
]

USUAL_S = 5.0
"""Until then a grant is not late: the scheduler looks at a node once in its heartbeat."""
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


@attrs.frozen
class Outlook:
    """What is known of YARN at present."""

    nodes: int = 0
    """NodeManagers; 0 before the first answer."""
    heard: bool = False
    """There was an answer."""
    holding: int = 0
    """Nodes that hold an instance of ours."""
    avoided: int = 0
    """Nodes avoided after failures."""
    free_mib: int | None = None
    """Headroom of this application in the master's partition, as the scheduler tells it; None: not
    told. A hint only: once a node was lost CapacityScheduler tells less than its smallest
    container, and grants more all the same (seen on Hadoop 3.4.2)."""


@attrs.frozen
class LaunchDeadline:
    """From a moment on nothing new can start."""

    at_s: float = math.inf
    """Monotonic seconds."""
    words: str = ""

    def why(self, now_s: float) -> str:
        """Return why nothing starts any more; '' as long as it does."""
        return self.words if now_s >= self.at_s else ""


def refusal(error: TarnError) -> str:
    """Return that the ResourceManager answers, and takes no word of this master."""
    step = f". {error.next_step}" if error.next_step else ""
    return f"the ResourceManager refuses every request of this master: {error.found}{step}"


def rejection(reason: str) -> str:
    """Return that YARN dropped the ask, for *reason*."""
    return f"the ResourceManager rejected the request ({reason}); TARN keeps retrying"


def unprepared(error: Exception) -> str:
    """Return that a container was granted, and what it needs could not be made ready."""
    return f"its start could not be prepared ({error}); TARN keeps retrying"


def waits_for(shape: Shape, outlook: Outlook, waited_s: float, again: str) -> str:
    """Return what an ask waits for; '' while nothing is unusual.

    Args:
        shape: What was asked.
        outlook: What YARN last told.
        waited_s: Seconds since it was first asked for.
        again: Why it is asked for once more, in words; '' when nothing went wrong.
    """
    if again:
        return again
    if waited_s < USUAL_S or not outlook.heard:
        return ""
    if not outlook.nodes:
        return "YARN has no NodeManager at present"
    # Where no node is permitted, room in a queue is not what is lacking.
    taken = shape.scope != "none" and outlook.holding + outlook.avoided >= outlook.nodes
    if not taken and _queue_is_full(shape, outlook):
        return (
            f"YARN reports {_left(outlook.free_mib or 0)} left in the queue for this cluster, "
            f"and an instance needs {shape.memory_mib} MiB {_count(shape, outlook)}"
        )
    return _no_node(shape, outlook)


def silence(silent_s: float) -> str:
    """Return that the ResourceManager does not answer; '' while it does.

    The time grows in steps, so that the words do not change every second.
    """
    for least_s, words in _SILENCES:
        if silent_s >= least_s:
            return f"the ResourceManager has not answered for {words}"
    return ""


def _queue_is_full(shape: Shape, outlook: Outlook) -> bool:
    # what is told concerns the master's partition, and is nothing about a labelled one
    free_mib = None if shape.node_label else outlook.free_mib
    return free_mib is not None and free_mib < shape.memory_mib


def _left(free_mib: int) -> str:
    if free_mib < _ROUND_MIB:
        return f"less than {_ROUND_MIB} MiB"
    return f"{free_mib // _ROUND_MIB * _ROUND_MIB} MiB"


def _no_node(shape: Shape, outlook: Outlook) -> str:
    label = f" labelled '{shape.node_label}'" if shape.node_label else ""
    count = _count(shape, outlook)
    if shape.scope == "none":
        return f"no node{label} has {size_in_words(shape)} free {count}"
    if outlook.holding + outlook.avoided >= outlook.nodes:
        return f"no node{label} without tag '{shape.tag}' is free {count}"
    return f"no node{label} without tag '{shape.tag}' has {size_in_words(shape)} free {count}"


def _count(shape: Shape, outlook: Outlook) -> str:
    """Return how many nodes there are, and which of them are not permitted."""
    avoided = f"; {outlook.avoided} avoided after failures" if outlook.avoided else ""
    total = f"{outlook.nodes} node{'s' * (outlook.nodes != 1)}"
    if shape.scope == "none":
        return f"({total}{avoided})"
    hold = "holds" if outlook.holding == 1 else "hold"
    return f"({outlook.holding} of {total} {hold} an instance{avoided})"
