"""Replace running instances that are unwell or worn, and decide when each may leave. Pure.

A confirmed unwell instance that is already out of the view drains at once, since nothing is lost.
An instance that still serves *retires*, as when a person asks for its drain: it stays in the view
until a replacement serves, and meanwhile the fleet may be larger by ``update.surge``. Only a few
are replaced at once. An unwell instance that had itself replaced an unwell one waits, and longer
each time.
"""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.strikes import may_relapse
from tarn.domain.update import REPLACED_BY_UPDATE, may_leave
from tarn.domain.verdicts import FOR_UNWELL, REPLACED_UNWELL

__all__ = [
    "after_another",
    "lacks",
    "leave_at_once",
    "leaver",
    "most",
    "no_room",
    "retire_worn",
    "takes_more",
]


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
    """Return what would be missing without *instance*, in words; empty if nothing would."""
    # Each model keeps as many instances as served it when the drain was asked for, up to desired.
    serving = [i for i in others if i.in_view and i.id != instance.id]
    before = [i for i in serving if not _is_newer(i, instance)]
    # An instance that served then and has failed since does not count against the drain: it is
    # being replaced, too.
    need = min(desired, max(len(before), instance.others_then) + 1)
    if len(serving) < need:
        return "no replacement is ready yet"
    for model in sorted(_ready(instance)):
        count = sum(model in _ready(i) for i in serving)
        if count < min(desired, sum(model in _ready(i) for i in before) + 1):
            who = "no other instance serves" if not count else f"only {count} other(s) would serve"
            return f"{who} model '{model}'"
    return ""


def leaver(
    staying: Sequence[Instance], retiring: Sequence[Instance], fleet: Fleet, rules: Rules
) -> str:
    """Return the id of the one of *retiring* that may leave now; empty when none may."""
    # One at a time, in the order of the requests, since each has a replacement of its own.
    for instance in sorted(retiring, key=lambda i: (i.retiring, i.number)):
        if instance.retiring_code == REPLACED_BY_UPDATE:
            free = may_leave(instance, fleet, rules)
        else:
            free = not lacks(instance, (*staying, *retiring), fleet.desired)
        if free:
            return instance.id
    return ""


def after_another(instance: Instance, instances: Iterable[Instance]) -> Instance:
    """Return the retiring *instance* after another one left, whose replacement is used up."""
    newer = [i.number for i in instances if i.in_view and _is_newer(i, instance)]
    return attrs.evolve(instance, retiring=min(newer) + 1) if newer else instance


def _ready(instance: Instance) -> set[str]:
    return {model for model, state, _ in instance.models if state == "READY"}


def _is_newer(instance: Instance, retiring: Instance) -> bool:
    """Say whether *instance* was asked for after the drain of *retiring* was."""
    return retiring.retiring is not None and instance.number >= retiring.retiring


# One of this many instances may be on its way to being replaced, and always at least one.
AT_ONCE = 10


