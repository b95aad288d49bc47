"""One tick: fold facts, decide, apply. The master, tests and replays all run this code."""

from collections.abc import Iterable, Mapping

import attrs

from tarn.domain.apply_plan import apply_plan
from tarn.domain.calls_everywhere import settle_calls
from tarn.domain.facts import Fact, Launch, RuntimeWish, StubEnded
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.fold_facts import fold_facts
from tarn.domain.fold_readings import begin_drains, fold_readings, guard
from tarn.domain.follow_up import acknowledged, publish_view, withdrawals
from tarn.domain.hint_checks import check_hints
from tarn.domain.instance import InstanceState
from tarn.domain.plan import plan
from tarn.domain.reading import LOOK_WITHIN_S, Reading
from tarn.domain.renewal import retire_worn
from tarn.domain.samples import Sample, Unknown
from tarn.domain.scaling import Wish
from tarn.domain.sizing import size
from tarn.domain.standing import watch_mixture
from tarn.domain.update import advance, judge
from tarn.domain.verdicts import Suspicion, judge_outcomes, suspect_at_once
from tarn.domain.view import Applied

__all__ = ["Observation", "runtime_wish", "tick"]

# A recovered instance that has not answered within this time no longer makes the view incomplete.
PROBE_WITHIN_S = 30.0


@attrs.frozen
class Observation:
    """Everything a tick looks at, taken at one moment."""

    now_s: float
    at: float
    facts: tuple[Fact, ...] = ()
    readings: Mapping[str, Reading] = attrs.field(factory=dict, hash=False)
    applied: tuple[Applied, ...] = ()
    """The acknowledgements of followers in this process."""
    wish: Sample[Wish] = attrs.field(default=Unknown("no policy has answered yet"))
    late: bool = False
    """This tick came much later than it should."""
    look_interval_s: float = 0.0
    """The time between two looks at an instance."""


def tick(fleet: Fleet, seen: Observation, rules: Rules) -> Fleet:
    """Return the fleet after one tick; it contains the wish and the view to post."""
    now_s, at = seen.now_s, seen.at
    blind = next((reading.blind for reading in seen.readings.values() if reading.blind), "")
    if blind != fleet.blind:
        fleet = attrs.evolve(fleet, blind=blind)
    doubt = seen.late or bool(blind)
    facts, before = (*seen.facts, *_stubs_read(seen)), fleet
    fleet = fold_facts(fleet, facts, now_s, at)
    # before the readings, since they decide whether an instance has had the wanted calls
    fleet = settle_calls(fleet, rules, at)
    fleet = fold_readings(fleet, seen.readings, rules, now_s, at, late=doubt)
    for applied in seen.applied:
        fleet = acknowledged(fleet, applied, now_s, at, lease_s=None)
    # The first of those that fell silent at once was asked by so much before the last is known.
    look_s = max(rules.spec.scaling.interval_s, seen.look_interval_s) + LOOK_WITHIN_S
    silence_s = look_s + rules.spec.instance.unready_after_s
    fleet = guard(fleet, now_s, at, late=doubt, silence_s=silence_s)
    fleet = judge_outcomes(fleet, seen.readings, rules, now_s, at, doubt=doubt)
    fleet, proven = check_hints(
        fleet, seen.readings, now_s, doubt=doubt or fleet.frozen_s is not None
    )
    if fleet.pause is not None and at >= fleet.pause.until:
        fleet = attrs.evolve(fleet, pause=None)
        fleet = fleet.note(at, "TARN-1202", fleet.name, "the pause is over")
    fleet = size(fleet, rules, seen.wish, now_s, at)
    fleet = advance(judge(fleet, facts, seen.readings, at), rules, now_s, at)
    fleet = retire_worn(fleet, rules, now_s, at)
    step = plan(fleet, rules, now_s)
    fleet = apply_plan(fleet, step, rules, now_s, at)
    suspicions = (*_just_ended(before, fleet, facts), *proven)
    fleet = suspect_at_once(fleet, suspicions, rules, now_s, at)
    if leaving := step.drain | step.retire | {id_ for id_, _ in step.replace}:
        # the receipt counts the requests that end from here on
        fleet = begin_drains(fleet, seen.readings, leaving)
    fleet = _probed(fleet, seen.readings, now_s)
    fleet = publish_view(fleet)
    fleet = withdrawals(fleet, rules, now_s, at)
    return watch_mixture(_settle(fleet, now_s), now_s)


