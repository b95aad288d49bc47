"""When an instance that a person wants gone may leave: once others serve all that it serves. Pure.

Such an instance is *retiring*: it stays in the view until a replacement has taken its place. The
fleet may be larger by ``update.surge`` meanwhile. Nothing that was served may be lost by it: each
model keeps as many instances as served it when the drain was asked for, up to the desired size.
"""

from collections.abc import Iterable, Sequence

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance

__all__ = ["after_another", "lacks", "leaver", "most", "no_room"]


def most(fleet: Fleet, rules: Rules) -> int:
    """Return how many instances the fleet may have besides those that drain."""
    surge = rules.spec.update.surge
    if rules.ceiling is not None:
        surge = min(surge, max(0, rules.ceiling - fleet.desired))
    return fleet.desired + surge


def no_room(fleet: Fleet, rules: Rules) -> str:
    """Return why no replacement can start before the old one leaves; empty when one can."""
    if fleet.halted:
        return f"launching is given up ({fleet.halted})"
    if most(fleet, rules) > fleet.desired:
        return ""
    if rules.spec.update.surge == 0:
        return "`update.surge` is 0"
    return f"the ceiling is {rules.ceiling} ({rules.ceiling_reason})"


def lacks(instance: Instance, others: Iterable[Instance], desired: int) -> str:
    """Return what would be lost if *instance* left *others*, in words; empty when nothing would."""
    serving = [i for i in others if i.in_view and i.id != instance.id]
    before = [i for i in serving if not _is_newer(i, instance)]
    # one that was there then and failed since has no part in it: another one is on its way
    need = min(desired, max(len(before), instance.others_then) + 1)
    if len(serving) < need:
        return "no replacement is ready yet"
    for model in sorted(_ready(instance)):
        count = sum(model in _ready(i) for i in serving)
        if count < min(desired, sum(model in _ready(i) for i in before) + 1):
            who = "no other instance serves" if not count else f"only {count} other(s) would serve"
            return f"{who} model '{model}'"
    return ""


def leaver(staying: Sequence[Instance], retiring: Sequence[Instance], desired: int) -> str:
    """Return the id of the one of *retiring* that may leave now; empty when none may.

    One at a time, in the order of their asking: each one has a replacement of its own.
    """
    for instance in sorted(retiring, key=lambda i: (i.retiring, i.number)):
        if not lacks(instance, (*staying, *retiring), desired):
            return instance.id
    return ""


def after_another(instance: Instance, instances: Iterable[Instance]) -> Instance:
    """Return the retiring *instance* after another one left: what replaced that one is used up."""
    newer = [i.number for i in instances if i.in_view and _is_newer(i, instance)]
    return attrs.evolve(instance, retiring=min(newer) + 1) if newer else instance


def _ready(instance: Instance) -> set[str]:
    return {model for model, state, _ in instance.models if state == "READY"}


def _is_newer(instance: Instance, retiring: Instance) -> bool:
    """Say whether *instance* was asked for after the drain of *retiring* was."""
    return retiring.retiring is not None and instance.number >= retiring.retiring
