"""The routes, over a real socket: who is let in, and what they are told."""

import http.client
import json
import re
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import attrs
import httpx
import pytest
from fake_master import (
    TOKEN,
    FakeAuthorizer,
    FakeMaster,
    PolicyAuthorizer,
    decision,
    event,
    instance,
    snapshot,
)

from tarn.domain import (
    Acknowledge,
    Adapt,
    Demand,
    Down,
    Drain,
    InstanceState,
    Issue,
    Limits,
    PauseScaling,
    Readiness,
    Resume,
    Scale,
    Verdict,
)
from tarn.http import admission
from tarn.http.authenticator import KnownProxy, Proofs
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.tls.contexts import network

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; base-uri 'self'; form-action 'none';"
    " frame-ancestors 'none'",
}
CLOSED = (
    "/",
    "/instances",
    "/config",
    "/metrics",
    "/alerts",
    "/api/v1/alerts",
    "/api/v1/history",
    "/api/v1/status",
    "/api/v1/instances",
    "/api/v1/events",
    "/api/v1/decisions",
    "/api/v1/stream",
    "/nowhere",
)


@pytest.fixture(scope="module")
def master() -> Iterator[FakeMaster]:
    with FakeMaster() as running:
        yield running


@pytest.fixture
def web(master: FakeMaster) -> Iterator[httpx.Client]:
    headers = {"X-TARN-Token": TOKEN.decode()}
    with httpx.Client(base_url=master.url, headers=headers, trust_env=False) as client:
        yield client


@pytest.fixture
def stranger(master: FakeMaster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=master.url, trust_env=False) as client:
        yield client


def test_instances_are_host_and_port_lines_of_the_ready_ones(web: httpx.Client) -> None:
    """The text is the contract's: no draining, no cold instance."""
    answer = web.get("/instances")
    assert answer.text == "127.0.0.1:8010\n127.0.0.1:8020\n"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_that_nobody_is_ready_is_said_once_it_is_known() -> None:
    """A script that obeyed an empty text would drop instances which an earlier master left."""
    picture = snapshot(instance(1, InstanceState.STARTING))
    assert picture.view.members == ()
    part = attrs.evolve(picture, view=attrs.evolve(picture.view, complete=False))
    with (
        FakeMaster(part, api_token=None) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        lines = web.get("/instances")
        known = web.get("/instances", headers={"Accept": "application/json"})
    assert (lines.status_code, lines.headers["Retry-After"]) == (503, "1")
    assert "keep the list that you have" in lines.json()["error"]["next_step"]
    assert "127.0.0.1" not in lines.text
    assert (known.status_code, known.json()["complete"]) == (200, False)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("text/plain;q=0.5, application/json", "application/json"),
        ("application/json;q=0, text/plain", "text/plain"),
        ("application/json;q=0.2, */*", "text/plain"),
        ("*/*", "text/plain"),
        ("text/plain, application/json", "text/plain"),
        ("application/json;q=nonsense", "text/plain"),
    ],
)
def test_accept_chooses_between_text_and_json(web: httpx.Client, accept: str, kind: str) -> None:
    """Text is what old scripts get; JSON is asked for."""
    answer = web.get("/instances", headers={"Accept": accept})
    assert answer.headers["Content-Type"].startswith(kind)


def test_instances_in_json_carry_states_and_mark_who_is_in_the_view() -> None:
    """A draining instance is listed, and marked as out."""
    picture = snapshot(instance(1), instance(2, InstanceState.DRAINING))
    with FakeMaster(picture, api_token=None) as master:
        headers = {"Accept": "application/json"}
        body = httpx.get(f"{master.url}/instances", headers=headers, trust_env=False).json()
    assert [(i["id"], i["state"], i["in_view"]) for i in body["instances"]] == [
        ("llama-0001", "ready", True),
        ("llama-0002", "draining", False),
    ]


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-TARN-Token": "wrong"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic Y29ycmVjdC1ob3JzZQ=="},
        {"X-TARN-Token": "wrong", "Authorization": "Bearer correct-horse"},
        {"X-TARN-User": "ops", "X-Forwarded-User": "ops"},
    ],
)
def test_every_other_route_wants_the_api_token(
    stranger: httpx.Client, path: str, headers: dict[str, str]
) -> None:
    """Missing, wrong, or replaced by a claimed name: 401 with a body and WWW-Authenticate."""
    answer = stranger.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "TARN-5000"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "correct-horse" not in answer.text