def retire_worn(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with the next instance marked that retires; it serves until it is replaced."""
    spec = rules.spec.instance
    aging = spec.max_age_s is not None or spec.max_rss_mib is not None
    if not aging and all(i.unwell is None for i in fleet.instances):
        return fleet
    if not _may_renew(fleet, now_s) or any(i.retiring is not None for i in fleet.instances):
        return fleet
    found = next((i for i in _confirmed(fleet, rules, now_s) if i.in_view), None)
    why, code = FOR_UNWELL, REPLACED_UNWELL
    said = f"{found.unwell.words}; " if found is not None and found.unwell is not None else ""
    if found is None and aging:
        code = "TARN-1172"
        found, why = _worn(fleet, rules, now_s, at)
        said = f"{why}; "
    if found is None or no_room(fleet, rules):
        return fleet
    retiring = found.but(retiring=fleet.next_number, retiring_for=why, retiring_code=code)
    instances = tuple(retiring if i.id == found.id else i for i in fleet.instances)
    fleet = attrs.evolve(fleet, instances=instances)
    return fleet.note(at, code, found.id, f"{said}it serves until a replacement does")


def leave_at_once(fleet: Fleet, rules: Rules, now_s: float) -> dict[str, str]:
    """Return the ids of the unwell instances that are to drain now, each with the reason."""
    if all(i.unwell is None for i in fleet.instances):
        return {}
    leaving = [
        i for i in _confirmed(fleet, rules, now_s) if not i.in_view or _spared(i, fleet, rules)
    ]
    if not leaving or not _may_renew(fleet, now_s):
        return {}
    on_their_way = sum(map(_is_on_its_way, fleet.instances))
    room = max(1, fleet.desired // AT_ONCE) - on_their_way
    reasons = {i.id: i.unwell.words for i in leaving if i.unwell is not None}
    return dict(list(reasons.items())[: max(0, room)])


def _may_renew(fleet: Fleet, now_s: float) -> bool:
    # While launches fail, or the master's own sight is in doubt, a replacement could be worse.
    held = fleet.ending or fleet.halted or fleet.frozen_s is not None or fleet.blind
    return not held and now_s >= fleet.retry_s


def _is_on_its_way(instance: Instance) -> bool:
    """Say whether it is an unwell one that drains, or a new one that starts."""
    match instance.state:
        case InstanceState.DRAINING:
            return instance.unwell is not None
        case InstanceState.REQUESTED:
            return not instance.reason  # with a reason it waits for a place, perhaps for long
        case _:
            return instance.state is InstanceState.STARTING


def _confirmed(fleet: Fleet, rules: Rules, now_s: float) -> Iterator[Instance]:
    """Yield the ready instances that are confirmed as unwell, and may be replaced now."""
    if not rules.spec.instance.unwell.replace:
        return
    alike = {one.model for one in fleet.alike}
    for i in fleet.of(InstanceState.READY):
        unwell = i.unwell
        if unwell is None or not unwell.severe or not unwell.confirmed or unwell.for_all:
            continue
        if unwell.model not in alike and may_relapse(fleet, i, now_s):
            yield i


def _spared(instance: Instance, fleet: Fleet, rules: Rules) -> bool:
    """Say whether *instance* can leave first, since no replacement can start before that."""
    others = any(i.in_view and i.unwell is None and i.id != instance.id for i in fleet.instances)
    return others and bool(no_room(fleet, rules))


def _worn(fleet: Fleet, rules: Rules, now_s: float, at: float) -> tuple[Instance | None, str]:
    """Return an instance that is too old or holds too much memory, and which of both it is."""
    # Only while nothing else changes, so that they leave one at a time.
    spec, instances = rules.spec.instance, fleet.instances
    if fleet.strikes or len(instances) != fleet.desired or not all(i.in_view for i in instances):
        return None, ""
    for i in sorted(instances, key=lambda i: _age_s(i, now_s, at), reverse=True):
        age_s, rss_mib = _age_s(i, now_s, at), i.rss_mib
        if spec.max_age_s is not None and age_s > spec.max_age_s:
            return i, f"it has run for longer than instance.max_age = {spec.max_age_s:g} s"
        # One that held too much from the beginning stays: a replacement would hold as much.
        if spec.max_rss_mib is None or rss_mib is None or takes_more(i, spec.max_rss_mib):
            continue
        if rss_mib > spec.max_rss_mib:
            limit = f"instance.max_rss = {spec.max_rss_mib} MiB"
            return i, f"its processes hold {rss_mib} MiB, more than {limit}"
    return None, ""


def takes_more(instance: Instance, max_rss_mib: int) -> bool:
    """Say whether *instance* held more than *max_rss_mib* from the beginning."""
    return instance.fresh_mib is not None and instance.fresh_mib > max_rss_mib


def _age_s(instance: Instance, now_s: float, at: float) -> float:
    """Return for how long its process has run, or else for how long this master has known it."""
    return at - instance.started_at if instance.started_at else now_s - instance.requested_s
