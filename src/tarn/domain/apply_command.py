"""Apply a command to the fleet, or refuse it."""

import json
from typing import assert_never

import attrs

from tarn.domain.apply_plan import ASKED_FOR
from tarn.domain.command import (
    Acknowledge,
    Adapt,
    BeginUpdate,
    Command,
    ControlRequest,
    Demand,
    Done,
    Down,
    Drain,
    HoldUpdate,
    PauseScaling,
    Resume,
    Rollback,
    Scale,
)
from tarn.domain.control_calls import MOST_BYTES, MOST_CALLS, CallKind, ControlCall
from tarn.domain.events import EventCause, Requester
from tarn.domain.fleet import DemandReport, Fleet, Rules
from tarn.domain.follow_up import acknowledged, held_until_s
from tarn.domain.hint_checks import hear_failures
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.renewal import lacks, no_room
from tarn.domain.state import Pause
from tarn.domain.update import update_as_asked
from tarn.errors import ConflictError, NotFoundError, RefusedError

__all__ = ["apply_command"]

# Commands that change the spec revision. An acknowledgement and a demand do not.
_Ask = (
    Scale
    | Adapt
    | PauseScaling
    | Resume
    | Drain
    | Down
    | BeginUpdate
    | Rollback
    | HoldUpdate
    | ControlRequest
)
# Most followers that the spec does not list. Every tick looks at each of them.
MOST_FOLLOWERS = 1000
# Most of these that one principal may have, so that it cannot lock out the others.
MOST_NAMES = 100
# Instances that an error names; a fleet may have thousands.
NAMED = 10


def apply_command(  # noqa: PLR0913 (a command, its condition, and when)
    fleet: Fleet,
    command: Command,
    rules: Rules,
    *,
    now_s: float,
    at: float,
    if_match: int | None = None,
    asker: Requester | None = None,
) -> tuple[Fleet, Done]:
    """Return *fleet* after *command*, and the answer. Its events name the *asker*.

    Raises:
        ConflictError: *if_match* is not the present spec revision.
        RefusedError: The limits or the state forbid it.
        NotFoundError: There is no such instance.
    """
    if isinstance(command, Acknowledge):
        who = "" if asker is None else asker.principal
        _check_follower(fleet, command.applied.name, rules, who, now_s)
        lease_s = command.lease_s
        fleet = acknowledged(fleet, command.applied, now_s, at, lease_s=lease_s, held_by=who)
        return fleet, Done(fleet.spec_revision, f"view revision {fleet.view.revision}")
    if isinstance(command, Demand):
        who = "" if asker is None else asker.principal
        return _demanded(fleet, command, who, now_s)
    if if_match is not None and if_match != fleet.spec_revision:
        raise ConflictError(
            f"the spec revision is {fleet.spec_revision}, not {if_match}",
            spec_revision=fleet.spec_revision,
            next_step="Look at `tarn status`, then ask again",
        )
    if fleet.ending and not isinstance(command, Down):
        raise RefusedError(f"{fleet.name} is ending", next_step="`tarn up` starts it again")
    after, message = _changed(
        fleet, command, rules, _CommandContext(now_s, at, EventCause(asker=asker))
    )
    call = None
    if isinstance(command, ControlRequest):
        # the request may be a repeated one, which keeps the number of its first call
        requested = after.control.requested(command.request)
        call = after.control.number if requested is None else requested.number
    if after is fleet:
        return fleet, Done(fleet.spec_revision, message, call)
    after = attrs.evolve(after, spec_revision=fleet.spec_revision + 1)
    return after, Done(after.spec_revision, message, call)


@attrs.frozen
class _CommandContext:
    """The time of a command, and its cause."""

    now_s: float
    at: float
    cause: EventCause


def _changed(  # noqa: C901, PLR0911 (one for each command)
    fleet: Fleet, command: _Ask, rules: Rules, when: _CommandContext
) -> tuple[Fleet, str]:
    match command:
        case Scale():
            return _scale(fleet, command, rules, when)
        case Adapt():
            return _adapt(fleet, command, rules, when)
        case PauseScaling():
            return _pause(fleet, command, when)
        case Resume():
            return _resume(fleet, when)
        case Drain():
            return _drain(fleet, command, rules, when)
        case Down():
            return _down(fleet, when)
        case BeginUpdate() | Rollback() | HoldUpdate():
            return update_as_asked(fleet, command, when.at, when.cause)
        case ControlRequest():
            return _control(fleet, command, rules, when)
    assert_never(command)