@pytest.mark.parametrize("path", ["/health", "/livez", "/readyz"])
def test_three_routes_are_open(stranger: httpx.Client, path: str) -> None:
    """Supervisors need no token."""
    answer = stranger.get(path)
    assert (answer.status_code, answer.text) == (200, "OK\n")


def test_the_bearer_form_is_accepted(stranger: httpx.Client) -> None:
    """What Prometheus and most clients can send."""
    headers = {"Authorization": f"Bearer {TOKEN.decode()}"}
    assert stranger.get("/api/v1/status", headers=headers).status_code == 200


def test_the_token_in_the_query_opens_metrics_and_nothing_else(stranger: httpx.Client) -> None:
    """``?token=`` is for scrapers; elsewhere it would only end up in logs."""
    query = {"token": TOKEN.decode()}
    assert stranger.get("/metrics", params=query).status_code == 200
    for path in CLOSED:
        if path != "/metrics":
            assert stranger.get(path, params=query).status_code == 401
    assert stranger.get("/metrics", params={"token": "wrong"}).status_code == 401


def test_without_a_configured_token_everybody_is_anonymous() -> None:
    """``token: none`` is asked for by name; a claimed user is still not believed."""
    authorizer = FakeAuthorizer()
    with FakeMaster(api_token=None, gate=DirectAuthorizer(authorizer)) as master:
        headers = {"X-TARN-User": "ops"}
        answer = httpx.get(f"{master.url}/config", headers=headers, trust_env=False)
    assert answer.status_code == 200
    assert [(p.user, p.via, action) for p, action, _ in authorizer.asked] == [
        ("anonymous", "none", "view"),
        ("anonymous", "none", "list"),
        ("anonymous", "none", "metadata"),
    ]


def test_a_no_of_the_authorizer_is_403_with_its_reason() -> None:
    """Reading, commanding and following are different actions; open routes ask nobody."""
    authorizer = FakeAuthorizer(Verdict(allowed=False, reason="policy 7 says no"))
    with FakeMaster(api_token=None, gate=DirectAuthorizer(authorizer)) as master:
        with httpx.Client(base_url=master.url, trust_env=False) as web:
            answers = [
                web.get("/instances"),
                web.put("/api/v1/down"),
                web.put("/api/v1/followers/lb1"),
                web.put("/api/v1/demand", json={"from": "lb1", "waiting": 1}),
            ]
            assert web.get("/health").status_code == 200
    assert [a.status_code for a in answers] == [403, 403, 403, 403]
    assert answers[0].json()["error"]["reason"] == "policy 7 says no"
    assert [action for _, action, _ in authorizer.asked] == ["view", "admin", "follow", "follow"]
    assert master.commands == []


def test_safe_headers_are_on_every_answer(web: httpx.Client, stranger: httpx.Client) -> None:
    """Good, refused, unknown, and the wrong method alike."""
    answers = [
        web.get("/instances"),
        web.get("/api/v1/status"),
        web.get("/nowhere"),
        web.post("/api/v1/scale"),
        stranger.get("/metrics"),
        stranger.get("/health"),
    ]
    assert [a.status_code for a in answers] == [200, 200, 404, 405, 401, 200]
    for answer in answers:
        assert SAFE.items() <= {k: answer.headers.get(k) for k in SAFE}.items()
        assert "server" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "GET"])
def test_writes_are_puts(web: httpx.Client, method: str) -> None:
    """The resource manager's proxy passes GET and PUT; everything else is 405 with Allow."""
    answer = web.request(method, "/api/v1/scale")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "PUT")


