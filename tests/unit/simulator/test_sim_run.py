"""What a run says of itself, and how it is drawn."""

import re
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest
from bench import policies
from hypothesis import given
from hypothesis import strategies as st

from tarn.cluster.simulated import Run, WaitTimes, flaps
from tarn.errors import ConfigError, TarnError
from tarn.plugins import load
from tarn_plugins.cli.simulate.drawing import figure, page, panels, plot, ticks
from tarn_plugins.cli.simulate.replay import enter, simulate
from tarn_plugins.cli.simulate.trace import Trace


@pytest.fixture(scope="module")
def runs() -> tuple[Run, ...]:
    """Two policies under one load of three minutes."""
    trace = Trace("<b>load</b>", (0.0, 60.0, 180.0), (200.0, 700.0, 0.0))
    spec, offered = policies.specified(trace), load()
    return tuple(simulate(enter(spec, offered, name), trace) for name in ("target", "hpa"))


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ([], 0),
        ([(0, 2)], 0),
        ([(0, 2), (10, 4), (20, 6)], 0),
        ([(0, 2), (10, 4), (20, 2)], 1),
        ([(0, 2), (10, 4), (610, 2)], 1),
        ([(0, 2), (10, 4), (611, 2)], 0),
        ([(0, 2), (10, 4), (20, 6), (30, 5), (40, 6)], 2),
    ],
)
def test_a_flap_is_a_change_and_its_opposite_within_ten_minutes(
    changes: list[tuple[int, int]], count: int
) -> None:
    """Only the next change counts, and the first size is none."""
    assert flaps([at for at, _ in changes], [size for _, size in changes]) == count


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), min_size=1, max_size=30))
def test_quantiles_are_those_of_requests(waits: list[tuple[float, int]]) -> None:
    """As if each request stood in the list by itself."""
    each = sorted(seconds for seconds, count in waits for _ in range(count))
    made = WaitTimes.of((seconds, float(count)) for seconds, count in waits)
    assert made.total == len(each)
    for share in (0.5, 0.95, 0.99):
        place = next(n for n in range(len(each)) if n + 1 >= share * len(each) - 1e-9)
        assert made.quantile(share) in {each[place], each[max(0, place - 1)]}
    assert WaitTimes.of([]).quantile(0.95) == 0


def test_plain_data_has_the_summary_and_each_reason(runs: tuple[Run, ...]) -> None:
    """What ``-o json`` prints."""
    plain = runs[0].plain()
    assert plain["policy"] == "target"
    assert plain["queue_p95_s"] == runs[0].summary.queue_p95_s
    first, *later = plain["decisions"]
    assert (first["t_s"], first["by"]) == (0, "start")
    grown = next(decision for decision in later if decision["t_s"] >= 60)
    assert grown["t_s"] <= 63
    assert "offered_load" in grown["reason"]
    assert re.fullmatch(r"<target under <b>load</b>: queue time p95 .* 0 lost>", repr(runs[0]))


def test_a_page_needs_nothing_else(runs: tuple[Run, ...]) -> None:
    """No link, no script, no font: one document, every name escaped, every curve within."""
    text = page(runs)
    assert not re.search(r"https?://|<script|<link|src=|url\(", text)
    assert "&lt;b&gt;load" in text
    assert "<b>load" not in text
    drawn = re.findall(r"<svg.*?</svg>", text)
    assert len(drawn) == 4
    for svg in drawn:
        numbers = [float(n) for n in re.findall(r'd="M[\d.]+ ([\d.]+)', svg)]
        assert all(0 <= number <= 150 for number in numbers)
        assert ET.fromstring(svg).tag == "svg"
    assert figure(runs[:1]) == runs[0]._repr_html_()


def test_a_long_run_is_thinned_and_keeps_its_peaks(runs: tuple[Run, ...]) -> None:
    """No more points than a screen shows, and the greatest of each stretch."""
    loads = tuple(float(n == 3333) for n in range(10_000))
    long = attrs.evolve(runs[0], load=loads, queue_s=loads, desired=loads, ready=loads, held=loads)
    load_panel = panels([long])[0]
    assert len(load_panel.lines[0].values) <= 700
    assert max(load_panel.lines[0].values) == 1


@given(st.floats(1e-3, 1e7))
def test_axes_end_above_what_they_show(top: float) -> None:
    """Few ticks, from zero to at least the top."""
    marks = ticks(top)
    assert marks[0] == 0
    assert marks[-1] >= top * 0.999
    assert 2 <= len(marks) <= 7


def test_a_plot_is_written_as_its_ending_says(runs: tuple[Run, ...], tmp_path: Path) -> None:
    """HTML, PNG where matplotlib is, and no other."""
    plot(runs, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!doctype html>")
    if find_spec("matplotlib"):
        plot(runs, tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"'.gif' is not a plot format"):
        plot(runs, tmp_path / "a.gif")
    with pytest.raises(TarnError, match="cannot be written: No such file"):
        plot(runs, tmp_path / "absent" / "a.html")
