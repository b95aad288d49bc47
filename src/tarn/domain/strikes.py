"""Quick failures in a row: wait longer after each, and in the end give up launching."""

import attrs

from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, State

__all__ = ["count_failure", "forgive"]

QUICK_S = 5.0
"""A failure before ready, or within this time after, counts as a strike."""
STRIKES = 5
"""Quick failures in a row after which launching is given up."""
RETRY_FIRST_S = 1.0
"""Back-off after the first strike; doubled by each further one."""
RETRY_MOST_S = 60.0
RETRY_DOUBLINGS = 6
"""After these the most is reached; a crowd that fails together makes thousands of strikes."""


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
        "trying again cannot help"
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
    if fleet.strikes and any(_proven(i, fleet.retry_s, now_s) for i in fleet.of(State.READY)):
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