def test_post_to_a_page_is_405(web: httpx.Client) -> None:
    """Pages are read only."""
    answer = web.post("/instances")
    assert answer.status_code == 405
    assert set(answer.headers["Allow"].replace(" ", "").split(",")) == {"GET", "HEAD"}


@pytest.mark.parametrize(
    "path", ["/instances", "/metrics", "/health", "/config", "/api/v1/status", "/api/v1/events"]
)
def test_head_has_the_headers_of_get_and_no_body(web: httpx.Client, path: str) -> None:
    """A monitor's HEAD neither hangs nor lies about the length."""
    head, get = web.head(path), web.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert abs(int(head.headers["Content-Length"]) - len(get.content)) < 20  # ages differ


@pytest.mark.parametrize(
    ("changes", "readiness", "expected"),
    [
        ({}, True, (200, "OK")),
        ({"view": attrs.evolve(snapshot().view, members=())}, True, (503, "NO_INSTANCES_READY")),
        ({"desired": 0, "instances": (), "view": snapshot().view}, True, (200, "OK")),
        (
            {
                "desired": 0,
                "instances": (instance(1, InstanceState.DRAINING),),
                "view": snapshot().view,
            },
            True,
            (200, "OK"),
        ),
        ({}, False, (503, "RANGER_UNAVAILABLE")),
    ],
)
def test_health_keeps_the_contracts_words(
    changes: dict[str, Any], readiness: bool, expected: tuple[int, str]
) -> None:
    """First line and code are the contract's; nothing wanted and nothing running is well."""
    said = ("a discovery is behind", "an instance is silent")
    issues = tuple(Issue("llama", one, public=one) for one in said)
    picture = attrs.evolve(snapshot(instance(1)), issues=issues, **changes)
    with FakeMaster(picture, readiness=Readiness(ready=readiness, reason="engine")) as master:
        plain = httpx.get(f"{master.url}/health", trust_env=False)
        accept = {"Accept": "application/json"}
        told = httpx.get(f"{master.url}/health", headers=accept, trust_env=False)
    faults = ["a discovery is behind", "an instance is silent"]
    assert (plain.status_code, plain.text.splitlines()) == (expected[0], [expected[1], *faults])
    assert (told.status_code, told.json()) == (
        expected[0],
        {"status": expected[1], "faults": faults},
    )


def test_a_fenced_master_takes_no_commands_and_says_so() -> None:
    """Live, but not ready."""
    with FakeMaster(snapshot(instance(1), stale=True)) as master:
        answers = [httpx.get(f"{master.url}/{p}", trust_env=False) for p in ("livez", "readyz")]
    assert [(a.status_code, a.text) for a in answers] == [(200, "OK\n"), (503, "FENCED\n")]


def test_config_is_flat_text_or_the_mapping_itself() -> None:
    """Nested keys become paths; a value cannot forge a line."""
    config = {
        "name": "llama",
        "replicas": {"min": 1, "initial": None},
        "models": {"serve": ["a", "b"]},
        "triton": {"env": {"X": "1\nadmin: true"}, "args": {}},
        "on": True,
    }
    with FakeMaster(config=config, api_token=None) as master:
        text = httpx.get(f"{master.url}/config", trust_env=False).text
        accept = {"Accept": "application/json"}
        plain = httpx.get(f"{master.url}/config", headers=accept, trust_env=False).json()
    assert text.splitlines() == [
        "name: llama",
        "replicas.min: 1",
        "replicas.initial: null",
        "models.serve[0]: a",
        "models.serve[1]: b",
        "triton.env.X: 1\\nadmin: true",
        "triton.args: {}",
        "on: true",
    ]
    assert plain == config


