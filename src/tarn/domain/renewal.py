"""Which instances are replaced though they run: unwell ones, once confirmed, and aged ones. Pure.

One that is out of the view already drains at once: it is not a loss. One that still serves
*retires*: its replacement comes first, as when a person asks for a drain. Never many at once, and
one that took the place of an unwell one and is unwell itself waits, longer each time.
"""

from collections.abc import Iterator

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.replacing import no_room
from tarn.domain.strikes import may_relapse
from tarn.domain.verdicts import FOR_UNWELL

__all__ = ["leave_at_once", "retire_worn", "takes_more"]

AT_ONCE = 10
"""One in so many instances may be on its way at once, and one always."""


def retire_worn(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with those marked that retire: they serve until a replacement does."""
    spec = rules.spec.instance
    aging = spec.max_age_s is not None or spec.max_rss_mib is not None
    if not aging and all(i.unwell is None for i in fleet.instances):
        return fleet
    if not _may_renew(fleet, now_s) or any(i.retiring is not None for i in fleet.instances):
        return fleet
    found = next(_unwell_in_view(fleet, rules, now_s), None)
    why, code = FOR_UNWELL, "TARN-1142"
    said = f"{found.unwell.words}; " if found is not None and found.unwell is not None else ""
    if found is None and aging:
        code = "TARN-1172"
        found, why = _worn(fleet, rules, now_s, at)
        said = f"{why}; "
    if found is None or no_room(fleet, rules):
        return fleet
    retiring = found.but(retiring=fleet.next_number, retiring_for=why)
    instances = tuple(retiring if i.id == found.id else i for i in fleet.instances)
    fleet = attrs.evolve(fleet, instances=instances)
    return fleet.note(at, code, found.id, f"{said}it serves until a replacement does")


def leave_at_once(fleet: Fleet, rules: Rules, now_s: float) -> dict[str, str]:
    """Return those that are to drain now, by id, each with the reason."""
    if all(i.unwell is None for i in fleet.instances):
        return {}
    leaving = [
        i for i in _confirmed(fleet, rules, now_s) if not i.in_view or _spared(i, fleet, rules)
    ]
    if not leaving or not _may_renew(fleet, now_s):
        return {}
    room = max(1, fleet.desired // AT_ONCE) - _on_their_way(fleet)
    reasons = {i.id: i.unwell.words for i in leaving if i.unwell is not None}
    return dict(list(reasons.items())[: max(0, room)])


def _may_renew(fleet: Fleet, now_s: float) -> bool:
    held = fleet.ending or fleet.halted or fleet.frozen_s is not None or fleet.blind
    return not held and now_s >= fleet.retry_s


def _on_their_way(fleet: Fleet) -> int:
    """Return how many unwell ones drain, or others start; who waits for a place starts nothing."""
    return sum(map(_is_on_its_way, fleet.instances))


def _is_on_its_way(instance: Instance) -> bool:
    match instance.state:
        case InstanceState.DRAINING:
            return instance.unwell is not None
        case InstanceState.REQUESTED:
            return not instance.reason
        case _:
            return instance.state is InstanceState.STARTING


def _confirmed(fleet: Fleet, rules: Rules, now_s: float) -> Iterator[Instance]:
    """Yield the ready ones that were proven unwell, and may be replaced now."""
    if not rules.spec.instance.unwell.replace:
        return
    alike = {one.model for one in fleet.alike}
    for i in fleet.of(InstanceState.READY):
        unwell = i.unwell
        if unwell is None or not unwell.severe or not unwell.confirmed or unwell.for_all:
            continue
        if unwell.model not in alike and may_relapse(fleet, i, now_s):
            yield i


def _unwell_in_view(fleet: Fleet, rules: Rules, now_s: float) -> Iterator[Instance]:
    return (i for i in _confirmed(fleet, rules, now_s) if i.in_view)


def _spared(instance: Instance, fleet: Fleet, rules: Rules) -> bool:
    """Say whether one in the view can leave first, where no replacement can come first."""
    others = any(i.in_view and i.unwell is None and i.id != instance.id for i in fleet.instances)
    return others and bool(no_room(fleet, rules))


def _worn(fleet: Fleet, rules: Rules, now_s: float, at: float) -> tuple[Instance | None, str]:
    """Return the oldest that is too old, or one that holds too much memory, and which it is.

    Only while all is at rest: so they leave one at a time. One that held too much from the
    beginning stays: another one would hold as much.
    """
    spec, instances = rules.spec.instance, fleet.instances
    if fleet.strikes or len(instances) != fleet.desired or not all(i.in_view for i in instances):
        return None, ""
    for i in sorted(instances, key=lambda i: _age_s(i, now_s, at), reverse=True):
        age_s, rss_mib = _age_s(i, now_s, at), i.rss_mib
        if spec.max_age_s is not None and age_s > spec.max_age_s:
            return i, f"it has run for longer than instance.max_age = {spec.max_age_s:g} s"
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
    """Return since when its process runs; the time under this master where that is not known."""
    return at - instance.started_at if instance.started_at else now_s - instance.requested_s
