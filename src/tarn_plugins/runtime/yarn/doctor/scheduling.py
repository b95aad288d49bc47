"""From what ``/ws/v1/cluster/scheduler`` answers to `Scheduler`. Pure.

The answer differs between versions and schedulers; what is not in it is not known, and no error.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tarn_plugins.runtime.yarn.client.overview import MEMORY, VCORES, Amounts
from tarn_plugins.runtime.yarn.doctor.survey import Partition, QueueFacts, Scheduler

__all__ = ["scheduler"]

Plain = Mapping[str, Any]

_ROOT = "root"
_FEW = 1
"""The vcores in every sum that a calculator makes which counts memory only."""


def scheduler(answer: Any) -> Scheduler | None:
    """Return the scheduler that the RM's REST API shows; None: there is none in *answer*."""
    info = _part(_part(answer, "scheduler"), "schedulerInfo")
    kind = str(info.get("type", ""))
    if not kind:
        return None
    if kind == "capacityScheduler":
        queues = tuple(
            _capacity_queue(path, queue) for path, queue in _leaves(info, "queues", _ROOT)
        )
        return Scheduler("capacity", _counts_all(queues), queues)
    if kind == "fairScheduler":
        queues = tuple(
            _fair_queue(path, queue)
            for path, queue in _leaves(_part(info, "rootQueue"), "childQueues", _ROOT)
        )
        policy = str(_part(info, "rootQueue").get("schedulingPolicy", "")).lower()
        return Scheduler("fair", None, queues, policy)
    return Scheduler(kind.removesuffix("Scheduler"))


def _leaves(queue: Plain, key: str, parent: str) -> Iterator[tuple[str, Plain]]:
    """Yield the queues below *queue* that have none below them, each with its whole path.

    It is put together here: before Hadoop 3.4 a queue tells its own name only, and the one of a
    fair scheduler is a whole path.
    """
    for one in _list(_part(queue, key).get("queue")):
        name = str(one.get("queueName", ""))
        path = name if name.startswith(f"{parent}.") else f"{parent}.{name}"
        if _list(_part(one, key).get("queue")):
            yield from _leaves(one, key, path)
        else:
            yield path, one


def _capacity_queue(path: str, queue: Plain) -> QueueFacts:
    capacities = {
        str(one.get("partitionName", "")): one
        for one in _list(_part(queue, "capacities").get("queueCapacitiesByPartition"))
    }
    usages = {
        str(one.get("partitionName", "")): one
        for one in _list(_part(queue, "resources").get("resourceUsagesByPartition"))
    }
    return QueueFacts(
        path=path,
        partitions=tuple(
            _partition(label, capacities.get(label, {}), usages.get(label, {}), queue)
            for label in sorted({*capacities, *usages})
        ),
        user_factor=_number(queue.get("userLimitFactor")),
        master_percent=_number(queue.get("configuredMaxAMResourceLimit")),
        active=_whole(queue.get("numActiveApplications")) or 0,
        applications=_whole(queue.get("numApplications")) or 0,
        most_applications=_whole(queue.get("maxApplications")),
        max_lifetime_s=_whole(queue.get("maxApplicationLifetime")),
        default_lifetime_s=_whole(queue.get("defaultApplicationLifetime")),
    )


def _partition(label: str, capacity: Plain, usage: Plain, queue: Plain) -> Partition:
    """Return one partition; of the default one the queue's own fields are as good."""
    whole = queue if label == "" else {}
    return Partition(
        label,
        guaranteed=_amounts(capacity.get("effectiveMinResource")),
        most=_amounts(capacity.get("effectiveMaxResource")),
        used=_amounts(usage.get("used")),
        masters=_amounts(whole.get("AMResourceLimit") or usage.get("amLimit")),
        masters_used=_amounts(whole.get("usedAMResource") or usage.get("amUsed")),
    )


def _counts_all(queues: tuple[QueueFacts, ...]) -> bool | None:
    """Say whether vcores count: the room for masters is a share of a queue, made by the calculator.

    A DefaultResourceCalculator makes it from memory, and writes one vcore next to it.
    """
    for queue in queues:
        for part in queue.partitions:
            share = queue.master_percent or 0.0
            expected = part.most.get(VCORES, 0) * share
            if part.masters.get(MEMORY, 0) > 0 and expected > 2 * _FEW:
                return part.masters.get(VCORES, 0) > _FEW
    return None


def _fair_queue(path: str, queue: Plain) -> QueueFacts:
    active = _whole(queue.get("numActiveApps")) or 0
    return QueueFacts(
        path=path,
        partitions=(
            Partition(
                "",
                guaranteed=_amounts(queue.get("steadyFairResources")),
                most=_amounts(queue.get("maxResources")),
                used=_amounts(queue.get("usedResources")),
                masters=_amounts(queue.get("amMaxResources")),
                masters_used=_amounts(queue.get("amUsedResources")),
            ),
        ),
        active=active,
        applications=active + (_whole(queue.get("numPendingApps")) or 0),
        most_applications=_whole(queue.get("maxApps")),
        policy=str(queue.get("schedulingPolicy", "")).lower(),
    )


def _amounts(resource: Any) -> Amounts:
    """Return a resource of the REST API as type -> amount; an older one has two types only."""
    if not isinstance(resource, Mapping):
        return {}
    listed = _list(_part(resource, "resourceInformations").get("resourceInformation"))
    if listed:
        return {str(one.get("name")): _whole(one.get("value")) or 0 for one in listed}
    if "memory" not in resource:
        return {}
    found = {MEMORY: resource["memory"], VCORES: resource.get("vCores")}
    return {kind: _whole(amount) or 0 for kind, amount in found.items()}


def _part(plain: Any, key: str) -> Plain:
    found = plain.get(key) if isinstance(plain, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _list(found: Any) -> list[Plain]:
    """Return a list of JSON that Java made: one element may stand without its brackets."""
    listed = found if isinstance(found, list) else [found]
    return [one for one in listed if isinstance(one, Mapping)]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