def test_the_length_counts_bytes_when_names_are_not_ascii() -> None:
    """The whole of every page arrives for models and reasons called été and 模型."""
    odd = instance(1, models=(("été", "READY", ""),), reason="模型", container_id="模型")
    picture = snapshot(odd, issues=(Issue("été", "café", public="café"),), name="été")
    with FakeMaster(picture, api_token=None, config={"name": "模型"}) as master:
        for path in ("/metrics", "/config", "/health", "/api/v1/status"):
            port = master.server.port
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            assert int(answer.headers["Content-Length"]) == len(body) > 0
            body.decode("utf-8")


def test_status_has_the_shape_that_clients_rely_on(web: httpx.Client) -> None:
    """Names are pinned; the ETag is the spec revision."""
    answer = web.get("/api/v1/status")
    body = answer.json()
    assert set(body) == {
        *("name", "runtime", "state", "reason", "epoch", "spec_revision", "view_revision"),
        *("desired", "ready", "manual", "limits", "pause", "at", "stale", "instances", "ended"),
        *("followers", "warnings", "faults", "issues", "troubles", "holds", "demand"),
        *("authorizer", "look_interval_s", "updating", "last_update"),
    }
    assert set(body["instances"][0]) == {
        *("id", "state", "suspect", "reason", "node", "container_id", "spec_hash", "age_s"),
        *("http", "grpc", "metrics", "models", "busy", "state_for_s", "waits", "unwell", "cache"),
        *("silent", "blamed", "code"),
    }
    assert set(body["holds"]) == {
        *("halted", "failures_in_a_row", "retry_in_s", "frozen_for_s", "thaws_in_s"),
        *("cooldown_in_s", "policy", "size", "halted_by"),
    }
    assert set(body["limits"]) == {"min", "max", "ceiling", "ceiling_reason"}
    assert body["instances"][0]["models"] == [{"name": "echo", "state": "READY", "reason": ""}]
    assert answer.headers["ETag"] == f'"{body["spec_revision"]}"'


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("scale", {"replicas": 3}, Scale(3)),
        ("scale", {"replicas": None}, Scale(None)),
        ("adapt", {"min": 2, "max": 5}, Adapt(2, 5)),
        ("adapt", {}, Adapt()),
        ("pause", {"for": "30m", "reason": "load test"}, PauseScaling(1800.0, "load test")),
        ("pause", {"for": 1.5}, PauseScaling(1.5)),
        ("resume", {}, Resume()),
        ("drain", {"instance": "llama-0001"}, Drain("llama-0001")),
        ("drain", {"instance": "llama-0001", "now": True}, Drain("llama-0001", now=True)),
        ("down", None, Down()),
    ],
)
def test_a_put_becomes_a_command(
    web: httpx.Client, master: FakeMaster, path: str, body: Any, expected: Any
) -> None:
    """The control thread gets exactly what was asked, and its answer comes back."""
    before = master.board.current.spec_revision
    answer = web.put(f"/api/v1/{path}", json=body)
    assert answer.json() == {"spec_revision": before + 1, "message": "done"}
    assert answer.headers["ETag"] == f'"{before + 1}"'
    assert master.commands[-1] == expected


