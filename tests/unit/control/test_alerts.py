"""What is wrong now and was: each thing once, with its beginning."""

from collections.abc import Mapping

import attrs
from fake_master import event, instance, reading, snapshot

from tarn.control.alerts import active, alerts, onsets
from tarn.control.retained_history import RetainedHistory
from tarn.control.samples import history_sample
from tarn.domain import Event, InstanceState, Known, Reading, Unknown
from tarn.domain.counters import Counters
from tarn.domain.outlook import Holds


def test_troubles_halts_silent_instances_and_missing_models_are_alarms() -> None:
    """One for each; warnings that a trouble told are not told twice."""
    models = (("a", "UNAVAILABLE", "no file\nTraceback"), ("b", "UNAVAILABLE", "no such"))
    made = snapshot(
        instance(1, models=models),
        instance(2, suspect="no answer for 3 s"),
        instance(3, InstanceState.DRAINING, models=(("a", "UNAVAILABLE", "unloaded"),)),
        troubles=(("TARN-1005", "llama", "the state is not saved"), ("", "", "odd")),
        warnings=("the state is not saved", "two GPUs are hidden", "a third thing"),
        holds=Holds(halted="five failed"),
    )
    assert [(a.code, a.subject, a.message) for a in active(made)] == [
        ("TARN-1005", "llama", "the state is not saved"),
        ("TARN-3830", "llama", "odd"),
        ("TARN-1112", "llama", "five failed"),
        ("TARN-3830", "local", "two GPUs are hidden"),
        ("TARN-3830", "local", "a third thing"),
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
        "llama-0001": Counters(5.0, 0.0, 7.0),
        "llama-0002": None,
        "llama-0003": None,
    }
    assert history_sample(snapshot(desired=0)).queue == 0.0
    assert history_sample(snapshot(instance(1))).queue is None


def test_a_stale_snapshot_is_no_look() -> None:
    """A master that lost its runtime knows nothing new of its size."""
    past = RetainedHistory().looked(snapshot(instance(1, busy=Known(1.0)), stale=True, troubles=()))
    assert past.history.at is None
    fresh = past.looked(snapshot(instance(1)))
    assert fresh.history.at == attrs.asdict(fresh.history)["at"] != None  # noqa: E711
