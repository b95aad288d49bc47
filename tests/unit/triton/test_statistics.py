"""Triton's statistics as the counters that its metrics have."""

import json

import pytest

from tarn.domain import Known, Unknown
from tarn.domain.counters import CounterSet
from tarn.domain.outcomes import RequestCounts
from tarn.testing.fake_state import FakeModel
from tarn.triton.metrics import FAILURE, PENDING, QUEUE_US, REQUEST_US, SUCCESS
from tarn.triton.model_counters import outcomes, parse_statistics, rows

ONE = {
    "name": "m",
    "version": "1",
    "inference_count": 7,
    "execution_count": 3,
    "inference_stats": {
        "success": {"count": 5, "ns": 9_000_000},
        "fail": {"count": 2, "ns": 1},
        "queue": {"count": 5, "ns": 4_000},
        "compute_infer": {"count": 5, "ns": 8_000_000},
    },
}


def test_they_say_what_the_metrics_say() -> None:
    """Requests, failures, microseconds; no queue."""
    seen = parse_statistics(json.dumps({"model_stats": [ONE, {"name": "n"}]}).encode())
    assert [seen.total(f) for f in (SUCCESS, FAILURE, REQUEST_US, QUEUE_US)] == [
        Known(5.0),
        Known(2.0),
        Known(9000.0),
        Known(4.0),
    ]
    assert isinstance(seen.total(PENDING), Unknown)
    assert seen.by_label(SUCCESS, "model") == {"m": 5.0, "n": 0.0}


def test_their_rows_are_named_as_those_of_the_metrics() -> None:
    """So a change from one to the other moves nothing."""
    odd = 'a"b'
    model = FakeModel(odd)
    stats = parse_statistics(json.dumps({"model_stats": [model.stats()]}).encode())
    assert set(stats.by_label(SUCCESS, "model")) == {odd}
    assert [raw for raw, _ in stats.series[SUCCESS]] == [rb'model="a\"b",version="1"']


def test_they_tell_outcomes_too_but_not_what_waits() -> None:
    found = rows(parse_statistics(json.dumps({"model_stats": [ONE]}).encode()))
    assert found is not None
    (counted,) = found.of.values()
    assert counted == CounterSet(5.0, 2.0, 9000.0, 4.0, 8000.0, 7.0, 3.0)
    assert outcomes({"m": counted}, found.pending) == {"m": RequestCounts(counted)}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model_stats": [7]}',
        b'{"model_stats": [{}]}',
        b'{"model_stats": [{"name": "m", "inference_count": "7"}]}',
        b'{"model_stats": [{"name": "m", "inference_stats": {"success": {"count": true}}}]}',
    ],
)
def test_what_is_no_statistics_is_an_error(body: bytes) -> None:
    """Never a number that was not said."""
    with pytest.raises(ValueError, match=r"."):
        parse_statistics(body)


def test_the_response_cache_is_told_as_by_the_metrics() -> None:
    """Triton has the entries for every model; where both are 0 there may be no cache."""
    cache = {"cache_hit": {"count": 2, "ns": 35_877}, "cache_miss": {"count": 1, "ns": 4_000}}
    stats = {**ONE["inference_stats"], **cache}  # type: ignore[dict-item]
    body = json.dumps({"model_stats": [{**ONE, "inference_stats": stats}, {"name": "n"}]})
    seen = parse_statistics(body.encode())
    found = rows(seen)
    assert found is not None
    one = found.of["m", "1"]
    assert (one.cache_hits, one.cache_misses, one.computed) == (2.0, 1.0, 3.0)
    assert (one.cache_hit_us, one.cache_miss_us) == (35.877, 4.0)
    assert seen.by_label("nv_cache_num_hits_per_model", "model") == {"m": 2.0}