def test_a_followers_word_reaches_the_control_thread(web: httpx.Client, master: FakeMaster) -> None:
    """Epoch, revision, sessions and lease; its time, or ours when it says none."""
    body = {"epoch": "1764201600000-1", "revision": 4, "sessions": {"b": 2, "a": 1}, "lease": "9s"}
    assert web.put("/api/v1/followers/lb1", json=body).status_code == 200
    word = master.commands[-1]
    assert isinstance(word, Acknowledge)
    assert (word.applied.name, word.applied.revision, word.lease_s) == ("lb1", 4, 9.0)
    assert word.applied.sessions == (("a", 1), ("b", 2))
    assert abs(word.applied.at - time.time()) < 60


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("scale", b"{}", "replicas"),
        ("scale", b'{"replicas": "3"}', "replicas"),
        ("scale", b'{"replicas": true}', "replicas"),
        ("scale", b'{"replicas": -1}', "replicas"),
        ("scale", b'{"replicas": 1e9}', "replicas"),
        ("scale", b'{"replicas": 3, "force": true}', "force"),
        ("scale", b"not json", "body"),
        ("scale", b"[3]", "body"),
        ("scale", b"\xff\xfe{", "body"),
        ("scale", b"[" * 100_000, "body"),
        ("adapt", b'{"min": 1.5}', "min"),
        ("pause", b"{}", "for"),
        ("pause", b'{"for": "soon"}', "for"),
        ("pause", b'{"for": 0}', "for"),
        ("pause", b'{"for": NaN}', "for"),
        ("pause", b'{"for": 1e300}', "for"),
        ("pause", b'{"for": "1h", "reason": 4}', "reason"),
        ("drain", b"{}", "instance"),
        ("drain", b'{"instance": "llama-0001", "now": 1}', "now"),
        ("down", b'{"now": true}', "now"),
        ("followers/lb1", b'{"revision": 1}', "epoch"),
        ("followers/lb1", b'{"epoch": "x", "revision": 1}', "epoch"),
        ("followers/lb1", b'{"epoch": "1-1"}', "revision"),
        ("followers/lb1", b'{"epoch": "1-1", "revision": 1, "sessions": [1]}', "sessions"),
        ("followers/lb1", b'{"epoch": "1-1", "revision": 1, "at": "now"}', "at"),
        ("followers/a%20b", b'{"epoch": "1-1", "revision": 1}', "NAME"),
    ],
)
def test_a_wrong_body_is_400_and_says_what_is_right(
    web: httpx.Client, master: FakeMaster, path: str, body: bytes, where: str
) -> None:
    """Nothing reaches the control thread; the field and a right value are named."""
    before = list(master.commands)
    headers = {"Content-Type": "application/json"}
    answer = web.put(f"/api/v1/{path}", content=body, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["where"]) == (400, where)
    assert error["right"].startswith("Expected ")
    assert master.commands == before


def test_a_refusal_is_409_with_the_limits(web: httpx.Client) -> None:
    """Who asks too much learns what is possible."""
    answer = web.put("/api/v1/scale", json={"replicas": 9})
    assert answer.status_code == 409
    assert answer.json()["error"]["limits"] == {
        "min": 1,
        "max": 8,
        "ceiling": None,
        "ceiling_reason": "",
    }


@pytest.mark.parametrize("form", ['"{}"', "{}", 'W/"{}"'])
def test_if_match_lets_only_the_present_revision_pass(
    web: httpx.Client, master: FakeMaster, form: str
) -> None:
    """A stale one is 412 with the present revision; nothing is done."""
    present = master.board.current.spec_revision
    stale = web.put("/api/v1/resume", headers={"If-Match": form.format(present - 1)})
    assert stale.status_code == 412
    assert stale.json()["error"]["spec_revision"] == present
    assert stale.headers["ETag"] == f'"{present}"'
    good = web.put("/api/v1/resume", headers={"If-Match": form.format(present)})
    assert good.status_code == 200


