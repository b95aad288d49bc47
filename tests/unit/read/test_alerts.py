"""What is wrong now and was: each thing once, with its beginning."""

from collections.abc import Mapping

import attrs
from fake_master import event, instance, reading, snapshot

from tarn.domain import Event, InstanceState, Issue, Known, Reading, Unknown
from tarn.domain.counters import CounterSet
from tarn.domain.outlook import Holds
from tarn.read.alerts import active, alerts, onsets
from tarn.read.retained_history import RetainedHistory, history_sample


def test_troubles_halts_silent_instances_and_missing_models_are_alarms() -> None:
    """One for each; what the runtime says is one, too, unless it is only news."""
    models = (("a", "UNAVAILABLE", "no file\nTraceback"), ("b", "UNAVAILABLE", "no such"))
    made = snapshot(
        instance(1, models=models),
        instance(2, suspect="no answer for 3 s"),
        instance(3, InstanceState.DRAINING, models=(("a", "UNAVAILABLE", "unloaded"),)),
        issues=(
            Issue("llama", "the state is not saved", code="TARN-1005"),
            Issue("llama", "odd"),
            Issue("local", "two GPUs are hidden", source="local"),
            Issue("local", "a third thing", source="local"),
            Issue("local", "no keeper", code="TARN-1014", source="local"),
            Issue("local", "the keytab gets new tokens", code="TARN-3760", source="local"),
        ),
        holds=Holds(halted="five failed"),
    )
    assert [(a.code, a.subject, a.message) for a in active(made)] == [
        ("TARN-1005", "llama", "the state is not saved"),
        ("TARN-3830", "llama", "odd"),
        ("TARN-3830", "local", "two GPUs are hidden"),
        ("TARN-3830", "local", "a third thing"),
        ("TARN-1014", "local", "no keeper"),
        ("TARN-1112", "llama", "five failed"),
        ("TARN-1111", "llama-0001", "a: no file"),
        ("TARN-1111", "llama-0001", "b: no such"),
        ("TARN-1106", "llama-0002", "no answer for 3 s"),
    ]


def test_an_alarm_begins_when_it_is_first_seen_and_anew_after_a_break() -> None:
    """A message that counts seconds does not begin it anew."""
    since: Mapping[tuple[str, str, str], float] = {}
    begun = []
    for at, said in ((10.0, "for 3 s"), (11.0, "for 4 s"), (12.0, ""), (13.0, "for 1 s")):
        made = snapshot(instance(1, suspect=said), at=at)
        since = onsets(since, made)
        begun += [alarm.since for alarm in alerts(made, since)]
    assert begun == [10.0, 10.0, 13.0]


def test_events_that_were_warnings_are_told_as_over_unless_they_are_still_the_case() -> None:
    """Newest first; what is only news is no alarm."""
    failed = Event("TARN-1105", "llama-0000", "exit 1", 5.0, 8.0, 3)
    silent = Event("TARN-1106", "llama-0001", "it fell silent", 9.0, 9.0)
    made = snapshot(instance(1, suspect="silent"), events=(failed, event("up"), silent), at=20.0)
    found = [(a.code, a.active, a.since, a.last, a.count) for a in alerts(made, {})]
    assert found == [
        ("TARN-1106", True, None, None, 1),
        ("TARN-1105", False, 5.0, 8.0, 3),
    ]


def test_a_model_that_is_still_unavailable_is_not_told_as_over() -> None:
    """Though its reason has changed since the event."""
    bad = Event("TARN-1111", "llama-0001", "a: no file", 5.0, 8.0, models=("a",))
    other = attrs.evolve(bad, message="b: no such", models=("b",))
    one = instance(1, models=(("a", "UNAVAILABLE", "no version"),))
    found = alerts(snapshot(one, events=(bad, other)), {})
    assert [(a.message, a.active) for a in found] == [
        ("a: no version", True),
        ("b: no such", False),
    ]


def test_a_look_has_what_was_read_and_says_nothing_of_the_rest() -> None:
    """Means over those that are known; an instance without counters has none."""
    said = {
        "llama-0001": reading(1, pending=8.0, requests_total=5.0, request_us_total=7.0),
        "llama-0002": Reading("llama-0002", 1.0, metrics={"pending": Unknown("no answer")}),
        "llama-0003": reading(3, pending=0.0, gpu_utilization=0.9),
    }
    asked = instance(4, InstanceState.REQUESTED, container_id=None)
    made = snapshot(instance(1), instance(2), instance(3), asked, readings=said)
    seen = history_sample(made)
    assert (seen.desired, seen.ready, seen.running) == (4, 3, 3)
    assert (seen.load, seen.queue) == (0.7, 8.0)
    assert seen.counted == {
        "llama-0001": CounterSet(5.0, 0.0, 7.0),
        "llama-0002": None,
        "llama-0003": None,
    }
    assert history_sample(snapshot(desired=0)).queue == 0.0
    assert history_sample(snapshot(instance(1))).queue is None


def test_a_stale_snapshot_is_no_look() -> None:
    """A master that lost its runtime knows nothing new of its size."""
    past = RetainedHistory().looked(snapshot(instance(1, busy=Known(1.0)), stale=True))
    assert past.history.at is None
    fresh = past.looked(snapshot(instance(1)))
    assert fresh.history.at == attrs.asdict(fresh.history)["at"] != None  # noqa: E711
