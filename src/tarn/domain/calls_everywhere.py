"""Which instances have had which control calls, and which must still wait for one. Pure."""

import enum
from collections.abc import Iterable, Iterator

import attrs

from tarn.domain.control_calls import CallKind, CallProgress, ControlCall, WantedCalls
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState

__all__ = ["CallState", "InstanceCallState", "behind", "settle_calls", "who_has", "why_not_yet"]

# A younger call is normally still on its way, so it is not reported.
PATIENCE_S = 10.0
# Instances that one line of text names.
NAMED = 5
# Instances that one tick examines for `behind`, so that its cost is bounded.
LOOKED_AT = 50


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
    """Yield how each starting or ready instance stands to *call*."""
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
    """Return *fleet* with each call settled that every instance has answered.

    A call that some instance has carried out stays wanted. A call that all refused is dropped, and
    the call before it is wanted again.
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
    subject, models = call.model or fleet.name, (call.model,) if call.model else ()
    if len(refused) == len(stand):
        # A Triton that refuses a call keeps what it had, so the call before it is wanted again.
        control = fleet.control.dropped(call, refused)
        id_, why = refused[0]
        found = f"{call.said} (call {call.number}): no instance could do it; {id_}: {why}"
        fleet = attrs.evolve(fleet, control=control)
        return fleet.note(at, "TARN-1145", subject, found, models=models)
    # A start does the same as the unload of a model that `models.serve` does not list.
    serve = rules.spec.models.serve
    needless = call.kind is CallKind.UNLOAD and bool(serve) and call.model not in serve
    control = fleet.control.settled(call, keep=bool(refused) or not needless)
    had = f"{call.said} (call {call.number}): {len(stand) - len(refused)} of {len(stand)} have it"
    fleet = attrs.evolve(fleet, control=control)
    return fleet.note(at, "TARN-1125", subject, had, models=models)


def why_not_yet(instance: Instance, control: WantedCalls, had: Iterable[Instance]) -> str:
    """Say which call keeps *instance* out of the view; empty when none does.

    A new instance must have had every call. It must also not have refused to load a model that
    another instance of *had* in the view has loaded. An instance that returns to the view must have
    had every call. An instance that an earlier master may have had in the view is kept out only by
    calls that are older than itself.
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
    """Say which calls a serving or refusing instance lacks; empty when none does."""
    if not fleet.control.calls:
        return ""
    alive = fleet.of(InstanceState.STARTING, InstanceState.READY)
    lacking = [i for i in alive if i.calls.upto < fleet.control.number]
    said: dict[int, list[str]] = {}
    calls = {call.number: call for call in fleet.control.calls}
    for instance in lacking[:LOOKED_AT]:
        for number, call in calls.items():
            if at - call.asked_at >= PATIENCE_S and not instance.calls.has(number):
                one = _stands(instance, call)
                refused = instance.calls.refusal(number) is not None
                if refused or instance.state is InstanceState.READY:
                    each = f"{instance.id} {one.state} ({one.why})"
                    said.setdefault(number, []).append(each)
    more = f" (and perhaps {len(lacking) - LOOKED_AT} more)" if len(lacking) > LOOKED_AT else ""
    texts = (
        f"{calls[number].said} (call {number}): {', '.join(each[:NAMED])}"
        + (f" and {len(each) - NAMED} more" if len(each) > NAMED else "")
        for number, each in said.items()
    )
    return "; ".join(texts) + (more if said else "")
