"""``/api/v1/history``, ``/api/v1/alerts`` and the contract's text at ``/alerts``."""

from collections.abc import Iterator

import httpx
import pytest
from fake_master import EPOCH, TOKEN, FakeMaster, PolicyAuthorizer, instance, snapshot

from tarn.domain import CODES, Event, Readiness
from tarn.domain.fleet import Fleet
from tarn.domain.history import COLUMNS
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.history import render_alerts
from tarn.read.alerts import alerts
from tarn.read.retained_history import RetainedHistory

AT = 1_764_201_600.0
TOTALS = {"TARN-1105": 3, "TARN-1200": 2, "TARN-1102": 9, "TARN-1106": 1}


@pytest.fixture(scope="module")
def web() -> Iterator[httpx.Client]:
    """A master that has looked for a minute, and whose instance is silent."""
    past = RetainedHistory()
    for second in range(60):
        past = past.looked(snapshot(instance(1), at=AT + second))
    failed = Event("TARN-1105", "llama-0000", "exit 1\n# [x] no", 5.0, 8.0, 3)
    now = snapshot(
        instance(1, suspect="no answer"),
        at=AT + 60,
        events=(failed,),
        event_totals=TOTALS,
    )
    past = past.looked(now)
    with (
        FakeMaster(now, api_token=None, past=lambda: past) as master,
        httpx.Client(base_url=master.url, trust_env=False) as client,
    ):
        yield client


def test_the_history_has_rows_by_column_and_the_step(web: httpx.Client) -> None:
    """As many as were asked for."""
    whole = web.get("/api/v1/history").json()
    assert (whole["step_s"], tuple(whole["columns"])) == (10, COLUMNS)
    assert [row[0] for row in whole["rows"]] == [AT + 10 * step for step in range(7)]
    assert all(len(row) == len(COLUMNS) for row in whole["rows"])
    half = web.get("/api/v1/history", params={"since_s": 30}).json()
    assert [row[0] for row in half["rows"]] == [AT + 30, AT + 40, AT + 50, AT + 60]
    assert web.get("/api/v1/history", params={"since_s": 86400}).json()["step_s"] == 60


@pytest.mark.parametrize("given", ["", "x", "0", "-1", "nan", "inf", "1e99"])
def test_a_span_that_is_none_is_refused_in_words(web: httpx.Client, given: str) -> None:
    """Nothing is guessed."""
    answer = web.get("/api/v1/history", params={"since_s": given})
    assert answer.status_code == 400
    assert answer.json()["error"]["where"] == "since_s"


def test_alerts_say_what_is_wrong_since_when_and_what_to_do(web: httpx.Client) -> None:
    """What is the case first, then what was."""
    now, was = web.get("/api/v1/alerts").json()["alerts"]
    code = CODES["TARN-1106"]
    assert now == {
        "code": code.code,
        "severity": "warning",
        "subject": "llama-0001",
        "message": "no answer",
        "models": [],
        "since": AT + 60,
        "last": None,
        "count": 1,
        "title": code.title,
        "meaning": code.meaning,
        "next_step": code.next_step,
        "active": True,
    }
    assert (was["code"], was["active"], was["since"], was["last"]) == ("TARN-1105", False, 5.0, 8.0)


def test_an_authorizer_that_cannot_answer_is_an_alert() -> None:
    """Before all others: nobody else gets in."""
    away = Readiness(ready=False, reason="no policies yet")
    with FakeMaster(snapshot(instance(1)), readiness=away) as master:
        headers = {"X-TARN-Token": TOKEN.decode()}
        answer = httpx.get(f"{master.url}/api/v1/alerts", headers=headers, trust_env=False)
    (alert,) = answer.json()["alerts"]
    assert (alert["code"], alert["message"]) == ("TARN-3832", "no policies yet")
    assert (alert["severity"], alert["active"]) == ("alert", True)


def test_the_counters_of_the_page_never_fall_and_its_lines_are_a_hundred() -> None:
    """Over a thousand failures, of which the newest are kept; the Java TARN's fell."""
    fleet, counted = Fleet("llama", EPOCH, 1), []
    for number in range(1000):
        fleet = fleet.note(AT + number, "TARN-1105", f"llama-{number:04d}", "it ended")
        if number % 50 == 0 or number > 995:
            now = snapshot(events=fleet.events, event_totals=fleet.event_totals)
            text = render_alerts(now, alerts(now, {}))
            counted.append([int(line.split()[1]) for line in text.splitlines()[:3]])
    assert counted == sorted(counted)
    assert counted[-1] == [1000, 1000, 0]
    lines = text.splitlines()[3:]
    assert len(lines) == 100
    assert "llama-0999" in lines[-1]


def test_the_page_has_three_counters_and_a_line_for_each_alert(web: httpx.Client) -> None:
    """A message with a line break makes no line of its own."""
    answer = web.get("/alerts")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert lines[:3] == [
        "tarn_alerts_total 4",
        "tarn_container_failures_total 3",
        "tarn_scaling_events_total 2",
    ]
    assert lines[3:] == [
        "# [1970-01-01T00:00:08Z] WARNING - TARN-1105 instance failed: llama-0000: exit 1 # [x] no",
        "# [2025-11-27T00:01:00Z] WARNING - TARN-1106 instance silent: llama-0001: no answer",
    ]


def test_the_usage_has_a_row_for_each_instance_and_model(web: httpx.Client) -> None:
    """A minute of one instance, in slots of ten."""
    said = web.get("/api/v1/usage", params={"since_s": 60}).json()
    assert (said["from"], said["to"], said["step_s"]) == (AT, AT + 60, 600)
    spent = {"requests": 0.0, "failures": 0.0, "request_s": 0.0, "instance_s": 60.0, "gpu_s": 0.0}
    assert said["instances"] == [{"id": "llama-0001", **spent}]
    assert said["models"] == [{"name": "echo", **spent}]


def test_the_usage_of_a_model_that_somebody_may_not_list_is_not_told() -> None:
    """Nor is that of one which only an earlier master met: nobody was asked about it."""
    past = RetainedHistory()
    for second in range(3):
        models = tuple((name, "READY", "") for name in ("former", "payroll", "ocr"))
        past = past.looked(snapshot(instance(1, models=models), at=AT + second))
    now = snapshot(instance(1, models=models[1:]), at=AT + 3)
    rights = {("anonymous", "view", "")} | {
        ("anonymous", action, "ocr") for action in ("list", "metadata")
    }
    gate = DirectAuthorizer(PolicyAuthorizer(rights=rights))
    with FakeMaster(now, api_token=None, gate=gate, past=lambda: past) as master:
        said = httpx.get(f"{master.url}/api/v1/usage", trust_env=False)
        history = httpx.get(f"{master.url}/api/v1/history", trust_env=False)
    assert [row["name"] for row in said.json()["models"]] == ["ocr"]
    assert "payroll" not in said.text + history.text
    assert "former" not in said.text + history.text
