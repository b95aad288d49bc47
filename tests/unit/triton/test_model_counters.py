"""One scrape, model by model."""

from tarn.domain.outcomes import RequestCounts
from tarn.triton.metrics import gpu_signals, parse
from tarn.triton.model_counters import NAMELESS, ModelCounters, rows

SUCCESS, FAILURE = "nv_inference_request_success", "nv_inference_request_failure"
QUEUE, REQUEST = "nv_inference_queue_duration_us", "nv_inference_request_duration_us"
PENDING = "nv_inference_pending_request_count"


def read(*lines: str) -> dict[str, ModelCounters] | None:
    found = rows(parse("\n".join(lines).encode() + b"\n"))
    return None if found is None else dict(found.of)


def test_versions_and_reasons_are_added_up() -> None:
    """One row a model, whatever its labels say beside its name."""
    assert read(
        SUCCESS + '{model="a",version="1"} 3',
        SUCCESS + '{model="a",version="2"} 4',
        FAILURE + '{model="a",reason="OTHER",version="1"} 1',
        FAILURE + '{model="a",reason="REJECTED",version="1"} 2',
        REQUEST + '{model="a",version="1"} 8e+3',
        QUEUE + '{model="a",version="1"} 10',
        PENDING + '{model="a",version="1"} 5',
        SUCCESS + '{model="été \\"}",version="1"} 1',
    ) == {
        "a": ModelCounters(7.0, 3.0, 8000.0, 10.0, 5.0),
        'été "}': ModelCounters(1.0, pending=0.0),
    }


def test_only_failures_of_its_own_count_in_an_outcome() -> None:
    """What its queue rejects, and what a caller cancels, says nothing against an instance."""
    text = "\n".join(
        (
            SUCCESS + '{model="a",version="1"} 7',
            *(
                FAILURE + f'{{model="a",reason="{reason}",version="1"}} {count}'
                for reason, count in (("OTHER", 1), ("BACKEND", 20), ("REJECTED", 300))
            ),
            FAILURE + '{model="a",reason="CANCELED",version="1"} 4000',
            FAILURE + '{model="old",version="1"} 5',
            PENDING + '{model="a",version="1"} 3',
            'nv_inference_compute_infer_duration_us{model="a",version="1"} 900',
            'nv_inference_count{model="a",version="1"} 28',
            'nv_inference_exec_count{model="a",version="1"} 7',
        )
    )
    found = rows(parse(text.encode() + b"\n"))
    assert found is not None
    assert found.outcomes["a"] == RequestCounts(7.0, 21.0, 3.0, None, 900.0, 28.0, 7.0)
    assert found.outcomes["old"].failed == 5.0, "this Triton gives no reasons"
    assert found.of["a"].failed == 4321.0


def test_an_older_triton_says_nothing_of_its_queue() -> None:
    """Without the family there is no number, not 0."""
    assert read(SUCCESS + '{model="a"} 3') == {"a": ModelCounters(3.0, pending=None)}


def test_odd_values_and_labels_make_no_odd_totals() -> None:
    """Not finite, below zero, nameless, or too long to be a name: nothing that can be summed up."""
    assert read(
        SUCCESS + '{model="a"} NaN', FAILURE + '{model="a"} +Inf', QUEUE + '{model="a"} -4'
    ) == {"a": ModelCounters()}
    long = "x" * 2000
    assert read(SUCCESS + " 3", SUCCESS + f'{{model="{long}"}} 4') == {NAMELESS: ModelCounters(7.0)}


def test_a_line_that_cannot_be_read_spoils_the_look() -> None:
    """A sum without it would be too small, and the next one would look like a leap."""
    assert read(SUCCESS + '{model="a"} 3', SUCCESS + '{model="b"} three') is None


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
    assert second.of["m1"] == ModelCounters(7.0)
