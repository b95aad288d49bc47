"""The text of metrics as rows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tarn.cluster.monitoring import MetricSample, rows

VALUES = st.floats() | st.integers(-(2**53), 2**53)


def test_a_sample_has_its_familys_type() -> None:
    """Also the parts of a histogram; one without a family is untyped."""
    text = (
        "# HELP up Whether.\n# TYPE up gauge\nup 1\n\n"
        '# TYPE t_seconds histogram\nt_seconds_bucket{le="+Inf"} 2\nt_seconds_sum 3.5\n'
        'other{a="b",} 8e+09 1700000000000\n'
    )
    assert list(rows(text)) == [
        MetricSample("up", "gauge", {}, 1.0),
        MetricSample("t_seconds_bucket", "histogram", {"le": "+Inf"}, 2.0),
        MetricSample("t_seconds_sum", "histogram", {}, 3.5),
        MetricSample("other", "untyped", {"a": "b"}, 8e9),
    ]


@pytest.mark.parametrize("text", ["<html>", "up", "up one", 'up{a="b} 1', "up{a=b} 1", "1up 1"])
def test_what_is_no_sample_is_said(text: str) -> None:
    """Somebody else may have answered."""
    with pytest.raises(ValueError, match=r"is no|could not convert"):
        list(rows(text))


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=3))
def test_whatever_prometheus_client_writes_is_read(samples: dict[str, float]) -> None:
    """Labels with quotes, line ends and backslashes; values that are no numbers."""
    registry = CollectorRegistry()
    gauge = Gauge("one", "Of one.", ["model"], registry=registry)
    Histogram("took_seconds", "Spans.", registry=registry).observe(0.3)
    for label, value in samples.items():
        gauge.labels(label.encode("utf-8", "replace").decode()).set(value)
    text = generate_latest(registry).decode()
    wanted = [
        (sample.name, family.type, sample.labels, str(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    found = [
        (row.name, row.type, row.labels, str(row.value))
        for row in rows(text)
        if not row.name.endswith("_created")
    ]
    assert found == wanted


def test_no_number_is_kept_as_such() -> None:
    """It is what Prometheus would store."""
    (row,) = rows("x NaN\n")
    assert math.isnan(row.value)