@pytest.mark.parametrize("form", ["abc", "-1", "1.0", "", "٣", "9" * 30])
def test_an_if_match_that_is_no_revision_is_400(master: FakeMaster, form: str) -> None:
    """It is not taken as absent."""
    port = master.server.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    headers = {"X-TARN-Token": TOKEN.decode(), "If-Match": form.encode().decode("latin-1")}
    connection.request("PUT", "/api/v1/resume", headers=headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert (answer.status, body["error"]["where"]) == (400, "If-Match")


def test_an_unknown_instance_is_404(web: httpx.Client) -> None:
    """The control thread's own error keeps its kind."""
    answer = web.put("/api/v1/drain", json={"instance": "nobody"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "TARN-4000")


def test_a_body_needs_its_type_and_a_size(web: httpx.Client) -> None:
    """415 without JSON's type; 413 over 256 KiB, declared or streamed."""
    assert web.put("/api/v1/scale", content=b'{"replicas": 2}').status_code == 415
    form = {"Content-Type": "text/plain"}
    assert web.put("/api/v1/scale", content=b"{}", headers=form).status_code == 415
    large = b" " * (256 * 1024 + 1)
    headers = {"Content-Type": "application/json"}
    assert web.put("/api/v1/scale", content=large, headers=headers).status_code == 413
    streamed = (large[i : i + 65536] for i in range(0, len(large), 65536))
    assert web.put("/api/v1/scale", content=streamed, headers=headers).status_code == 413


def test_a_declared_gigabyte_is_refused_before_it_is_sent(master: FakeMaster) -> None:
    """Nothing is buffered: the answer comes after the head alone."""
    with socket.create_connection(("127.0.0.1", master.server.port), timeout=5) as raw:
        head = (
            "PUT /api/v1/scale HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"X-TARN-Token: {TOKEN.decode()}\r\nContent-Length: {2**30}\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_stream_asked_for_as_json_is_406(web: httpx.Client) -> None:
    """It has no other form."""
    assert web.get("/api/v1/stream").status_code == 406


def test_lists_come_with_the_id_to_go_on_from() -> None:
    """Events carry their severity; ``last_id`` resumes a stream without a gap."""
    picture = snapshot(instance(1), events=(event("up", 2),), decisions=(decision(2),))
    with FakeMaster(picture, api_token=None) as master:
        events = httpx.get(f"{master.url}/api/v1/events", trust_env=False).json()
        decisions = httpx.get(f"{master.url}/api/v1/decisions", trust_env=False).json()
    assert events["last_id"] == "1764201600000-1.3.0"
    assert events["events"] == [
        {
            "schema": 1,
            "id": "",
            "cluster": "llama",
            "epoch": "",
            "code": "TARN-1102",
            "severity": "info",
            "subject": "llama-0001",
            "message": "up",
            "models": [],
            "first": 1.0,
            "last": 2.0,
            "count": 2,
            "decision": None,
            "request": None,
        }
    ]
    assert decisions["decisions"][0]["desired"] == 2


def test_an_unexpected_error_is_500_without_insides(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback, the answer has not."""

    def broken() -> Readiness:
        raise ZeroDivisionError("secret detail")

    with FakeMaster() as master:
        object.__setattr__(master.app._sources, "readiness", broken)
        answer = httpx.get(f"{master.url}/health", trust_env=False)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "TARN-1000"
    assert "secret detail" not in answer.text
    assert "secret detail" in caplog.text


def test_one_connection_is_answered_without_the_44_ms_of_nagle(master: FakeMaster) -> None:
    """The listening socket is made with IPPROTO_TCP, or p50 would be 44 ms."""
    connection = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
    headers = {"X-TARN-Token": TOKEN.decode()}
    took_s = []
    for _ in range(60):
        start_s = time.perf_counter()
        connection.request("GET", "/api/v1/status", headers=headers)
        connection.getresponse().read()
        took_s.append(time.perf_counter() - start_s)
    connection.close()
    assert statistics.median(took_s) < 0.03


def test_eight_hundred_requests_find_one_consistent_picture(master: FakeMaster) -> None:
    """Readers in parallel never see half of a publication."""
    seen: set[bytes] = set()
    old, new = master.board.current, snapshot(instance(1), limits=Limits(1, 8))

    def read() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
        for _ in range(100):
            connection.request("GET", "/instances", headers={"X-TARN-Token": TOKEN.decode()})
            seen.add(connection.getresponse().read())
        connection.close()

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for turn in range(100):
        master.board.publish(new if turn % 2 else old)
    for reader in readers:
        reader.join(timeout=30)
    master.board.publish(old)
    assert seen <= {old.instances_text, new.instances_text}
    assert seen


def test_a_demand_reaches_the_control_thread(web: httpx.Client, master: FakeMaster) -> None:
    """Who waits, and how many."""
    answer = web.put("/api/v1/demand", json={"from": "lb1", "waiting": 3})
    assert answer.status_code == 200
    assert master.commands[-1] == Demand("lb1", 3)
    web.put("/api/v1/demand", json={"from": "lb1", "waiting": 0, "refused": 79})
    assert master.commands[-1] == Demand("lb1", 0, 79)
    failures = {"b": {"n": 2, "m": 3}, "a": {"m": 1}}
    web.put("/api/v1/demand", json={"from": "c", "waiting": 0, "failures": failures})
    told = (("a", "m", 1), ("b", "m", 3), ("b", "n", 2))
    assert master.commands[-1] == Demand("c", 0, 0, told)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"{}", "from"),
        (b'{"from": "", "waiting": 1}', "from"),
        (b'{"from": "a b", "waiting": 1}', "from"),
        (b'{"from": 7, "waiting": 1}', "from"),
        (b'{"from": "lb1"}', "waiting"),
        (b'{"from": "lb1", "waiting": -1}', "waiting"),
        (b'{"from": "lb1", "waiting": 1.5}', "waiting"),
        (b'{"from": "lb1", "waiting": 1, "for": "me"}', "for"),
        (b'{"from": "lb1", "waiting": 1, "refused": -1}', "refused"),
        (b'{"from": "lb1", "waiting": 1, "failures": [1]}', "failures"),
        (b'{"from": "lb1", "waiting": 1, "failures": {"a": 1}}', "failures.a"),
        (b'{"from": "lb1", "waiting": 1, "failures": {"a": {"m": -1}}}', "failures.a.m"),
        (
            b'{"from": "c", "waiting": 0, "failures": {%s}}'
            % b",".join(b'"%d": {"m": 1}' % number for number in range(257)),
            "failures",
        ),
    ],
)
def test_a_demand_that_cannot_be_read_names_the_field(
    web: httpx.Client, body: bytes, where: str
) -> None:
    """As with every other body."""
    answer = web.put("/api/v1/demand", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["where"] == where


@pytest.mark.parametrize("accept", ["application/json", "text/plain"])
def test_values_of_environment_variables_are_for_who_may_change_the_fleet(accept: str) -> None:
    """Whoever may only view learns which there are: a harmless name may hold a secret."""
    config = {"triton": {"env": {"GREETING": "canary-1"}}, "more": [{"env": {"A": "canary-2"}}]}
    rights = {("alice", "view", ""), ("ops", "view", ""), ("ops", "admin", "")}
    own = b"the-own-token-of-one-load-balancer"
    lb = KnownProxy("lb1", network("127.0.0.1"), "token", own, users=frozenset({"*"}))
    gate = DirectAuthorizer(PolicyAuthorizer(rights=rights))

    def seen(user: str) -> str:
        headers = {"X-TARN-Token": own.decode(), "X-TARN-User": user, "Accept": accept}
        return httpx.get(f"{master.url}/config", headers=headers, trust_env=False).text

    with FakeMaster(config=config, gate=gate, proofs=Proofs((lb,))) as master:
        assert "canary" not in seen("alice")
        assert "GREETING" in seen("alice")
        assert {"canary-1", "canary-2"} <= set(re.findall(r"canary-.", seen("ops")))
        owner = {"X-TARN-Token": TOKEN.decode(), "Accept": accept}
        assert "canary-1" in httpx.get(f"{master.url}/config", headers=owner, trust_env=False).text


def test_one_slash_at_the_end_is_the_same_page_on_every_route() -> None:
    """Two are another path; what a path means depends on no route."""
    headers = {"X-TARN-Token": TOKEN.decode()}
    with FakeMaster() as master, httpx.Client(trust_env=False) as web:

        def ask(method: str, path: str) -> int:
            return web.request(method, master.url + path, headers=headers).status_code

        for route, need in admission.ACTIONS.items():
            method, path = need.methods[0], route.replace("{name}", "lb1").rstrip("/")
            assert ask(method, f"{path}/") == ask(method, path or "/"), path
            assert ask(method, f"{path}//") == 404
