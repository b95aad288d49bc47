"""What a cluster returns as tables: plain rows, text, HTML, frames and drawings."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest
from fake_master import FakeMaster, event, instance, reading, snapshot

from tarn.cluster import Cluster
from tarn.cluster.link import Link
from tarn.cluster.read import card
from tarn.cluster.read.results import Alerts, Decisions, Events, History, Metrics, Table, Usage
from tarn.errors import ConfigError, ProviderMissingError
from tarn.follow.api import MasterApi
from tarn.read.retained_history import RetainedHistory
from tarn_plugins.cli.simulate.replay import load_of

AT = 1_764_201_600.0
T = TypeVar("T")
ROWS = [[AT, 2, 1, 2, 0.5, 1.0, 3.0, 0.0, 12.0], [AT + 10, 2, None, *([None] * 6)]]
ANSWER = {"step_s": 10, "columns": list(History.COLUMNS), "rows": ROWS}


class DirectLink:
    """Asks one master."""

    def __init__(self, api: MasterApi) -> None:
        self.api, self.url = api, api.url

    def ask(self, question: Callable[[MasterApi], T]) -> T:
        """Answer as a link does."""
        return question(self.api)


def measured(api: MasterApi) -> Cluster:
    """Return a cluster whose link is one master."""
    cluster = Cluster.named("llama")
    cluster._link = cast(Link, DirectLink(api))
    return cluster


def test_a_cluster_gives_metrics_usage_history_and_alerts_of_its_master() -> None:
    """Each through the real API, as rows of plain values."""
    past = RetainedHistory()
    for second in range(20):
        said = {"llama-0001": reading(1, requests_total=5.0 * second, request_us_total=0.0)}
        past = past.looked(snapshot(instance(1), readings=said, at=AT + second), gpus=2)
    now = snapshot(instance(1, suspect="silent"), at=AT + 20, events=(event("up"),))
    with (
        FakeMaster(now, api_token=None, past=lambda: past) as master,
        MasterApi(master.url, None) as api,
    ):
        cluster = measured(api)
        metrics, usage, history = cluster.metrics(), cluster.usage("1h"), cluster.history("30s")
        alerts = cluster.alerts()
        with pytest.raises(ConfigError, match="since"):
            cluster.history("soon")
    assert next(r["value"] for r in metrics if r["name"] == "tarn_target_containers") == 1
    spent = {"requests": 95.0, "failures": 0.0, "request_s": 0.0, "instance_s": 19.0, "gpu_s": 38.0}
    assert usage[0] == {"kind": "instance", "name": "llama-0001", **spent}
    assert (usage.begun, usage.until) == (AT, AT + 20)
    assert [(row["at"], row["requests_per_s"]) for row in history] == [(AT, 5.0), (AT + 10, 5.0)]
    assert (history.name, history.step_s) == ("llama", 10)
    assert [(row["code"], row["active"]) for row in alerts] == [("TARN-1106", True)]


def test_a_table_is_text_and_html_and_nothing_in_it_is_markup() -> None:
    """What comes from outside is escaped; times are said as times."""
    history = History.of("llama", ANSWER)
    assert str(history).splitlines()[1].startswith("2025-11-27T00:00:00Z  2        1      2")
    metrics = Metrics([{"name": "a", "type": "gauge", "labels": {"m": "<b>"}, "value": 1.0}])
    assert "m=<b>" in str(metrics)
    assert "<b>" not in metrics._repr_html_()
    assert "m=&lt;b&gt;" in metrics._repr_html_()
    assert "1234567" in str(Table([{"requests": 1234567.0}]))
    assert Table()._repr_html_() == ""
    assert str(Table()) == ""


def test_alerts_show_what_to_do_while_they_last() -> None:
    """And no word of markup in a message is markup."""
    plain = {"code": "TARN-1105", "severity": "warning", "title": "instance failed", "since": AT}
    now = {**plain, "subject": "a-1", "message": "<i>", "next_step": "`tarn logs`", "active": True}
    shown = Alerts([now, {**now, "active": False}])._repr_html_()
    assert shown.count("tarn logs") == 1
    assert "instance failed (over)" in shown
    assert "<i>" not in shown
    assert "nothing is wrong" in card.alerts(())
    assert "(warning)" in str(Alerts([{**now, "active": False}]))


def test_rows_become_frames_with_times_and_a_column_for_each_label() -> None:
    """None becomes a missing value, never a zero; without rows the columns are there."""
    pytest.importorskip("pandas", reason="needs pip install pandas")
    history = History.of("llama", ANSWER).to_pandas()
    assert history.index.name == "at"
    assert str(history.index[0]) == "2025-11-27 00:00:00+00:00"
    assert list(history["ready"].isna()) == [False, True]
    frame = Metrics(
        [
            {"name": "a", "type": "gauge", "labels": {"host": "h", "name": "n"}, "value": 1},
            {"name": "b", "type": "gauge", "labels": {}, "value": "NaN"},
        ]
    ).to_pandas()
    assert list(frame.columns) == ["name", "host", "label_name", "value", "type"]
    assert frame["value"].isna().tolist() == [False, True]
    for kind in (Events, Decisions, Alerts, Usage, History, Metrics):
        made: Any = kind()
        assert len(made.to_pandas()) == 0
    events = Events([{"code": "TARN-1102", "first": AT, "last": AT, "more": 1}]).to_pandas()
    assert list(events.columns)[-1] == "more"
    assert events["first"].dt.year.tolist() == [2025]


def test_a_history_is_a_load_that_a_policy_can_meet_again() -> None:
    """Each rate holds until the next one that is known; the last step ends it."""
    empty = History.of("llama", {**ANSWER, "rows": []}).load()
    assert empty == {"t_s": [], "requests_per_s": []}
    load = History.of("llama", {**ANSWER, "rows": [*ROWS, [AT + 20, *ROWS[0][1:]]]}).load()
    assert load == {"t_s": [0.0, 20.0, 30.0], "requests_per_s": [3.0, 3.0, 0.0]}
    assert list(load_of(load).steps(10.0)) == [3.0, 3.0, 3.0]


def test_a_history_is_drawn_without_a_screen() -> None:
    """As a PNG in a notebook, and into a file; gaps and no rows at all are no matter."""
    pytest.importorskip("matplotlib", reason="needs pip install matplotlib")
    drawn = History.of("llama", ANSWER).plot()
    assert drawn._repr_png_().startswith(b"\x89PNG")
    axes = drawn.figure.axes
    titles = [axis.get_title(loc="left") for axis in axes]
    assert titles == ["instances", "load", "requests a second", "latency, ms"]
    assert [line.get_label() for line in axes[0].get_lines()] == ["desired", "ready"]
    assert History.of("llama", {**ANSWER, "rows": []}).plot()._repr_png_()


def test_a_drawing_is_written_in_the_format_of_its_name(tmp_path: Any) -> None:
    """Such as a PDF for a report."""
    pytest.importorskip("matplotlib", reason="needs pip install matplotlib")
    path = History.of("llama", ANSWER).plot().save(tmp_path / "fleet.svg")
    assert "<svg" in path.read_text()


@pytest.mark.parametrize(
    ("module", "ask", "extra"),
    [
        ("pandas", lambda rows: rows.to_pandas(), "pip install 'tarn-orchestrator[notebook]'"),
        ("matplotlib", lambda rows: rows.plot(), "pip install 'tarn-orchestrator[plot]'"),
    ],
)
def test_what_is_not_installed_is_said_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, ask: Callable[[History], object], extra: str
) -> None:
    """Exit code 6, and not a traceback of an import."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # Python's word for "not there"
    with pytest.raises(ProviderMissingError) as caught:
        ask(History.of("llama", ANSWER))
    assert caught.value.next_step == extra
