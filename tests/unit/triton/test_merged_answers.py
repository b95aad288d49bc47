"""One answer from several: by answers that a real Triton 2.51 gave."""

import functools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.triton.merged_answers import (
    InstanceAnswer,
    everywhere,
    merged_index,
    merged_readiness,
    merged_regions,
    merged_server,
    merged_settings,
    merged_statistics,
    same_answer,
    summed_statistics,
)
from tarn.triton.stubs import PREFIX

SERVER = json.loads(
    '{"name":"triton","version":"2.51.0","extensions":["classification","sequence",'
    '"model_repository","model_repository(unload_dependents)","schedule_policy",'
    '"model_configuration","system_shared_memory","cuda_shared_memory","binary_tensor_data",'
    '"parameters","statistics","trace","logging"]}'
)
STATISTICS = json.loads(
    '{"model_stats":[{"name":"batched","version":"1","last_inference":1795992736683,'
    '"inference_count":2,"execution_count":1,"inference_stats":{"success":{"count":1,'
    '"ns":193207143},"fail":{"count":0,"ns":0},"queue":{"count":1,"ns":39541},"compute_input":'
    '{"count":1,"ns":29953},"compute_infer":{"count":1,"ns":188828184},"compute_output":{"count":1,'
    '"ns":4301673},"cache_hit":{"count":0,"ns":0},"cache_miss":{"count":0,"ns":0}},'
    '"response_stats":{},"batch_stats":[{"batch_size":2,"compute_input":{"count":1,"ns":29953},'
    '"compute_infer":{"count":1,"ns":188828184},"compute_output":{"count":1,"ns":4301673}}],'
    '"memory_usage":[]},{"name":"nap","version":"1","last_inference":1795992736489,'
    '"inference_count":2,"execution_count":2,"inference_stats":{"success":{"count":2,'
    '"ns":224276357},"fail":{"count":0,"ns":0},"queue":{"count":2,"ns":5525236},"compute_input":'
    '{"count":2,"ns":556048},"compute_infer":{"count":2,"ns":217838285},"compute_output":{"count":2,'
    '"ns":344221},"cache_hit":{"count":0,"ns":0},"cache_miss":{"count":0,"ns":0}},'
    '"response_stats":{},"batch_stats":[{"batch_size":1,"compute_input":{"count":2,"ns":556048},'
    '"compute_infer":{"count":2,"ns":217838285},"compute_output":{"count":2,"ns":344221}}],'
    '"memory_usage":[]}]}'
)
INDEX = json.loads(
    '[{"name":"bad","version":"1","state":"UNAVAILABLE","reason":"Internal: RuntimeError: no '
    'weights\\n"},{"name":"batched","version":"1","state":"READY"},{"name":"later"},{"name":"nap",'
    '"version":"1","state":"READY"}]'
)
METADATA = json.loads(
    '{"name":"nap","versions":["1"],"platform":"python","inputs":[{"name":"IN","datatype":"FP32",'
    '"shape":[-1]}],"outputs":[{"name":"OUT","datatype":"FP32","shape":[-1]}]}'
)
TRACE = json.loads(
    '{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0",'
    '"trace_file":"","trace_mode":"triton"}'
)
UNKNOWN = {"error": "Request for unknown model: 'nope' is not found"}
NOT_READY = {"error": "Model version not ready"}


def said(number: int, body: Any, status: int = 200) -> InstanceAnswer:
    return InstanceAnswer(f"ocr-{number:04d}", status, body)


def silent(number: int) -> InstanceAnswer:
    return InstanceAnswer(f"ocr-{number:04d}", failure="no answer for 5.0 s")


@given(st.integers(1, 5))
def test_a_fleet_that_answers_alike_answers_as_one(size: int) -> None:
    """Whatever the number of instances: every field is the one that a single Triton gave."""

    def all_say(body: Any, status: int = 200) -> list[InstanceAnswer]:
        return [said(n, body, status) for n in range(size)]

    assert merged_server(all_say(SERVER), "ocr").body == SERVER
    assert same_answer("it", all_say(METADATA)).body == METADATA
    assert merged_index(all_say(INDEX)).body == INDEX
    assert merged_settings(all_say(TRACE)).body == TRACE
    assert merged_readiness(all_say(None)).status == 200
    one = merged_readiness(all_say(NOT_READY, 400))
    assert (one.status, one.body) == (400, NOT_READY)
    of_ocr = functools.partial(merged_server, cluster="ocr")
    for merge in (of_ocr, merged_index, merged_settings, merged_statistics, merged_regions):
        refused = merge(all_say(UNKNOWN, 404))
        assert (refused.status, refused.body) == (404, UNKNOWN)
    assert merged_statistics(all_say(STATISTICS)).body == (
        STATISTICS if size == 1 else summed_statistics([STATISTICS] * size)
    )


