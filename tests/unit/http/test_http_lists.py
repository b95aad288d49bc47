"""``list`` over HTTP: a model that somebody may not list stands in no answer they get."""

import threading

import attrs
import httpx
from fake_master import FakeMaster, PolicyAuthorizer, decision, event, instance, snapshot

from tarn.domain import Issue, Known, Readiness
from tarn.domain.counters import CounterSet
from tarn.domain.model_totals import ModelTotals, ModelTotalsHistory
from tarn.http.blocking_pool import AuthorizerPool, DirectAuthorizer
from tarn.http.visibility import MASK
from tarn.read.snapshot import SignalStatus, Snapshot

SHOWN, SECRET, UNKNOWN = "ocr", "payroll", "payroll-2"
PAGES = (
    *("/", "/instances", "/config", "/metrics", "/api/v1/status", "/api/v1/instances"),
    *("/api/v1/events", "/api/v1/decisions", "/api/v1/scaling", "/api/v1/models"),
    *("/alerts", "/api/v1/alerts"),
)
STREAMS = ("/api/v1/events", "/api/v1/decisions", "/api/v1/stream")
CONFIG = {"name": "llama", "models": {"serve": [SHOWN, SECRET], "repository": "/m"}}
SEES = {("anonymous", "view", ""), ("anonymous", "list", SHOWN), ("anonymous", "metadata", SHOWN)}


def picture() -> Snapshot:
    """One that names the secret model wherever words may stand."""
    models = ((SHOWN, "READY", ""), (SECRET, "UNAVAILABLE", f"{SECRET}_0_1 failed"))
    said = f"model {SECRET} is unavailable on llama-0001"
    one = instance(1, models=models, reason=said)
    sight = SignalStatus(
        f'queue{{model="{SECRET}"}}', Known(1.0), 1.0, "", f"metric of {SECRET}", True
    )
    totals = {SECRET: ModelTotals(CounterSet(1.0)), SHOWN: ModelTotals(CounterSet(2.0))}
    return snapshot(
        one,
        ended=(attrs.evolve(one, id="llama-0000", models=((UNKNOWN, "READY", ""),)),),
        reason=said,
        issues=(
            Issue(SECRET, said, code="TARN-1105"),
            Issue(SECRET, said, "Fix it", "TARN-1152", public="a model fails", models=(SECRET,)),
        ),
        events=(event(said), event(f"{UNKNOWN} was unloaded")),
        decisions=(attrs.evolve(decision(2), reason=f"queue of {SECRET}"),),
        signals=(sight,),
        models=ModelTotalsHistory(((1.0, totals),)),
    )


def master_of(authorizer: PolicyAuthorizer) -> FakeMaster:
    return FakeMaster(picture(), api_token=None, gate=DirectAuthorizer(authorizer), config=CONFIG)


def first_of(web: httpx.Client, path: str) -> str:
    """Return the first part of a stream."""
    with web.stream("GET", path, headers={"Accept": "text/event-stream"}) as answer:
        assert answer.status_code == 200
        return next(answer.iter_text())


