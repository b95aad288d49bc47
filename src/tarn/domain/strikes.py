"""Quick failures in a row: wait longer after each, and in the end give up launching."""

import attrs

from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, InstanceState

__all__ = ["count_failure", "count_relapse", "forgive", "may_relapse"]

QUICK_S = 5.0
"""A failure before ready, or within this time after, counts as a strike."""
STRIKES = 5
"""Quick failures in a row after which launching is given up."""
RETRY_FIRST_S = 1.0
"""Back-off after the first strike; doubled by each further one."""
RETRY_MOST_S = 60.0
RETRY_DOUBLINGS = 6
"""After these the most is reached; a crowd that fails together makes thousands of strikes."""

RELAPSE_FIRST_S = 60.0
"""An unwell instance that had taken the place of an unwell one waits so long; doubled each time."""
RELAPSE_MOST_S = 1800.0
RELAPSE_DOUBLINGS = 5
RELAPSES_OVER_S = 3600.0
"""After so long without a replacement the next one begins a new row."""


def may_relapse(fleet: Fleet, instance: Instance, now_s: float) -> bool:
    """Say whether the unwell *instance* may be replaced at *now_s*.

    What was there before the first replacement may at once. What came after it is no better than
    what it replaced, so another one may be no better, either.
    """
    since_s, first = fleet.replaced_s, fleet.replaced_from
    if since_s is None or now_s - since_s >= RELAPSES_OVER_S or instance.number < first:
        return True
    pause_s: float = RELAPSE_FIRST_S * 2 ** min(fleet.relapses, RELAPSE_DOUBLINGS)
    return now_s - since_s >= min(pause_s, RELAPSE_MOST_S)


def count_relapse(fleet: Fleet, instance: Instance, now_s: float) -> Fleet:
    """Return *fleet* with the replacement of the unwell *instance* counted."""
    since_s = fleet.replaced_s
    if since_s is None or now_s - since_s >= RELAPSES_OVER_S:
        return attrs.evolve(
            fleet,
            replaced_s=now_s,
            replaced_from=instance.retiring or fleet.next_number,
            relapses=0,
        )
    again = instance.number >= fleet.replaced_from
    return attrs.evolve(fleet, replaced_s=now_s, relapses=fleet.relapses + again)


def count_failure(
    fleet: Fleet, instance: Instance, now_s: float, at: float, *, final: bool
) -> Fleet:
    """Count a quick failure, and wait longer after each; five, or a *final* one, are the end.

    While another instance serves there is no end: the same launch works.
    """
    if _served(instance, now_s):
        return fleet
    strikes = fleet.strikes + 1
    pause_s = min(RETRY_FIRST_S * 2 ** min(fleet.strikes, RETRY_DOUBLINGS), RETRY_MOST_S)
    fleet = attrs.evolve(fleet, strikes=strikes, retry_s=now_s + pause_s)
    if fleet.halted or _serves(fleet, now_s) or (strikes < STRIKES and not final):
        return fleet
    why = (
        "another attempt cannot help"
        if final
        else f"{strikes} instances in a row failed quickly; the last"
    )
    fleet = attrs.evolve(fleet, halted=f"{why}, {instance.id}: {instance.reason}")
    return fleet.note(at, "TARN-1112", fleet.name, fleet.halted)


def forgive(fleet: Fleet, now_s: float, at: float) -> Fleet:
    """Return *fleet* without strikes once a launch after the last failure proved good.

    Launching that was given up goes on as soon as an instance serves: one like it can be launched.
    The strikes stay, so the next ones wait as long as before.
    """
    if fleet.halted and (server := _serves(fleet, now_s)):
        said = f"launching goes on: {server} has served for {QUICK_S:g} s"
        fleet = attrs.evolve(fleet, halted="").note(at, "TARN-1127", fleet.name, said)
    if fleet.strikes and any(
        _proven(i, fleet.retry_s, now_s) for i in fleet.of(InstanceState.READY)
    ):
        return attrs.evolve(fleet, strikes=0)
    return fleet


def _proven(instance: Instance, retry_s: float, now_s: float) -> bool:
    """Say whether it shows that launching works again: asked for after the last failure, and well.

    Those that served all the while say nothing about new ones.
    """
    fresh = instance.requested_s >= retry_s and not instance.adopted
    return fresh and _served(instance, now_s)


def _serves(fleet: Fleet, now_s: float) -> str:
    """Return the id of an instance in the view that has served for long enough; else nothing."""
    return next((i.id for i in fleet.instances if i.in_view and _served(i, now_s)), "")


def _served(instance: Instance, now_s: float) -> bool:
    return instance.ready_s is not None and now_s - instance.ready_s >= QUICK_S