def _check_follower(fleet: Fleet, name: str, rules: Rules, who: str, now_s: float) -> None:
    """Raise if *who* may not follow as *name*: another owns it, or there are too many."""
    # A drain waits for an acknowledgement by its name alone. Without this check, a principal could
    # acknowledge in place of another one's follower, and the drain would end too early.
    old = fleet.followers.get(name)
    if old is not None and old.heard_s is not None and old.lease_until_s is None:
        raise RefusedError(
            f"'{name}' is the name of a discovery that the master itself runs",
            where=fleet.name,
            right="A follower elsewhere needs a name of its own.",
            next_step="Give it another name with --name",
        )
    if old is not None and who != old.held_by:
        left_s = held_until_s(fleet, name, rules) - now_s
        if left_s > 0:
            raise RefusedError(
                f"the follower '{name}' belongs to {old.held_by}, not to {who or 'nobody'}",
                code="TARN-1312",
                where=fleet.name,
                right="A name belongs to the principal that used it first, until its lease ends, "
                "and five minutes longer if the spec lists it.",
                next_step=f"Take another name with --name, or wait {max(1, round(left_s))} s",
            )
    if name not in rules.required and name not in rules.followers:
        _check_room(fleet, name, rules, who)


def _check_room(fleet: Fleet, name: str, rules: Rules, who: str) -> None:
    """Raise if the follower *name*, which the spec does not list, is one too many."""
    if name in fleet.followers and fleet.followers[name].held_by == who:
        return
    others = fleet.followers.keys() - rules.required - rules.followers - {name}
    theirs = sum(fleet.followers[one].held_by == who for one in others) if who else 0
    if theirs >= MOST_NAMES:
        found = (
            f"{who} already follows {fleet.name} under {theirs} names, and '{name}' is not one "
            "of them"
        )
        right = f"One principal may use {MOST_NAMES} names, besides those in the spec"
    elif len(others) >= MOST_FOLLOWERS:
        found = f"{fleet.name} has {len(others)} followers, and '{name}' is not one of them"
        right = f"At most {MOST_FOLLOWERS} may follow, besides those in the spec"
    else:
        return
    raise RefusedError(
        found,
        code="TARN-1322",
        where=fleet.name,
        right=right,
        next_step="Add it to `followers` of a discovery, or wait until the master forgets others",
    )


def _demanded(fleet: Fleet, demand: Demand, who: str, now_s: float) -> tuple[Fleet, Done]:
    """Note that requests wait. The next tick decides whether that wakes the fleet."""
    if fleet.ending:
        return fleet, Done(fleet.spec_revision, f"{fleet.name} is ending")
    fleet = hear_failures(fleet, demand, who, now_s)
    if not demand.waiting and not demand.refused:
        message = "heard" if demand.failures else "no request waits"
        return fleet, Done(fleet.spec_revision, message)
    heard = DemandReport(demand.source, demand.waiting, now_s, demand.refused)
    message = "heard" if fleet.manual != 0 else "the demand was noted, but a person set 0 replicas"
    return attrs.evolve(fleet, demand=heard), Done(fleet.spec_revision, message)


def _scale(fleet: Fleet, command: Scale, rules: Rules, when: _CommandContext) -> tuple[Fleet, str]:
    if command.replicas is None:
        message = "the policy decides the size"
        given = attrs.evolve(fleet, manual=None, sized_by=None)
        return given.note(when.at, "TARN-3821", fleet.name, message, when.cause), message
    limits = fleet.limits(rules)
    if not limits.min <= command.replicas <= limits.max:
        raise RefusedError(
            f"{command.replicas} replicas are outside the limits",
            where=fleet.name,
            right=f"{limits.min} to {limits.max} are allowed",
            next_step="`tarn adapt --min N --max M` changes the limits",
        )
    message = f"{command.replicas} replicas, by hand"
    sized = attrs.evolve(fleet, manual=command.replicas, sized_by=when.cause.asker)
    return sized.note(when.at, "TARN-3820", fleet.name, message, when.cause), message


def _adapt(fleet: Fleet, command: Adapt, rules: Rules, when: _CommandContext) -> tuple[Fleet, str]:
    limits = fleet.limits(rules)
    low = limits.min if command.min is None else command.min
    high = limits.max if command.max is None else command.max
    if not 0 <= low <= high:
        raise RefusedError(
            f"min {low} and max {high} contradict each other",
            where=fleet.name,
            right=f"0 <= min <= max; the limits are now {limits.min} to {limits.max}",
        )
    message = f"the policy decides, {low} to {high}"
    given = attrs.evolve(fleet, manual=None, min=low, max=high, sized_by=None)
    return given.note(when.at, "TARN-3821", fleet.name, message, when.cause), message


def _pause(fleet: Fleet, command: PauseScaling, when: _CommandContext) -> tuple[Fleet, str]:
    paused = attrs.evolve(fleet, pause=Pause(when.at + command.for_s, command.reason))
    message = f"for {command.for_s:g} s" + (f": {command.reason}" if command.reason else "")
    paused = paused.note(when.at, "TARN-1201", fleet.name, message, when.cause)
    return paused, f"paused {message}"


def _down(fleet: Fleet, when: _CommandContext) -> tuple[Fleet, str]:
    if fleet.ending:
        return fleet, "it is ending already"
    ended = attrs.evolve(fleet, ending=True, frozen_s=None, sized_by=when.cause.asker)
    return ended.note(when.at, "TARN-1203", fleet.name, "down was requested", when.cause), "it ends"