def test_a_model_that_somebody_may_not_list_stands_in_no_answer() -> None:
    """Every page and stream, in text and JSON; the one that they may list stays."""
    with (
        master_of(PolicyAuthorizer(rights=SEES)) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        got = {path: web.get(path).text for path in PAGES}
        accept = {"Accept": "application/json"}
        got |= {f"{p} json": web.get(p, headers=accept).text for p in ("/instances", "/config")}
        got |= {f"{path} stream": first_of(web, path) for path in STREAMS}
        status = web.get("/api/v1/status").json()
    assert {path for path, text in got.items() if SECRET in text} == set()
    assert status["instances"][0]["models"] == [{"name": SHOWN, "state": "READY", "reason": ""}]
    assert status["reason"] == f"model {MASK} is unavailable on llama-0001"
    told = [(one["subject"], one["message"], one["next_step"]) for one in status["issues"]]
    assert told == [
        (MASK, f"model {MASK} is unavailable on llama-0001", ""),
        ("llama", "a model fails", ""),
    ]
    assert status["warnings"] == [one[1] for one in told]
    assert status["authorizer"]["hides_models"] is True
    assert f"models.serve[0]: {SHOWN}" in got["/config"]
    assert "tarn_ready_instances" in got["/metrics"]


def test_who_may_list_every_model_sees_all_of_it() -> None:
    """The same answers, nothing masked."""
    names, actions = (SHOWN, SECRET, UNKNOWN), ("list", "metadata")
    rights = {("anonymous", action, name) for name in names for action in actions} | SEES
    with (
        master_of(PolicyAuthorizer(rights=rights)) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        missing = {path for path in PAGES[2:] if SECRET not in web.get(path).text}
        missing |= {f"{path} stream" for path in STREAMS if SECRET not in first_of(web, path)}
        status = web.get("/api/v1/status").json()
    assert missing == set()
    assert MASK not in str(status)
    assert status["authorizer"]["hides_models"] is False


def test_who_may_change_the_fleet_sees_each_name_and_nobody_is_asked() -> None:
    """The holder of the api token, whom the authorizer would tell of no model."""
    authorizer = PolicyAuthorizer(rights=set())
    with (
        FakeMaster(picture(), gate=DirectAuthorizer(authorizer), config=CONFIG) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        token = {"X-TARN-Token": "correct-horse"}
        bodies = [web.get(path, headers=token).text for path in PAGES]
    assert all(MASK not in body for body in bodies)
    assert {SECRET in body for body in bodies} == {True, False}  # addresses and totals name none
    assert not [asked for asked in authorizer.asked if asked[1] in ("list", "metadata")]


def test_a_list_is_one_question_and_without_a_guard_none() -> None:
    """However many models there are; and where the authorizer never says no, none is asked."""
    authorizer = PolicyAuthorizer(rights=SEES)
    with master_of(authorizer) as master:
        httpx.get(f"{master.url}/api/v1/status", trust_env=False)
    assert authorizer.lists == [(SHOWN, SECRET, UNKNOWN)]
    assert authorizer.asked[-1][1:] == ("metadata", SHOWN)
    asked: list[str] = []
    idle = PolicyAuthorizer(rights=SEES)
    with FakeMaster(
        picture(), api_token=None, gate=DirectAuthorizer(idle), config=CONFIG, guards_models=False
    ) as master:
        body = httpx.get(f"{master.url}/api/v1/status", trust_env=False).text
    assert SECRET in body
    asked += [action for _, action, _ in idle.asked]
    assert asked == ["view"]


def test_a_model_that_appears_in_a_stream_is_asked_about_before_it_is_named() -> None:
    """No word of it slips through in the two seconds for which an answer holds."""
    with (
        master_of(PolicyAuthorizer(rights=SEES)) as master,
        httpx.Client(base_url=master.url, trust_env=False, timeout=10) as web,
        web.stream("GET", "/api/v1/events", headers={"Accept": "text/event-stream"}) as answer,
    ):
        texts = answer.iter_text()
        seen = next(texts)
        fresh = instance(1, models=(("tomorrow", "READY", ""), (SHOWN, "READY", "")))
        master.publish(
            instances=(fresh,),
            events=(*master.board.current.events, event("model tomorrow loads beside ocr")),
        )
        while "loads" not in seen:
            seen += next(texts)
    assert "tomorrow" not in seen
    assert f"model {MASK} loads beside ocr" in seen


def test_a_stream_ends_when_its_reader_may_not_look_any_more() -> None:
    """Within the two seconds for which an answer holds, and the next news."""
    authorizer = PolicyAuthorizer(rights=set(SEES))
    over = threading.Event()
    with (
        master_of(authorizer) as master,
        httpx.Client(base_url=master.url, trust_env=False, timeout=15) as web,
        web.stream("GET", "/api/v1/events", headers={"Accept": "text/event-stream"}) as answer,
    ):
        texts = answer.iter_text()
        next(texts)
        authorizer.rights.clear()

        def tell() -> None:
            while not over.wait(0.2):
                master.publish(events=(*master.board.current.events, event(f"news {id(over)}")))

        teller = threading.Thread(target=tell)
        teller.start()
        try:
            for _ in texts:  # ends by itself
                pass
        finally:
            over.set()
            teller.join()


def test_an_authorizer_that_hangs_or_raises_hides_every_model() -> None:
    """A late answer is a no, for each model of a list."""
    late = threading.Event()

    class Late(PolicyAuthorizer):
        def check_each(self, *_asked: object) -> tuple[()]:
            late.wait(5)
            return ()

    gate = AuthorizerPool(Late(rights={("anonymous", "view", "")}), deadline_s=0.2)
    try:
        with FakeMaster(picture(), api_token=None, gate=gate, config=CONFIG) as master:
            body = httpx.get(f"{master.url}/api/v1/status", trust_env=False).text
    finally:
        late.set()
        gate.close()
    assert (SECRET in body, SHOWN in body, "llama-0001" in body) == (False, False, True)


def test_not_ready_is_closed_and_said_and_the_owner_still_gets_in() -> None:
    """No verdict is asked for; ``/health`` says the contract's word; the api token opens the fleet.

    A stale one is a yes, and shown.
    """
    authorizer = PolicyAuthorizer(rights=SEES)
    away = Readiness(ready=False, reason="no policies yet")
    with (
        FakeMaster(picture(), gate=DirectAuthorizer(authorizer), readiness=away) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        health = web.get("/health")
        status = web.get("/api/v1/status", headers={"X-TARN-Token": "correct-horse"}).json()
    assert (health.status_code, health.text) == (503, "RANGER_UNAVAILABLE\na model fails\n")
    assert authorizer.asked == []
    wrong = "the authorizer cannot answer, so nobody may use a model: no policies yet"
    assert wrong in status["warnings"]
    assert status["authorizer"] == {
        "ready": False,
        "reason": "no policies yet",
        "stale": False,
        "hides_models": False,
    }
    stale = PolicyAuthorizer(rights=SEES, stale=True)
    with (
        master_of(stale) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        told = web.get("/api/v1/status").json()
        assert told["authorizer"]["stale"] is True
        assert "the authorizer answers from what it last knew" in told["warnings"]
        health = web.get("/health")
    assert (health.status_code, health.text) == (
        200,
        "OK\na model fails\nthe authorizer answers from what it last knew\n",
    )


def test_who_may_list_a_model_without_its_details_gets_its_name_alone() -> None:
    """No state, no reason; and no text says that it is about this one."""
    rights = SEES | {("anonymous", "list", SECRET)}
    with (
        master_of(PolicyAuthorizer(rights=rights)) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        status = web.get("/api/v1/status").json()
        config = web.get("/config").text
        events = web.get("/api/v1/events").text
    assert status["instances"][0]["models"] == [
        {"name": SHOWN, "state": "READY", "reason": ""},
        {"name": SECRET, "state": "", "reason": ""},
    ]
    assert status["reason"] == f"model {MASK} is unavailable on llama-0001"
    assert f"models.serve[1]: {SECRET}" in config
    assert SECRET not in events
    told = [(one["subject"], one["message"], one["next_step"]) for one in status["issues"]]
    assert told == [
        (MASK, f"model {MASK} is unavailable on llama-0001", ""),
        ("llama", "a model fails", ""),
    ]
    assert status["warnings"] == [one[1] for one in told]
    assert status["authorizer"]["hides_models"] is True
