"""The one model of an event: its cause, its fields, and how it is counted."""

import attrs
from given import AT, NOW_S, RULES, fleet, ready, rules
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import (
    Adapt,
    Command,
    Down,
    Drain,
    EventCause,
    PauseScaling,
    Requester,
    Resume,
    Scale,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.apply_plan import apply_plan
from tarn.domain.events import SEVERITIES, Event, aggregate, event_fields, severity_of
from tarn.domain.facts import Recovered
from tarn.domain.fleet import Fleet
from tarn.domain.memory import begin, saved
from tarn.domain.plan import Plan
from tarn.domain.samples import Unknown
from tarn.domain.sizing import size
from tarn.domain.view import Epoch

OPS = Requester("0123456789abcdef", "ops", "spnego", "10.0.0.5")
PROGRAM = Requester("fedcba9876543210", "ci", "token", "10.0.0.6")


def told(some: Fleet, command: Command, asker: Requester | None = OPS) -> Fleet:
    return apply_command(some, command, RULES, now_s=NOW_S, at=AT, asker=asker)[0]


def test_each_persons_command_says_who_asked() -> None:
    """Every one of them leaves an event, with the request that asked for it."""
    some = fleet(ready(1), ready(2), desired=2)
    for command, code in (
        (Scale(3), "TARN-3820"),
        (Scale(None), "TARN-3821"),
        (Adapt(1, 4), "TARN-3821"),
        (PauseScaling(60.0, "test"), "TARN-1201"),
        (Drain("w-0001"), "TARN-1117"),
        (Drain("w-0001", now=True), "TARN-1103"),
        (Down(), "TARN-1203"),
    ):
        after = told(some, command)
        assert [(e.code, e.cause) for e in after.events] == [(code, EventCause(asker=OPS))]
    paused = told(some, PauseScaling(60.0), asker=None)
    assert paused.events[0].cause == EventCause()
    assert told(paused, Resume()).events[-1].cause == EventCause(asker=OPS)


def test_a_request_is_followed_to_the_decision_and_what_it_starts() -> None:
    """Asked, decided, started: one request, and one number of the decision."""
    some = told(fleet(ready(1), desired=1, decisions=()), Scale(2))
    some = size(some, RULES, Unknown("none"), NOW_S, AT)
    decision = some.decisions[-1]
    assert (decision.number, decision.asker, decision.by) == (1, OPS, "scale")
    some = apply_plan(some, Plan(launch=1), RULES, NOW_S, AT)
    assert [(e.code, e.cause) for e in some.events] == [
        ("TARN-3820", EventCause(None, OPS)),
        ("TARN-1200", EventCause(1, OPS)),
        ("TARN-1100", EventCause(1, OPS)),
    ]
    ended = size(told(some, Down(), PROGRAM), RULES, Unknown("none"), NOW_S, AT)
    assert (ended.decisions[-1].number, ended.decisions[-1].asker) == (2, PROGRAM)


def test_what_no_size_decided_has_no_decision() -> None:
    """A broken instance is condemned for itself; the order of what happened is kept."""
    some = size(told(fleet(ready(1), ready(2), desired=2), Scale(1)), RULES, Unknown(""), NOW_S, AT)
    step = Plan(condemn=(("w-0001", "silent"),), drain=frozenset({"w-0002"}))
    after = apply_plan(some, step, RULES, NOW_S, AT)
    assert [(e.code, e.cause.decision) for e in after.events[2:]] == [
        ("TARN-1108", None),
        ("TARN-1103", 1),
    ]


def test_one_persons_equal_requests_are_counted_and_anothers_are_not() -> None:
    """The newest request stands for them; who asked is never lost."""
    some = told(fleet(), PauseScaling(60.0))
    again = told(some, PauseScaling(60.0), attrs.evolve(OPS, request="aaaaaaaaaaaaaaaa"))
    assert [(e.count, e.cause.asker.request) for e in again.events if e.cause.asker] == [
        (2, "aaaaaaaaaaaaaaaa")
    ]
    assert again.events[0].id == some.events[0].id
    third = told(again, PauseScaling(60.0), PROGRAM)
    assert [e.cause.asker for e in third.events][1] == PROGRAM
    nobody = told(third, PauseScaling(60.0), None)
    assert [e.count for e in nobody.events] == [2, 1, 1]


def test_a_new_master_tells_the_events_of_the_one_before() -> None:
    """They keep their ids and their epoch; its own never count them up."""
    some = told(fleet(ready(1), desired=1), Drain("w-0001")).note(AT, "TARN-1002", "w", "again")
    state = saved(some, AT - NOW_S)
    new = Epoch(1, 2)
    one = begin(new, state, Recovered(), rules(), now_s=NOW_S, at=AT)
    assert one.events[: len(some.events)] == some.events
    more = one.note(AT, "TARN-1002", "w", "again")
    assert [e.epoch for e in more.events if e.message == "again"] == ["1-1", "1-2"]
    assert len({e.id for e in more.events}) == len(more.events)


names = st.sampled_from(("w-0001", "w-0002"))
askers = st.sampled_from((None, OPS, PROGRAM))
notes = st.lists(st.tuples(st.sampled_from(("TARN-1105", "TARN-1106")), names, askers))


@given(notes)
def test_ids_are_unique_and_counts_add_up(entries: list[tuple[str, str, Requester | None]]) -> None:
    """Whatever happens in whatever order."""
    some = fleet()
    for code, subject, asker in entries:
        some = some.note(AT, code, subject, "so", EventCause(asker=asker))
    assert sum(e.count for e in some.events) == len(entries) == sum(some.event_totals.values())
    ids = [e.id for e in some.events]
    assert len(set(ids)) == len(ids)
    assert all(e.id.startswith("1-1.") for e in some.events)


def test_the_fields_are_those_of_the_schema() -> None:
    """Nobody's request is null, not an empty one; an unknown code is information."""
    event = Event("TARN-1105", "w-0001", "crash", 1.0, 2.0, 3, "1-1.7", "1-1", EventCause(4, OPS))
    assert event_fields(event, "w") == {
        "schema": 1,
        "id": "1-1.7",
        "cluster": "w",
        "epoch": "1-1",
        "code": "TARN-1105",
        "severity": "warning",
        "subject": "w-0001",
        "message": "crash",
        "models": [],
        "first": 1.0,
        "last": 2.0,
        "count": 3,
        "decision": 4,
        "request": {
            "id": "0123456789abcdef",
            "user": "ops",
            "via": "spnego",
            "address": "10.0.0.5",
        },
    }
    plain = event_fields(attrs.evolve(event, cause=EventCause()), "w")
    assert (plain["decision"], plain["request"]) == (None, None)
    assert severity_of("TARN-0000") == "info"
    assert SEVERITIES == ("info", "warning", "alert")


def test_the_oldest_are_dropped() -> None:
    """At most so many are kept."""
    events: tuple[Event, ...] = ()
    for number in range(12):
        events = aggregate(events, Event("TARN-1105", f"w-{number}", "", AT, AT), keep=10)
    assert [e.subject for e in events] == [f"w-{number}" for number in range(2, 12)]
