"""Quick failures in a row: the wait grows after each, and then launching is given up."""

import attrs

from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, InstanceState

__all__ = ["count_failure", "count_relapse", "forgive", "may_relapse"]

# A failure before an instance is ready, or within this time after that, counts as a strike.
QUICK_S = 5.0
# Quick failures in a row after which launching is given up.
STRIKES = 5
# Back-off after the first strike; doubled by each further one.
RETRY_FIRST_S = 1.0
RETRY_MOST_S = 60.0
# After these the most is reached. A fleet that fails at once makes thousands of strikes, and
# 2 ** strikes would become too large.
RETRY_DOUBLINGS = 6

# Wait before an unwell instance is replaced that had replaced one itself; doubled each time.
RELAPSE_FIRST_S = 60.0
RELAPSE_MOST_S = 1800.0
RELAPSE_DOUBLINGS = 5
# After this long without a replacement, counting begins again.
RELAPSES_OVER_S = 3600.0


def may_relapse(fleet: Fleet, instance: Instance, now_s: float) -> bool:
    """Say whether the unwell *instance* may be replaced at *now_s*."""
    # An instance that is older than the first replacement may be replaced at once. A newer one is
    # as unwell as the one that it replaced, so yet another one may not be better.
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
    """Return *fleet* with a quick failure counted.

    The wait grows with each. Launching is given up after five in a row, or after a *final* one,
    unless another instance serves: then the same launch can work.
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
    halted = f"{why}, {instance.id}: {instance.reason}"
    fleet = attrs.evolve(fleet, halted=halted, halted_by=instance.id)
    models = (instance.blamed,) if instance.blamed else ()
    return fleet.note(at, "TARN-1112", fleet.name, fleet.halted, models=models)


def forgive(fleet: Fleet, now_s: float, at: float) -> Fleet:
    """Return *fleet* without strikes once a launch after the last failure has succeeded.

    Launching that was given up goes on as soon as an instance serves. The strikes stay then, so the
    next failures wait as long as before.
    """
    if fleet.halted and (server := _serves(fleet, now_s)):
        said = f"launching goes on: {server} has served for {QUICK_S:g} s"
        fleet = attrs.evolve(fleet, halted="", halted_by="").note(at, "TARN-1127", fleet.name, said)
    # Only instances asked for after the last failure show that launching works again.
    if fleet.strikes and any(
        i.requested_s >= fleet.retry_s and not i.adopted and _served(i, now_s)
        for i in fleet.of(InstanceState.READY)
    ):
        return attrs.evolve(fleet, strikes=0)
    return fleet


def _serves(fleet: Fleet, now_s: float) -> str:
    """Return the id of an instance that has served for `QUICK_S`; empty: none has."""
    return next((i.id for i in fleet.instances if i.in_view and _served(i, now_s)), "")


def _served(instance: Instance, now_s: float) -> bool:
    return instance.ready_s is not None and now_s - instance.ready_s >= QUICK_S