def _just_ended(before: Fleet, fleet: Fleet, facts: Iterable[Fact]) -> list[Suspicion]:
    """Return a suspicion for each ready instance whose Python process has just ended."""
    # An instance that has just become ready counts, too: a new master finds it in this state, and
    # must not give it traffic.
    stubs = {fact.instance_id: fact for fact in facts if isinstance(fact, StubEnded)}
    if not stubs:
        return []
    known = {i.id: i.stub_ended for i in before.of(InstanceState.READY)}
    ready = fleet.of(InstanceState.READY)
    heard = [i.id for i in ready if i.stub_ended and i.stub_ended != known.get(i.id)]
    return [Suspicion(id_, stubs[id_].model, stubs[id_].said) for id_ in heard if id_ in stubs]


def _stubs_read(seen: Observation) -> tuple[StubEnded, ...]:
    """Return the ended processes that instances report, and of which the runtime reports none."""
    stubs = [r.stub_ended for r in seen.readings.values() if r.stub_ended is not None]
    if not stubs:
        return ()
    told = {fact.instance_id for fact in seen.facts if isinstance(fact, StubEnded)}
    return tuple(stub for stub in stubs if stub.instance_id not in told)


def _probed(fleet: Fleet, readings: Mapping[str, Reading], now_s: float) -> Fleet:
    """Return *fleet* without the unprobed instances that have answered, ended or taken too long."""
    if not fleet.unprobed:
        return fleet
    waiting = {
        i.id
        for i in fleet.of(InstanceState.STARTING)
        if i.id in fleet.unprobed and (fleet.blind or now_s - i.since_s < PROBE_WITHIN_S)
    }
    answered = {id_ for id_ in waiting if (r := readings.get(id_)) and (r.gone or _settled(r))}
    unprobed = frozenset(waiting - answered)
    return fleet if unprobed == fleet.unprobed else attrs.evolve(fleet, unprobed=unprobed)


def _settled(reading: Reading) -> bool:
    """Say whether its answer is final; one that still warms up may serve in a moment."""
    if isinstance(reading.models, Unknown) or not reading.warm:
        return False
    return not any(m.state in ("LOADING", "UNLOADING") for m in reading.models.value)


def _settle(fleet: Fleet, now_s: float) -> Fleet:
    ready = len(fleet.view.members)
    served = min(fleet.desired, max(fleet.served, ready))
    short = ready < fleet.desired
    if short == (fleet.short_s is not None) and served == fleet.served:
        return fleet
    short_s = (now_s if fleet.short_s is None else fleet.short_s) if short else None
    return attrs.evolve(fleet, short_s=short_s, served=served)


def runtime_wish(fleet: Fleet, launches: tuple[Launch, ...], below: int) -> RuntimeWish:
    """Return the wish for the whole fleet, without instances numbered *below* or higher."""
    # Numbers from *below* on are not saved yet. A master that starts now would use them again, and
    # an id must never be used twice.
    some_held = below < fleet.next_number
    want = frozenset(
        (i.id, i.spec_hash)
        for i in fleet.instances
        if not i.stop_posted and not (some_held and i.number >= below)
    )
    stop = frozenset(i.id for i in fleet.instances if i.stop_posted)
    gone = frozenset(i.id for i in fleet.instances if i.gone and not i.stop_posted)
    return RuntimeWish(fleet.epoch, fleet.wish_revision, want, stop, launches, gone)
