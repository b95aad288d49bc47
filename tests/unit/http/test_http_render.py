"""Snapshot to JSON, for any snapshot."""

import json
import math
from typing import Any

import attrs
from fake_master import EPOCH, instance, reading, snapshot, view
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tarn.domain import (
    ClusterState,
    Decision,
    DiscoveryView,
    Endpoint,
    Event,
    Instance,
    InstanceState,
    Issue,
    Known,
    Limits,
    Member,
    ModelState,
    Pause,
    Reading,
    Unknown,
)
from tarn.domain.instance import Symptom, Unwell
from tarn.domain.outlook import Holds, Prospect, SizeOutlook, WaitsFor
from tarn.domain.sizing import Hold, SizeHold
from tarn.http.feed import decision_changes, event_changes, fleet_changes
from tarn.http.render import (
    encode,
    health,
    holds_json,
    render_instances_json,
    render_status,
    status_json,
)
from tarn.http.render_details import scaling_json
from tarn.http.visibility import VisibilityFilter
from tarn.read.metrics import render_metrics
from tarn.read.snapshot import Follower, SignalStatus, Snapshot, render_instances

names = st.text(max_size=8)
numbers = st.floats() | st.integers(-5, 10**9)
samples = st.builds(Known, numbers) | st.builds(Unknown, names)
endpoints = st.builds(Endpoint, names, *[st.integers(1, 65535)] * 3)
instances = st.builds(
    Instance,
    id=names,
    spec_hash=names,
    state=st.sampled_from(InstanceState),
    since_s=numbers,
    requested_s=numbers,
    reason=names,
    container_id=st.none() | names,
    node=st.none() | names,
    endpoint=st.none() | endpoints,
    models=st.lists(st.tuples(names, names, names), max_size=2).map(tuple),
    busy=samples,
    ready_s=st.none() | numbers,
    suspect=names,
)
signals = st.sampled_from(
    [
        "pending",
        "gpu_utilization",
        'gpu_utilization{gpu="GPU-1"}',
        'gpu_memory_used_bytes{gpu="é"}',
        "x",
    ]
)
readings = st.builds(
    Reading,
    instance_id=names,
    taken_s=numbers,
    models=st.builds(Known, st.just((ModelState("a", "READY"),))),
    metrics=st.dictionaries(signals, samples, max_size=4),
)
views = st.builds(
    DiscoveryView,
    epoch=st.just(EPOCH),
    revision=st.integers(0, 99),
    complete=st.booleans(),
    members=st.lists(st.builds(Member, names, names, endpoints, names), max_size=3).map(tuple),
)
followers = st.builds(
    Follower, names, st.booleans(), st.integers(-1, 9), st.none() | numbers, st.booleans(), names
)
events = st.builds(Event, st.sampled_from(["TARN-1102", "odd"]), names, names, numbers, numbers)
decisions = st.builds(Decision, numbers, st.none() | st.integers(), st.integers(), names, names)
prospects = st.builds(
    Prospect, st.sampled_from(WaitsFor), st.none() | numbers, st.lists(names, max_size=2).map(tuple)
)
moments = st.none() | st.floats(0, 1e9)
sizes = st.builds(
    SizeOutlook,
    desired=st.integers(0, 9),
    ready=st.integers(0, 9),
    policy=names,
    answered=st.booleans(),
    wanted=st.none() | st.integers(0, 9),
    reason=names,
    held=st.lists(st.builds(SizeHold, st.sampled_from(Hold), names, moments), max_size=3).map(
        tuple
    ),
    next_size=st.none() | st.integers(0, 9),
    next_s=moments,
)
held = st.builds(Holds, names, st.integers(0, 9), *[st.none() | numbers] * 4, sizes)
sights = st.builds(SignalStatus, names, samples, st.floats(0, 1e9), names, names, st.booleans())
texts = st.lists(names, max_size=2).map(tuple)
issues = st.builds(
    Issue, names, names, names, names, public=names, models=texts, instances=texts, source=names
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    alive = draw(st.lists(instances, max_size=3).map(tuple))
    return Snapshot(
        at=draw(numbers),
        name=draw(names),
        runtime=draw(names),
        epoch=EPOCH,
        state=draw(st.sampled_from(ClusterState)),
        reason=draw(names),
        spec_revision=draw(st.integers(0, 99)),
        desired=draw(st.integers(0, 9)),
        limits=draw(st.builds(Limits, st.integers(0, 3), st.integers(0, 9))),
        manual=draw(st.none() | st.integers(0, 9)),
        pause=draw(st.none() | st.builds(Pause, numbers, names)),
        instances=alive,
        ended=draw(st.lists(instances, max_size=2).map(tuple)),
        view=draw(views),
        followers=draw(st.lists(followers, max_size=2).map(tuple)),
        events=draw(st.lists(events, max_size=3).map(tuple)),
        decisions=draw(st.lists(decisions, max_size=2).map(tuple)),
        stale=draw(st.booleans()),
        readings={i.id: draw(readings) for i in alive},
        event_totals=draw(st.dictionaries(names, st.integers(0, 99), max_size=3)),
        issues=draw(st.lists(issues, max_size=2).map(tuple)),
        holds=draw(held),
        signals=draw(st.lists(sights, max_size=3).map(tuple)),
        prospects={i.id: draw(prospects) for i in alive},
    )


def _strict(text: str | bytes) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@settings(max_examples=150, deadline=None)
@given(picture=snapshots(), before=st.none() | snapshots(), now_s=st.floats(0, 1e9))
def test_any_snapshot_can_be_rendered(
    picture: Snapshot, before: Snapshot | None, now_s: float
) -> None:
    """Odd names, NaN and missing parts never raise; the JSON is strict and says the same."""
    assert _strict(render_status(picture, now_s))["name"] == picture.name
    listed = _strict(render_instances_json(picture, now_s))["instances"]
    assert [row["id"] for row in listed] == [i.id for i in picture.instances]
    explained = _strict(encode(scaling_json(picture, now_s)))
    assert [row["name"] for row in explained["signals"]] == [s.name for s in picture.signals]
    render_instances(picture)
    for changes in (event_changes, decision_changes, fleet_changes):
        for change in changes(before, picture):
            event, data, end = change.message().split("\n", 2)
            assert (event, end) == (f"event: {change.event}", "\n")
            _strict(data.removeprefix("data: "))


@settings(max_examples=150, deadline=None)
@given(picture=snapshots())
def test_any_snapshot_is_metrics_that_prometheus_can_read(picture: Snapshot) -> None:
    """Labels with quotes, backslashes and line breaks come back as they were."""
    text = render_metrics(picture).decode()
    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert families["tarn_target_containers"].samples[0].value == picture.desired
    held = [i for i in picture.instances if i.container_id]
    depths = families.get("tarn_container_queue_depth")
    known = [i for i in held if isinstance(picture.readings[i.id].metrics.get("pending"), Known)]
    got = {s.labels["container_id"] for s in depths.samples} if depths else set()
    assert got == {_sent(i.container_id or "") for i in known}


def _sent(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def test_unknown_is_null_and_not_zero() -> None:
    """Neither a sample that is missing nor one that is no number becomes 0."""
    picture = snapshot(
        instance(1, busy=Unknown("scrape timed out")),
        instance(2, busy=Known(math.nan)),
        instance(3, busy=Known(0.0)),
    )
    body = json.loads(render_status(picture, 1000.0))
    assert [i["busy"] for i in body["instances"]] == [None, None, 0.0]


def test_age_counts_from_the_request_and_is_never_negative() -> None:
    """Monotonic seconds; a clock of another boot gives 0."""
    picture = snapshot(instance(1), instance(2, requested_s=5000.0))
    body = json.loads(render_status(picture, 1000.0))
    assert [i["age_s"] for i in body["instances"]] == [120.0, 0.0]


def test_an_instance_without_a_process_has_no_addresses() -> None:
    """Null, not an empty string."""
    asked = Instance("llama-0009", "abc")
    row = json.loads(render_status(snapshot(asked), 0.0))["instances"][0]
    assert [row[key] for key in ("http", "grpc", "metrics", "node", "container_id")] == [None] * 5


def test_numbers_that_json_cannot_write_become_null() -> None:
    """At any depth."""
    assert encode({"a": [math.inf, {"b": math.nan}], "c": 1.5}) == (
        '{"a": [null, {"b": null}], "c": 1.5}'
    )


def test_a_cold_fleet_is_unhealthy_although_something_runs() -> None:
    """Started is not ready."""
    cold = snapshot(instance(1, InstanceState.STARTING))
    assert health(cold, authorizer_ready=True) == "NO_INSTANCES_READY"
    sleeping = attrs.evolve(cold, desired=0)
    assert health(sleeping, authorizer_ready=True) == "NO_INSTANCES_READY"


def test_an_unchanged_fleet_says_nothing() -> None:
    """Only the time of the picture moved."""
    first = snapshot(instance(1))
    later = attrs.evolve(first, at=first.at + 1, readings={"llama-0001": reading(1, pending=3)})
    assert list(fleet_changes(first, later)) == []
    grown = attrs.evolve(later, view=view((instance(1), instance(2)), revision=4))
    assert [c.event for c in fleet_changes(later, grown)] == ["instances", "status"]


def test_moments_become_seconds_from_now() -> None:
    """A client has another clock; what is past is now, what does not hold is null."""
    size = SizeOutlook(
        desired=2,
        ready=2,
        policy="target",
        answered=True,
        wanted=4,
        reason="queue 40 ms",
        allowed=4,
        held=(SizeHold(Hold.COOLDOWN, "a change", 1003.0),),
        next_size=4,
        next_s=1003.0,
    )
    held = Holds("", 3, 1004.0, 990.0, 1290.0, 999.0, size)
    assert holds_json(held, 1000.0) == {
        "halted": "",
        "halted_by": "",
        "failures_in_a_row": 3,
        "retry_in_s": 4.0,
        "frozen_for_s": 10.0,
        "thaws_in_s": 290.0,
        "cooldown_in_s": 0.0,
        "policy": {"use": "target", "wanted": 4, "reason": "queue 40 ms"},
        "size": {
            "sentence": (
                "2 replicas; policy target wants 4: queue 40 ms;"
                " it grows to 4 in 3 s, held back by a change."
            ),
            "allowed": 4,
            "held": [{"by": "cooldown", "reason": "a change", "left_s": 3.0}],
            "next": {"replicas": 4, "in_s": 3.0, "words": "grows to 4 in 3 s"},
        },
    }
    assert holds_json(Holds(), 1000.0)["retry_in_s"] is None


def test_an_instance_tells_what_it_waits_for() -> None:
    """Null for one that waits for nothing."""
    shown = snapshot(instance(1), instance(2, InstanceState.DRAINING))
    waits = Prospect(WaitsFor.REQUESTS, 1012.5, ("lb",))
    shown = attrs.evolve(shown, prospects={"llama-0002": waits})
    one, two = _strict(render_status(shown, 1000.0))["instances"]
    assert (one["waits"], one["state_for_s"]) == (None, 100.0)
    assert two["waits"] == {
        "for": "requests",
        "until_in_s": 12.5,
        "followers": ["lb"],
        "sessions": 0,
        "lacks": "",
    }


def test_an_ejected_instance_is_suspect_with_the_reason_while_it_is_ready() -> None:
    """One that leaves for it has that as its reason, and is not suspect."""
    unwell = Unwell(Symptom.FAILING, "m", "it failed 9 of 9", 1.0, ejected=True)
    sick = attrs.evolve(instance(1), unwell=unwell)
    leaving = attrs.evolve(sick, state=InstanceState.DRAINING)
    asked = attrs.evolve(sick, unwell=attrs.evolve(unwell, ejected=False, for_all=True))
    first, second, third = json.loads(render_status(snapshot(sick, leaving, asked), 100.0))[
        "instances"
    ]
    assert (first["suspect"], second["suspect"], third["suspect"]) == (unwell.said, "", "")
    assert first["unwell"] == {
        "symptom": "failing",
        "model": "m",
        "message": "it failed 9 of 9",
        "ejected": True,
        "confirmed": False,
    }
    assert third["unwell"] is None, "its model fails everywhere: that is told of the model"


def test_the_reason_of_a_state_goes_by_the_models_that_it_is_about() -> None:
    """Who may not see one of them is told how many are ready."""
    picture = snapshot(instance(1), reason="it has no version", reason_models=("ocr",), desired=2)
    assert status_json(picture)["reason"] == "it has no version"
    hidden = VisibilityFilter(frozenset({"ocr"}))
    assert status_json(picture, hidden)["reason"] == "1 of 2 ready"
    assert status_json(picture, VisibilityFilter(frozenset({"llama"})))["reason"] == picture.reason