COUNT = st.builds(
    lambda count, ns: {"count": count, "ns": ns}, st.integers(0, 9), st.integers(0, 10**12)
)


@st.composite
def statistics(draw: st.DrawFn) -> Any:
    names = draw(st.lists(st.sampled_from("ab"), unique=True))
    return {"model_stats": [draw(rows(name)) for name in names]}


@st.composite
def rows(draw: st.DrawFn, name: str) -> Any:
    sizes = draw(st.lists(st.integers(1, 4), unique=True))
    return {
        "name": name,
        "version": draw(st.sampled_from("12")),
        "last_inference": draw(st.integers(0, 10**13)),
        "inference_count": draw(st.integers(0, 99)),
        "inference_stats": {"success": draw(COUNT), "fail": draw(COUNT)},
        "response_stats": {
            str(number): {"success": draw(COUNT)} for number in draw(st.sets(st.integers(0, 2)))
        },
        "batch_stats": [{"batch_size": n, "compute_infer": draw(COUNT)} for n in sorted(sizes)],
        "memory_usage": [],
    }


@given(st.lists(statistics(), max_size=4), st.randoms())
def test_a_sum_has_every_count_once_in_any_order(each: list[Any], random: Any) -> None:
    total = summed_statistics(each)["model_stats"]
    flat = [row for one in each for row in one["model_stats"]]
    assert {(row["name"], row["version"]) for row in total} == {
        (row["name"], row["version"]) for row in flat
    }
    for row in total:
        own = [
            one for one in flat if (one["name"], one["version"]) == (row["name"], row["version"])
        ]
        assert row["inference_count"] == sum(one["inference_count"] for one in own)
        assert row["last_inference"] == max(one["last_inference"] for one in own)
        fails = [one["inference_stats"]["fail"]["ns"] for one in own]
        assert row["inference_stats"]["fail"]["ns"] == sum(fails)
        sizes = [one["batch_size"] for one in row["batch_stats"]]
        assert sizes == sorted(set(sizes))
        for batch in row["batch_stats"]:
            counts = [
                one["compute_infer"]["count"]
                for mine in own
                for one in mine["batch_stats"]
                if one["batch_size"] == batch["batch_size"]
            ]
            assert batch["compute_infer"]["count"] == sum(counts)
        for number, response in row["response_stats"].items():
            counts = [
                mine["response_stats"][number]["success"]["count"]
                for mine in own
                if number in mine["response_stats"]
            ]
            assert response["success"]["count"] == sum(counts)
    mixed = list(each)
    random.shuffle(mixed)
    assert summed_statistics(mixed)["model_stats"] == total


def test_minima_and_maxima_are_not_added() -> None:
    """No Triton tells them yet; by their names there is one way to merge them."""
    one = {"name": "m", "version": "1", "min_ns": 3, "max_ns": 8}
    (row,) = summed_statistics(
        [{"model_stats": [one]}, {"model_stats": [{**one, "min_ns": 2, "max_ns": 9}]}]
    )["model_stats"]
    assert (row["min_ns"], row["max_ns"]) == (2, 9)


def test_counts_of_former_instances_belong_to_models_that_are_there() -> None:
    nap = STATISTICS["model_stats"][1]
    gone = {**nap, "name": "gone"}
    answer = merged_statistics([said(1, {"model_stats": [nap]})], [nap, gone])
    (row,) = answer.body["model_stats"]
    assert (row["name"], row["inference_count"]) == ("nap", 4)


STATES = ("READY", "UNAVAILABLE", "LOADING", "UNLOADING", None)


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=5), st.booleans())
def test_a_model_is_ready_only_where_every_request_would_succeed(
    states: list[str | None], hangs: bool
) -> None:
    """None: that instance does not have it. The reason names each instance that is not ready."""
    answers = [
        said(n, [] if s is None else [{"name": "m", "version": "1", "state": s}])
        for n, s in enumerate(states)
    ]
    answers += [silent(9)] if hangs else []
    rows_ = merged_index(answers).body
    if set(states) == {None}:
        assert rows_ == []
        return
    (row,) = rows_
    assert (row["state"] == "READY") == (set(states) == {"READY"} and not hangs)
    if row["state"] != "READY" and len(set(states)) > 1:
        named = {f"ocr-{n:04d}" for n, s in enumerate(states) if s != "READY"}
        assert named <= set(row["reason"].replace(":", "").replace(",", "").split()), row
    ready = merged_index(answers, only_ready=True).body
    assert ready == ([row] if row["state"] == "READY" else [])


