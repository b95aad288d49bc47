"""Who has had which control call, what becomes of a call, and who must wait for one. Pure."""

import enum
from collections.abc import Iterable, Iterator

import attrs

from tarn.domain.control_calls import CallKind, CallProgress, ControlCall, WantedCalls
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState

__all__ = ["CallState", "InstanceCallState", "behind", "settle_calls", "who_has", "why_not_yet"]

PATIENCE_S = 10.0
"""A call that is younger is on its way, and no trouble yet."""
NAMED = 5
"""Instances that one line names."""
LOOKED_AT = 50
"""Instances that a tick looks at for it."""


class CallState(enum.StrEnum):
    """How one instance stands to one call."""

    HAS = "has it"
    NOT_YET = "not yet"
    REFUSES = "refuses"


@attrs.frozen
class InstanceCallState:
    """How one instance stands to one call, and why."""

    instance: Instance
    state: CallState
    why: str = ""


def who_has(instances: Iterable[Instance], call: ControlCall) -> Iterator[InstanceCallState]:
    """Yield how each instance that has a process, and stays, stands to *call*."""
    for instance in instances:
        if instance.state in (InstanceState.STARTING, InstanceState.READY):
            yield _stands(instance, call)


def _stands(instance: Instance, call: ControlCall) -> InstanceCallState:
    progress = instance.calls
    refusal = progress.refusal(call.number)
    if progress.has(call.number):
        return InstanceCallState(instance, CallState.HAS)
    if refusal is not None and refusal.final:
        return InstanceCallState(instance, CallState.REFUSES, refusal.error)
    return InstanceCallState(instance, CallState.NOT_YET, _why(instance, progress, call))


def _why(instance: Instance, progress: CallProgress, call: ControlCall) -> str:
    refusal = progress.refusal(call.number)
    if refusal is not None:
        return f"it refused, and will be asked again: {refusal.error}"
    if progress.at_work == call.number:
        return "it is carrying out this call"
    if instance.suspect:
        return f"it is out of the view: {instance.suspect}"
    if instance.state is InstanceState.STARTING:
        return f"it is starting{f': {instance.reason}' if instance.reason else ''}"
    return (
        f"it is carrying out call {progress.at_work}"
        if progress.at_work
        else "it is waiting for its turn"
    )


def settle_calls(fleet: Fleet, rules: Rules, at: float) -> Fleet:
    """Return *fleet* with an end for each call that every instance has answered.

    Done by somebody: it is wanted from then on. Refused by all: it is dropped, and what was wanted
    before is wanted again, for a Triton that refuses keeps what it had.
    """
    if not fleet.control.unsettled:
        return fleet
    for call in fleet.control.calls:
        if call.number in fleet.control.unsettled:
            fleet = _settled(fleet, call, rules, at)
    return fleet


def _settled(fleet: Fleet, call: ControlCall, rules: Rules, at: float) -> Fleet:
    stand = tuple(who_has(fleet.instances, call))
    if not stand or any(one.state is CallState.NOT_YET for one in stand):
        return fleet
    refused = [(one.instance.id, one.why) for one in stand if one.state is CallState.REFUSES]
    subject = call.model or fleet.name
    if len(refused) == len(stand):
        control = fleet.control.dropped(call, refused)
        id_, why = refused[0]
        found = f"{call.said} (call {call.number}): no instance could do it; {id_}: {why}"
        return attrs.evolve(fleet, control=control).note(at, "TARN-1145", subject, found)
    control = fleet.control.settled(call, keep=bool(refused) or not _as_started(call, rules))
    had = f"{call.said} (call {call.number}): {len(stand) - len(refused)} of {len(stand)} have it"
    return attrs.evolve(fleet, control=control).note(at, "TARN-1125", subject, had)


def _as_started(call: ControlCall, rules: Rules) -> bool:
    """Say whether a start leads to the same as *call*: it does not load the model."""
    serve = rules.spec.models.serve
    return call.kind is CallKind.UNLOAD and bool(serve) and call.model not in serve


def why_not_yet(instance: Instance, control: WantedCalls, had: Iterable[Instance]) -> str:
    """Say which call keeps *instance* out of the view; empty when none does.

    A new one must have had every call, and must not have refused the load of a model that others
    in the view (*had*) did. One that comes back must have had every call, too. One that an earlier
    master may have had in the view is held only by what it lacked from its beginning.
    """
    progress = instance.calls
    if not control.calls or progress.upto >= control.number:
        return ""
    fresh = instance.state is InstanceState.STARTING and not instance.adopted
    for call in progress.pending(control):
        if call.number <= progress.born or not instance.adopted or instance.ready_s is not None:
            refusal = progress.refusal(call.number)
            why = f": {refusal.error}" if refusal else ""
            return f"it has not carried out the {call.said} yet (call {call.number}){why}"
    loads = (c for c in control.calls if c.kind is CallKind.LOAD and progress.gave_up(c.number))
    for call in loads if fresh else ():
        if any(one.in_view and one.calls.has(call.number) for one in had):
            refusal = progress.refusal(call.number)
            assert refusal is not None
            return (
                f"it refuses the {call.said}, which others in the view have carried out: "
                f"{refusal.error}"
            )
    return ""


def behind(fleet: Fleet, at: float) -> str:
    """Say which calls some instance lacks though it serves or refuses; empty when all have all."""
    if not fleet.control.calls:
        return ""
    lacking = [
        i for i in fleet.of(InstanceState.STARTING, InstanceState.READY) if _lacks(i, fleet.control)
    ]
    said: dict[int, list[str]] = {}
    calls = {call.number: call for call in fleet.control.calls}
    for instance in lacking[:LOOKED_AT]:
        for number, call in calls.items():
            if at - call.asked_at >= PATIENCE_S and not instance.calls.has(number):
                one = _stands(instance, call)
                if one.state is CallState.REFUSES or _is_late(instance, call):
                    each = f"{instance.id} {one.state} ({one.why})"
                    said.setdefault(number, []).append(each)
    more = f" (and perhaps {len(lacking) - LOOKED_AT} more)" if len(lacking) > LOOKED_AT else ""
    texts = (
        f"{calls[number].said} (call {number}): {', '.join(each[:NAMED])}"
        + (f" and {len(each) - NAMED} more" if len(each) > NAMED else "")
        for number, each in said.items()
    )
    return "; ".join(texts) + (more if said else "")


def _lacks(instance: Instance, control: WantedCalls) -> bool:
    return instance.calls.upto < control.number


def _is_late(instance: Instance, call: ControlCall) -> bool:
    refused = instance.calls.refusal(call.number) is not None
    return refused or instance.state is InstanceState.READY
