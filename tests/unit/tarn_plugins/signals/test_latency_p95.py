"""The quantile of a fleet, made of those of its parts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Known, Sample, Unknown
from tarn.domain.signals import Samples
from tarn.triton.metrics import parse
from tarn_plugins.signals.latency_p95 import COUNT, SUMMARY, LatencyP95

MODEL = 'model="m",version="1"'
P95, ENDED = f'{SUMMARY}{{{MODEL},quantile="0.95"}}', f"{COUNT}{{{MODEL}}}"


def row(p95_us: float, ended: float, model: str = "m") -> dict[str, Sample[float]]:
    """What Triton 2.51 says of one model, the other quantiles included."""
    text = (
        f'{COUNT}{{model="{model}",version="1"}} {ended:g}\n'
        f'{SUMMARY}{{model="{model}",version="1",quantile="0.5"}} 1\n'
        f'{SUMMARY}{{model="{model}",version="1",quantile="0.95"}} {p95_us}\n'
        f'{SUMMARY}{{model="{model}",version="1",quantile="0.99"}} 9e9\n'
    )
    seen = parse(text.encode(), (SUMMARY, COUNT))
    return seen.each(SUMMARY) | seen.each(COUNT)


def read(*rows: dict[str, Sample[float]], **others: dict[str, Sample[float]]) -> Sample[float]:
    """One instance a second apart; *others* have one row each."""
    samples: Samples = {"a": tuple((float(n), one) for n, one in enumerate(rows))}
    more = {id_: ((0.0, one),) for id_, one in others.items()}
    return LatencyP95().read({**samples, **more}, 30.0)


def test_one_instance_with_one_model_says_it_in_seconds() -> None:
    """Triton says microseconds."""
    assert read(row(250_000, 10)) == Known(0.25)


def test_models_and_instances_weigh_as_much_as_they_answered_lately() -> None:
    """30 requests at 0.1 s, 10 at 0.5 s; what was answered long ago counts for nothing."""
    early = row(0, 1000) | row(0, 20, "slow")
    late = row(100_000, 1030) | row(500_000, 30, "slow")
    assert read(early, late) == Known(pytest.approx(0.2))
    assert read(row(100_000, 30), b=row(500_000, 10)) == Known(pytest.approx(0.2))


def test_a_model_that_was_loaded_again_counts_from_its_start() -> None:
    """Its counter fell."""
    late = row(100_000, 5) | row(400_000, 15, "other")
    assert read(row(1, 500) | row(1, 0, "other"), late) == Known(pytest.approx(0.325))


def test_a_scrape_that_failed_is_no_start() -> None:
    """The oldest count that is known is."""
    failed = {P95: Unknown("timed out"), ENDED: Unknown("timed out")}
    early = row(1, 500) | row(1, 0, "other")
    late = row(100_000, 510) | row(300_000, 10, "other")
    assert read(failed, early, late) == Known(pytest.approx(0.2))


def test_an_idle_fleet_has_no_latency() -> None:
    """Nothing ended in the window, or Triton's own minute is empty."""
    assert read(row(100_000, 5), row(100_000, 5)) == Unknown("no request ended in the last 30 s")
    assert read(row(math.nan, 5)) == Unknown("no request ended in the last minute")


def test_a_triton_without_summaries_says_what_to_write() -> None:
    """The setting in the spec, as it stands there."""
    seen = parse(b'nv_inference_request_success{model="m"} 1\n', (SUMMARY, COUNT))
    said = read(seen.each(SUMMARY) | seen.each(COUNT))
    assert said == Unknown(
        f"a: no {SUMMARY}: Triton gives it with "
        "triton: {args: {metrics-config: [summary_latencies=true]}} in the spec"
    )


def test_other_quantiles_say_what_to_write() -> None:
    """Summaries are on, and this one was left out."""
    text = f'{SUMMARY}{{model="m",version="1",quantile="0.9"}} 7\n'.encode()
    said = read(parse(text, (SUMMARY,)).each(SUMMARY))
    assert isinstance(said, Unknown)
    assert "a keeps no quantile 0.95: add 0.95:0.001 to summary_quantiles" in said.reason


@given(st.lists(st.tuples(st.floats(1, 1e9), st.integers(1, 10_000)), min_size=1, max_size=5))
def test_the_whole_lies_between_its_parts(parts: list[tuple[float, int]]) -> None:
    """Never below the fastest, never above the slowest."""
    samples: Samples = {f"i{n}": ((0.0, row(*part)),) for n, part in enumerate(parts)}
    said = LatencyP95().read(samples, 30.0)
    assert isinstance(said, Known)
    values = [value / 1e6 for value, _ in parts]
    assert min(values) * 0.999 <= said.value <= max(values) * 1.001
