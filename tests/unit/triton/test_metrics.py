"""Reading Triton's metrics text."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tarn.domain import Known, Unknown
from tarn.triton.metrics import FAMILIES, LONGEST_LINE, MetricsParser, TritonMetrics, parse

REAL = (Path(__file__).parents[2] / "data" / "triton-2.51-metrics.txt").read_bytes()
PENDING = "nv_inference_pending_request_count"
SUCCESS = "nv_inference_request_success"
GPU = "nv_gpu_utilization"


def test_reads_the_text_of_a_real_triton() -> None:
    """What Triton 2.51 wrote after one request to `nap` and none to `echo`."""
    signals = parse(REAL).signals()
    assert signals["pending"] == Known(0.0)
    assert signals["requests_total"] == Known(1.0)
    assert signals["failures_total"] == Known(0.0)
    assert signals["request_us_total"] == Known(28525.0)
    assert signals["queue_us_total"] == Known(29.0)


def test_an_absent_gpu_is_unknown_and_not_zero() -> None:
    """A machine without GPU has no utilization, and the reason says so."""
    signals = parse(REAL).signals()
    assert isinstance(signals["gpu_utilization"], Unknown)
    assert "without GPU" in signals["gpu_utilization"].reason
    assert isinstance(signals["gpu_memory_used_bytes"], Unknown)


def test_pending_is_unknown_before_triton_23_09() -> None:
    """Counters without the gauge: the reason names the version that brought it."""
    text = re.sub(rb"(?m)^.*pending_request_count.*\n", b"", REAL)
    pending = parse(text).signals()["pending"]
    assert isinstance(pending, Unknown)
    assert "before 23.09" in pending.reason


def test_nothing_is_known_of_an_empty_text() -> None:
    """No model is loaded: every signal is Unknown."""
    assert all(isinstance(signal, Unknown) for signal in parse(b"").signals().values())


def test_gpu_utilization_is_the_mean_fraction_over_gpus() -> None:
    """0.95 stays 0.95: it is no percentage."""
    assert parse(b'nv_gpu_utilization{gpu_uuid="GPU-1"} 0.95').total(GPU) == Known(0.95)
    two = b'nv_gpu_utilization{gpu_uuid="a"} 0.5\nnv_gpu_utilization{gpu_uuid="b"} 1.0\n'
    assert parse(two).signals()["gpu_utilization"] == Known(0.75)
    assert parse(two).by_label(GPU, "gpu_uuid") == {"a": 0.5, "b": 1.0}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"nv_inference_count 1.2e+02", 120.0),
        (b'nv_inference_count{model="a}b"} 3', 3.0),
        (b'nv_inference_count{model="a\\"} 9"} 3', 3.0),
        (b'nv_inference_count{model="a"} 3 1395066363000', 3.0),
        (b'nv_inference_count{model="a"} 3\r', 3.0),
        (b'  nv_inference_count  { model = "a" , }  3  ', 3.0),
        (b"nv_inference_count\t7", 7.0),
        (b'nv_inference_count{model="a"} 3 # {trace="x"} 0.5', 3.0),
        (b"nv_inference_count{} -1e-3", -0.001),
    ],
)
def test_reads_every_legal_form_of_a_line(line: bytes, value: float) -> None:
    """Exponents, braces and quotes in labels, time stamps, CRLF, blanks, exemplars."""
    assert parse(line + b"\n").total("nv_inference_count") == Known(value)


@pytest.mark.parametrize("value", [b"NaN", b"+Inf", b"-Inf"])
def test_a_value_that_is_no_finite_number_is_unknown(value: bytes) -> None:
    """It poisons its family and no other."""
    metrics = parse(b"nv_inference_count " + value + b"\n" + SUCCESS.encode() + b" 2\n")
    assert isinstance(metrics.total("nv_inference_count"), Unknown)
    assert metrics.total(SUCCESS) == Known(2.0)


@pytest.mark.parametrize(
    "line",
    [b"{", b'{model="a} 3', b'{model="a"}', b" 1_000", b" 0x10", b"{a=b} 1 2 3", b" 1 2 3"],
)
def test_a_line_that_cannot_be_read_makes_its_family_unknown(line: bytes) -> None:
    """A sum without it would be too small."""
    name = b"nv_inference_count"
    total = parse(name + b" 1\n" + name + line + b"\n").total("nv_inference_count")
    assert isinstance(total, Unknown)
    assert "cannot read" in total.reason


def test_a_family_whose_name_only_begins_alike_is_another() -> None:
    """Names are compared whole."""
    assert isinstance(parse(b"nv_inference_count_bucket 3\n").total("nv_inference_count"), Unknown)


def test_keeps_what_was_asked_for_by_name() -> None:
    """Beside the usual families, any other."""
    assert parse(REAL, ["nv_cpu_utilization"]).total("nv_cpu_utilization") == Known(
        0.0202020202020202
    )
    assert isinstance(parse(REAL).total("nv_cpu_utilization"), Unknown)


def test_labels_are_unescaped() -> None:
    """Backslash, quote and newline, as the format defines them."""
    text = rb'nv_inference_count{model="a\\b\"c\nd",version="1"} 1'
    ((labels, value),) = parse(text).samples("nv_inference_count")
    assert (labels, value) == ({"model": 'a\\b"c\nd', "version": "1"}, 1.0)


def test_a_line_without_end_is_given_up_and_not_kept() -> None:
    """Memory and time stay bounded, whatever is sent."""
    parser = MetricsParser()
    parser.feed(b'nv_inference_count{model="')
    for _ in range(5):
        parser.feed(b"x" * LONGEST_LINE)
    parser.feed(b'"} 1\n' + SUCCESS.encode() + b" 2\n")
    metrics = parser.close()
    assert isinstance(metrics.total("nv_inference_count"), Unknown)
    assert metrics.total(SUCCESS) == Known(2.0)


names = st.sampled_from((*FAMILIES, "nv_inference_count_bucket", "nv_cpu_utilization", "up"))
label_values = st.text(st.sampled_from('ab}{" \\=,\né#'), max_size=6)
labels = st.dictionaries(st.sampled_from(("model", "version", "x_1")), label_values, max_size=3)
values = st.floats(allow_nan=False, allow_infinity=True).map(repr) | st.sampled_from(
    ("1e3", "+Inf", "NaN", "12", "-0.5")
)
rows = st.tuples(names, labels, values, st.sampled_from(("", " 1395066363")))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _line(row: tuple[str, dict[str, str], str, str]) -> str:
    name, labels, value, stamp = row
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}{stamp}" if inside else f"{name} {value}{stamp}"


def _same(ours: TritonMetrics, text: str) -> bool:
    theirs: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            theirs.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    wanted = {name: rows for name, rows in theirs.items() if name in FAMILIES}
    mine = {name: list(ours.samples(name)) for name in ours.series}
    return not ours.unreadable and repr(_sorted(mine)) == repr(_sorted(wanted))


def _sorted(
    families: dict[str, list[tuple[dict[str, str], float]]],
) -> dict[str, list[tuple[list[tuple[str, str]], float]]]:
    return {
        name: [(sorted(labels.items()), value) for labels, value in rows]
        for name, rows in sorted(families.items())
    }


@given(st.lists(rows, max_size=12), st.sampled_from(("\n", "\n\n", "\n# HELP x y\n")))
def test_agrees_with_prometheus_client(
    table: list[tuple[str, dict[str, str], str, str]], end: str
) -> None:
    """On any text that its parser takes, ours finds the same samples."""
    text = "".join(_line(row) + end for row in table)
    assert _same(parse(text.encode()), text)


@given(st.lists(rows, max_size=8), st.integers(1, 40))
def test_pieces_change_nothing(
    table: list[tuple[str, dict[str, str], str, str]], size: int
) -> None:
    """Wherever the text is cut, the result is the same."""
    text = "".join(_line(row) + "\n" for row in table).encode()
    parser = MetricsParser()
    for start in range(0, len(text), size):
        parser.feed(text[start : start + size])
    assert repr(parser.close()) == repr(parse(text))


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(noise: bytes) -> None:
    """Garbage is no reason to raise."""
    metrics = parse(noise + b"\nnv_inference_count{" + noise + b"\n")
    total = metrics.total("nv_inference_count")
    assert isinstance(total, Unknown) or math.isfinite(total.value)
    assert all(isinstance(name, str) for name in metrics.by_label("nv_inference_count", "model"))
