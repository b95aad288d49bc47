"""What the response cache answers says nothing about how fast a model computes."""

import attrs

from tarn.domain import Instance, InstanceState
from tarn.domain.counters import CounterSet
from tarn.domain.outcomes import OutcomeHistory, RequestCounts
from tarn.domain.spec import UnwellSpec
from tarn.domain.symptoms import Evidence

COMPUTE_US = 50_000.0


@attrs.frozen
class Read:
    outcomes: dict[str, RequestCounts]
    counted_s: float | None = 0.0


def counted(completed: float, hits: float) -> Read:
    """A model that takes 50 ms for each request that it computes."""
    computed = completed - hits
    one = CounterSet(
        completed,
        compute_us=COMPUTE_US * computed,
        inferences=computed,
        executions=computed,
        cache_hits=hits,
        cache_misses=computed,
    )
    return Read({"ocr": RequestCounts(one, 0.0)})


def ready(id_: str) -> Instance:
    return Instance(id_, "hash", InstanceState.READY)


def test_an_instance_with_a_cold_cache_is_not_slow() -> None:
    """It computes as fast as those whose caches answer nine of ten requests."""
    history = OutcomeHistory()
    history = history.looked({id_: counted(0.0, 0.0) for id_ in "abc"}, 0.0, 30.0)
    warm, cold = counted(10_000.0, 9_000.0), counted(1_000.0, 0.0)
    history = history.looked({"a": warm, "b": warm, "c": cold}, 20.0, 30.0)
    assert Evidence(history, UnwellSpec(), {}).slow([ready(id_) for id_ in "abc"]) == {}
    assert history.longest == {}  # shorter than what is learned from


def test_the_mean_is_that_of_what_was_computed() -> None:
    """A stall is judged by it; answers from the cache would make it too short."""
    (one,) = counted(100.0, 90.0).outcomes.values()
    assert one.mean_s == COMPUTE_US / 1e6
    (all_cached,) = counted(100.0, 100.0).outcomes.values()
    assert all_cached.mean_s is None


def test_a_hit_that_is_counted_before_its_request_is_not_below_zero() -> None:
    """One scrape is not one moment."""
    assert CounterSet(3.0, cache_hits=4.0).computed == 0.0
