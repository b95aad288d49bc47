"""The receipt of a drain: what ended, what was lost, what was cut, and who had let go of it."""

from tarn.domain.draining import DrainProgress
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.samples import Unknown

__all__ = ["drained", "stopped"]

NAMED = 5
"""How many followers a receipt names; clients follow, too."""


def drained(instance: Instance, now_s: float) -> str:
    """Return the receipt of a drain, without the name of who drained; '' when it was none.

    None: it was only asked for, never served, or was stopped because it was broken. For example
    ``12 requests in 3.1 s, 0 lost, 0 cut; haproxy@lb1 acknowledged 3.88``, where 3 is the attempt
    of the master's epoch and 88 the revision of the view. What is not known is said to be so.
    """
    served = instance.endpoint is not None and not instance.untouched
    if instance.state is not InstanceState.DRAINING or instance.condemned or not served:
        return ""
    lasted = f"in {now_s - instance.since_s:.1f} s"
    drain = instance.drain
    if drain is None:
        return f"requests unknown {lasted}, lost unknown, cut unknown"
    told = ", ".join((f"{_ended(drain)} {lasted}", _lost(drain), _cut(drain)))
    return "; ".join((told, *_followers(drain), *_estimated(drain)))


def stopped(instance: Instance, now_s: float) -> str:
    """Return the receipt of a stop that was not a drain."""
    if instance.endpoint is None:
        return "cancelled before it started"
    why = f": {instance.reason}" if instance.reason else ""
    if instance.untouched and not instance.condemned:
        return f"stopped before it was ready{why if instance.evicted else ''}"
    return f"stopped after {now_s - instance.since_s:.1f} s{why}"


def _ended(drain: DrainProgress) -> str:
    if drain.began is None:
        return "requests unknown"
    count = round(drain.succeeded + drain.failed)
    return f"{_least(drain)}{count} request{'' if count == 1 else 's'}"


def _lost(drain: DrainProgress) -> str:
    if drain.began is None:
        return "lost unknown"
    return f"{_least(drain)}{round(drain.failed)} lost"


def _least(drain: DrainProgress) -> str:
    """An empty Triton has no counters to read, and nothing more to count either."""
    return "at least " if drain.unseen and not drain.proven else ""


def _cut(drain: DrainProgress) -> str:
    if drain.cut is None:
        return "cut unknown"
    least = "at least " if drain.more_cut else ""
    return f"{least}{drain.cut} cut" + (" at drain.timeout" if drain.cut else "")


def _followers(drain: DrainProgress) -> list[str]:
    said = [f"{name} acknowledged {revision}" for name, revision in drain.acknowledged]
    if len(said) > NAMED:
        said = [*said[:NAMED], f"{len(said) - NAMED} more did"]
    lost = [f"the lease of {name} had run out" for name in drain.parted]
    return [", ".join((*said, *lost))] if said or lost else []


def _estimated(drain: DrainProgress) -> list[str]:
    """Say that the end of the last request was an estimate, where it should have been proven."""
    if not drain.refused:
        return []
    assert isinstance(drain.unloaded, Unknown)
    return [f"it is an estimate that nothing executed: {drain.refused}"]
