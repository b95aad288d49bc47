"""One scrape, line by line: the versions of the models."""

import pytest

from tarn.domain import Unknown
from tarn.domain.counters import CounterSet, Line
from tarn.domain.outcomes import RequestCounts
from tarn.triton.metrics import gpu_signals, parse
from tarn.triton.model_counters import NAMELESS, Rows, outcomes, rows

SUCCESS, FAILURE = "nv_inference_request_success", "nv_inference_request_failure"
QUEUE, REQUEST = "nv_inference_queue_duration_us", "nv_inference_request_duration_us"
PENDING = "nv_inference_pending_request_count"


def scraped(*lines: str) -> Rows | None:
    return rows(parse("\n".join(lines).encode() + b"\n"))


def read(*lines: str) -> dict[Line, CounterSet] | None:
    found = scraped(*lines)
    return None if found is None else dict(found.of)


def test_reasons_are_added_up_and_versions_are_not() -> None:
    """Each version was loaded on its own, and what waits is the model's."""
    found = scraped(
        SUCCESS + '{model="a",version="1"} 3',
        SUCCESS + '{model="a",version="2"} 4',
        FAILURE + '{model="a",reason="OTHER",version="1"} 1',
        FAILURE + '{model="a",reason="REJECTED",version="1"} 2',
        REQUEST + '{model="a",version="1"} 8e+3',
        QUEUE + '{model="a",version="1"} 10',
        PENDING + '{model="a",version="1"} 5',
        PENDING + '{model="a",version="2"} 1',
        SUCCESS + '{model="été \\"}",version="1"} 1',
    )
    assert found is not None
    assert found.of == {
        ("a", "1"): CounterSet(3.0, 3.0, 8000.0, 10.0, rejected=2.0),
        ("a", "2"): CounterSet(4.0),
        ('été "}', "1"): CounterSet(1.0),
    }
    assert found.pending == {"a": 6.0, 'été "}': 0.0}


def test_only_failures_of_its_own_count_in_an_outcome() -> None:
    """What its queue rejects, and what a caller cancels, says nothing against an instance."""
    found = scraped(
        SUCCESS + '{model="a",version="1"} 7',
        *(
            FAILURE + f'{{model="a",reason="{reason}",version="1"}} {count}'
            for reason, count in (("OTHER", 1), ("BACKEND", 20), ("REJECTED", 300))
        ),
        FAILURE + '{model="a",reason="CANCELED",version="1"} 4000',
        FAILURE + '{model="old",version="1"} 5',
        FAILURE + " 9",
        PENDING + '{model="a",version="1"} 3',
        'nv_inference_compute_infer_duration_us{model="a",version="1"} 900',
        'nv_inference_count{model="a",version="1"} 28',
        'nv_inference_exec_count{model="a",version="1"} 7',
    )
    assert found is not None
    assert found.of["a", "1"].failed == 4321.0
    told = outcomes({model: one for (model, _), one in found.of.items()}, found.pending)
    counted = CounterSet(7.0, 21.0, compute_us=900.0, inferences=28.0, executions=7.0)
    assert told["a"] == RequestCounts(counted, 3.0)
    assert told["old"].failed == 5.0, "this Triton gives no reasons"
    assert NAMELESS not in told


def test_an_older_triton_says_nothing_of_its_queue() -> None:
    """Without the family there is no number, not 0."""
    found = scraped(SUCCESS + '{model="a"} 3')
    assert found is not None
    assert (found.of, found.pending) == ({("a", ""): CounterSet(3.0)}, {})


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-4", "1e300", "three"])
@pytest.mark.parametrize("family", [SUCCESS, FAILURE, QUEUE, PENDING])
def test_a_number_that_cannot_be_meant_spoils_the_look(family: str, value: str) -> None:
    """A sum without it would be too small, and the next one would look like a leap."""
    assert read(SUCCESS + '{model="a"} 3', family + f'{{model="b"}} {value}') is None


def test_lines_whose_model_cannot_be_told_are_one() -> None:
    """Nameless, or too long to be a name."""
    long = "x" * 2000
    assert read(SUCCESS + " 3", SUCCESS + f'{{model="{long}"}} 4') == {
        (NAMELESS, ""): CounterSet(7.0)
    }


def test_each_gpu_has_its_own_signals() -> None:
    """By uuid; a value that is no number is unknown; a line without a uuid is left out."""
    text = (
        'nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5\nnv_gpu_utilization 0.7\n'
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} NaN\n'
    )
    signals = gpu_signals(parse(text.encode()))
    assert signals['gpu_utilization{gpu="GPU-1"}'].value == 0.5
    assert "not a finite number" in signals['gpu_memory_used_bytes{gpu="GPU-1"}'].reason
    assert len(signals) == 2


def test_what_did_not_change_is_not_read_again() -> None:
    """The very same rows; one line that differs makes new ones."""
    lines = [SUCCESS + f'{{model="m{number}"}} {number}' for number in range(3)]
    first = rows(parse("\n".join(lines).encode()))
    assert rows(parse("\n".join(lines).encode()), first) is first
    lines[1] = SUCCESS + '{model="m1"} 7'
    second = rows(parse("\n".join(lines).encode()), first)
    assert second is not None
    assert second.of["m1", ""] == CounterSet(7.0)


def test_the_response_cache_and_first_responses_are_counted_with_the_others() -> None:
    """Their lines are only there for models that have them; milliseconds become microseconds."""
    labels = '{model="a",version="1"}'
    histogram = "nv_inference_first_response_histogram_ms"
    found = read(
        f"{SUCCESS}{labels} 10",
        f'{SUCCESS}{{model="b",version="1"}} 1',
        f"nv_cache_num_hits_per_model{labels} 7",
        f"nv_cache_num_misses_per_model{labels} 3",
        f"nv_cache_hit_duration_per_model{labels} 70",
        f"nv_cache_miss_duration_per_model{labels} 900",
        f"{histogram}_count{labels} 3",
        f"{histogram}_sum{labels} 1.5",
        f'{histogram}_bucket{{model="a",version="1",le="100"}} 3',
    )
    assert found == {
        ("a", "1"): CounterSet(
            10.0,
            cache_hits=7.0,
            cache_misses=3.0,
            cache_hit_us=70.0,
            cache_miss_us=900.0,
            first_responses=3.0,
            first_response_us=1500.0,
        ),
        ("b", "1"): CounterSet(1.0),
    }
    assert found["a", "1"].computed == 3.0


def test_what_a_triton_does_not_give_is_said_with_what_would_bring_it() -> None:
    """So a policy that reads it says what is missing."""
    seen = parse((SUCCESS + '{model="a",version="1"} 1\n').encode())
    said = {name: sample for name, sample in seen.signals().items() if isinstance(sample, Unknown)}
    assert "triton.cache" in said["cache_hits_total"].reason
    assert "histogram_latencies" in said["first_response_us_total"].reason
    assert "24.11" in said["first_responses_total"].reason
    cached = parse(b'nv_cache_num_misses_per_model{model="a",version="1"} 1\n')
    lacks = cached.total("nv_inference_request_summary_us")
    assert isinstance(lacks, Unknown)
    assert "response cache" in lacks.reason