def _resume(fleet: Fleet, when: _CommandContext) -> tuple[Fleet, str]:
    if not (fleet.pause or fleet.halted or fleet.strikes or fleet.frozen_s is not None):
        return fleet, "nothing was paused, halted or frozen"
    resumed = attrs.evolve(
        fleet, pause=None, halted="", halted_by="", strikes=0, retry_s=0.0, frozen_s=None
    )
    return resumed.note(when.at, "TARN-1202", fleet.name, "resumed", when.cause), "resumed"


def _drain(fleet: Fleet, command: Drain, rules: Rules, when: _CommandContext) -> tuple[Fleet, str]:
    found = _found(fleet, command.instance_id)
    if found.state is InstanceState.DRAINING and found.evicted:
        return fleet, f"{found.id} is draining already"
    if command.now or not found.in_view:
        return _drain_now(fleet, found, when)
    asked = found
    if found.retiring is None:
        others_then = sum(i.in_view for i in fleet.instances) - 1
        asked = attrs.evolve(found, retiring=fleet.next_number, others_then=others_then)
    lacking = lacks(asked, fleet.instances, fleet.desired)
    if lacking and (why := no_room(fleet, rules)):
        raise RefusedError(
            f"no replacement for {found.id} can start first: {why}",
            where=fleet.name,
            next_step=f"`tarn drain {found.id} --now` does not wait for a replacement: {lacking}",
        )
    message = f"{found.id} drains"
    if lacking:
        message = (
            f"{found.id} serves until a replacement does, then drains; "
            f"`tarn drain {found.id} --now` does not wait for it"
        )
    if found.retiring is not None:
        return fleet, message
    fleet = _with(fleet, asked)
    return fleet.note(when.at, "TARN-1117", found.id, ASKED_FOR, when.cause), message


def _drain_now(fleet: Fleet, found: Instance, when: _CommandContext) -> tuple[Fleet, str]:
    """Withdraw *found* at once, even if nothing else serves."""
    drained = found.become(InstanceState.DRAINING, when.now_s, ASKED_FOR)
    drained = attrs.evolve(
        drained, evicted=True, stop_posted=found.stop_posted or found.endpoint is None
    )
    fleet = _with(fleet, drained)
    message = f"{found.id} drains"
    if found.in_view and not any(i.in_view for i in fleet.instances):
        message += (
            "; it was the only one that served, so requests fail or wait, as the load balancer or "
            "client does, until its replacement is ready"
        )
    return fleet.note(when.at, "TARN-1103", found.id, ASKED_FOR, when.cause), message


def _control(
    fleet: Fleet, command: ControlRequest, rules: Rules, when: _CommandContext
) -> tuple[Fleet, str]:
    """Make it the newest call of those that every instance must have had."""
    of_models = command.kind in (CallKind.LOAD, CallKind.UNLOAD)
    if of_models and rules.spec.models.control != "explicit":
        raise RefusedError(
            f"its Tritons do not take {command.kind} calls: models.control is "
            f"'{rules.spec.models.control}'",
            code="TARN-1155",
            where=fleet.name,
            next_step="Start the cluster with `models: {control: explicit}`",
        )
    control = fleet.control
    call = ControlCall(
        control.number + 1, command.kind, command.model, command.body, when.at, command.request
    )
    if (old := control.requested(command.request)) is not None:
        return fleet, f"the {old.said} was already requested, as call {old.number}"
    if not of_models and (before := control.of(call.slot)) is not None:
        merged = {**json.loads(before.body), **json.loads(command.body)}
        call = attrs.evolve(call, body=json.dumps(merged, sort_keys=True))
    control = control.asked(call, lambda number: any(i.calls.has(number) for i in fleet.instances))
    if len(control.calls) > MOST_CALLS or control.size > MOST_BYTES:
        raise RefusedError(
            f"with it, {len(control.calls)} calls of {control.size} bytes would be kept for "
            "instances to come",
            code="TARN-1165",
            where=fleet.name,
            right=f"At most {MOST_CALLS} calls of {MOST_BYTES} bytes are kept.",
            next_step="Put configurations and files into the model repository, and load from there",
        )
    fleet = attrs.evolve(fleet, control=control)
    message = f"{call.said}: call {call.number}"
    models = (call.model,) if call.model else ()
    subject = call.model or fleet.name
    noted = fleet.note(when.at, "TARN-1115", subject, message, when.cause, models=models)
    return noted, message


def _found(fleet: Fleet, instance_id: str) -> Instance:
    found = next((i for i in fleet.instances if i.id == instance_id), None)
    if found is not None:
        return found
    ids = ", ".join(i.id for i in fleet.instances[:NAMED]) or "none"
    if len(fleet.instances) > NAMED:
        ids += f" and {len(fleet.instances) - NAMED} more"
    raise NotFoundError(
        f"there is no instance '{instance_id}'", where=fleet.name, right=f"Alive: {ids}"
    )


def _with(fleet: Fleet, instance: Instance) -> Fleet:
    """Return *fleet* with *instance* in place of the one with the same id."""
    others = (instance if i.id == instance.id else i for i in fleet.instances)
    return attrs.evolve(fleet, instances=tuple(others))