def test_an_index_says_where_a_version_lacks_and_why() -> None:
    other = [{**INDEX[3], "state": "UNAVAILABLE", "reason": "unloaded"}, INDEX[1], INDEX[2]]
    rows_ = {row["name"]: row for row in merged_index([said(1, INDEX), said(2, other)]).body}
    assert rows_["nap"]["reason"] == "ocr-0002: unloaded"
    assert rows_["batched"] == INDEX[1]
    assert rows_["later"] == INDEX[2]
    assert "ocr-0001: Internal: RuntimeError: no weights" in rows_["bad"]["reason"]
    assert "ocr-0002: not loaded" in rows_["bad"]["reason"]


def test_entries_of_the_watcher_of_processes_are_not_models() -> None:
    rows_ = merged_index([said(1, [{"name": f"{PREFIX}1:1:1:a:b"}, INDEX[1]])]).body
    assert rows_ == [INDEX[1]]


def test_what_must_be_equal_and_is_not_is_an_error_that_says_where() -> None:
    other = {**METADATA, "versions": ["1", "2"]}
    answer = same_answer("the metadata of 'nap'", [said(1, METADATA), said(2, other)])
    assert answer.status == 409
    assert answer.error == (
        "the instances differ in the metadata of 'nap': versions is "
        'ocr-0001: ["1"]; ocr-0002: ["1", "2"]'
    )
    lacks = same_answer("the metadata of 'nap'", [said(1, METADATA), said(2, UNKNOWN, 404)])
    assert lacks.status == 409
    assert "ocr-0002: Request for unknown model" in lacks.error
    nested = same_answer("it", [said(1, {"a": {"b": 1}}), said(2, {"a": {}})])
    assert nested.error.endswith("a.b is ocr-0001: 1; ocr-0002: not set")


def test_one_that_does_not_answer_says_nothing_of_a_configuration() -> None:
    assert same_answer("it", [said(1, METADATA), silent(2)]).body == METADATA
    assert same_answer("it", [silent(1), silent(2)]).status == 503
    assert same_answer("it", []).error == "no instance is ready"


def test_readiness_needs_every_instance() -> None:
    some = merged_readiness([said(1, None), said(2, NOT_READY, 400)])
    assert (some.status, some.error) == (400, "ocr-0002: Model version not ready")
    assert merged_readiness([said(1, None), silent(2)]).status == 400
    assert merged_readiness([]).status == 503
    assert merged_readiness([silent(1)]).status == 503


def test_extensions_are_those_that_all_have_and_versions_are_all_named() -> None:
    newer = {**SERVER, "version": "2.60.0", "extensions": ["trace", "statistics", "new"]}
    body = merged_server([said(1, SERVER), said(2, newer)], "ocr").body
    assert body["extensions"] == ["statistics", "trace"]
    assert (body["name"], body["version"]) == ("triton", "2.51.0, 2.60.0")


def test_without_a_configured_name_the_server_has_the_name_of_the_cluster() -> None:
    """An instance then has its own id as its name, which would change with each restart."""
    each = [said(n, {**SERVER, "name": f"ocr-000{n}"}) for n in (1, 2)]
    assert merged_server(each, "ocr").body == {**SERVER, "name": "ocr"}


def test_a_region_counts_if_every_instance_has_it() -> None:
    one, two = ({"name": name, "key": f"/{name}", "byte_size": 8} for name in "ab")
    answer = merged_regions([said(1, [one, two]), said(2, [two])])
    assert answer.body == [two]


def test_a_change_is_done_when_every_instance_did_it() -> None:
    assert everywhere([said(1, None), said(2, None)]).status == 200
    some = everywhere([said(1, None), said(2, {"error": "no such file"}, 400)])
    assert (some.status, some.error) == (400, "no such file")
    assert everywhere([]).status == 503
    silent = InstanceAnswer("ocr-0002", failure="it does not answer")
    assert everywhere([said(1, None), silent]).status == 503


def test_settings_that_differ_name_the_instances() -> None:
    other = {**TRACE, "trace_count": "8"}
    body = merged_settings([said(1, TRACE), said(2, other), said(3, other)]).body
    assert body["trace_count"] == 'ocr-0001: "-1"; ocr-0002, ocr-0003: "8"'
    assert {**body, "trace_count": "-1"} == TRACE


@pytest.mark.parametrize("body", [b"<html>", b"[" * 5000, b"\xff"])
def test_a_body_that_is_no_json_counts_as_no_answer(body: bytes) -> None:
    answer = InstanceAnswer.read("ocr-0001", 200, body)
    assert answer.status == 0
    assert "not JSON" in merged_server([answer], "ocr").error
