"""The table of actions: every route has one, and what has none is closed."""

import httpx
import pytest
from fake_master import TOKEN, FakeAuthorizer, FakeMaster
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tarn.domain import Verdict
from tarn.domain.access import FLEET_ACTIONS
from tarn.http.admission import ACTIONS, NOWHERE, OF_TRITON, OPEN, READ, SELF, WRITE, asking
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.one_triton import ROUTE, asked_of_fleet


def test_every_route_of_the_application_has_an_action_and_every_action_a_route() -> None:
    """Both ways: nothing is forgotten, and nothing stands there for no reason."""
    with FakeMaster() as master:
        routes = {route.path: route.methods for route in master.app.routes}
    assert routes == {path: set(need.methods) for path, need in ACTIONS.items()}


SIGN_IN = {"/api/v1/session", "/api/v1/session/end", "/api/v1/session/link"}
"""The only writes beside those that change the fleet: they change who is signed in."""


def test_only_reads_are_open_and_every_write_has_an_action_of_the_fleet() -> None:
    """A few routes ask nobody, or decide themselves; the rest asks about the fleet."""
    assert {p for p, need in ACTIONS.items() if need.action == OPEN} == {
        *("/health", "/livez", "/readyz", "/api/v1/session", "/dashboard")
    }
    assert {p for p, need in ACTIONS.items() if need.action == SELF} == {
        *("/authorize", "/api/v1/me", "/api/v1/session/end", "/api/v1/session/link", ROUTE)
    }
    assert ACTIONS[ROUTE].methods == OF_TRITON
    for path, need in ACTIONS.items():
        if path == ROUTE:
            continue
        assert need.methods in {READ, WRITE}
        if need.action in {OPEN, SELF}:
            assert need.methods == (WRITE if path in SIGN_IN else READ)
        else:
            assert need.action in FLEET_ACTIONS


def test_a_route_that_somebody_adds_without_an_action_is_closed() -> None:
    """Also to the api token: the router is not reached."""
    reached = []

    async def secret(_request: Request) -> Response:
        reached.append("secret")
        return PlainTextResponse("secret")

    with FakeMaster() as master:
        master.app._routes.routes.insert(0, Route("/secret", secret))
        headers = {"X-TARN-Token": TOKEN.decode()}
        answer = httpx.get(f"{master.url}/secret", headers=headers, trust_env=False)
    assert (answer.status_code, reached) == (404, [])


@pytest.mark.parametrize(
    "path",
    [
        *("", "//", "/health/", "/health/x", "/healthz", "/HEALTH", "/health\n", "/health\0"),
        *("/livez/../config", "/./config", "//config", "/api/v1/status/", "/api/v1", "/api/v1/"),
        *("/api/v1/followers", "/api/v1/followers/", "/api/v1/followers/a/b", "/api//v1/down"),
        *("/authorize/", "/authorize/x", "/triton", "/triton/", "/triton/v2/models/a/infer"),
        *("/triton/v2/health/ready", "/triton/../v2", "/triton//v2", "/triton/v2/"),
        *("/api/v1/down/", "/api/v1/scale\n", "config", "*"),
    ],
)
def test_a_path_that_is_nearly_a_route_is_none(path: str) -> None:
    """Nothing is normalized, so there is one way to write each."""
    assert asking(path) is NOWHERE


@given(st.text())
def test_any_path_is_a_route_of_the_table_or_none(path: str) -> None:
    """What is found is what stands there, by the path or by all but its last part."""
    need = asking(path)
    if path.startswith("/triton/"):
        assert need == (NOWHERE if asked_of_fleet(path) is None else ACTIONS[ROUTE])
        return
    under = path.startswith("/api/v1/followers/") and "/" not in path[18:] and len(path) > 18
    assert need == ACTIONS.get(path, ACTIONS["/api/v1/followers/{name}"] if under else NOWHERE)


def test_the_authorizer_is_asked_for_the_action_of_the_route() -> None:
    """Each route, on a real server, by somebody without any standing."""
    authorizer = FakeAuthorizer(Verdict(allowed=False, reason="no"))
    with (
        FakeMaster(api_token=None, gate=DirectAuthorizer(authorizer)) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        for path, need in ACTIONS.items():
            if path == ROUTE:
                continue
            authorizer.asked.clear()
            answer = web.request(need.methods[0], path.format(name="lb1"))
            if need.action in FLEET_ACTIONS:
                assert (answer.status_code, answer.json()["error"]["action"]) == (403, need.action)
                assert [asked[1:] for asked in authorizer.asked] == [(need.action, "")]
            else:
                told = FLEET_ACTIONS if path == "/api/v1/me" else ()
                assert [asked[1] for asked in authorizer.asked] == list(told)
    assert master.commands == []


def test_who_may_change_the_fleet_by_the_authorizer_alone_brings_no_code() -> None:
    """A load's parameters are a configuration and files: Triton runs them as the owner."""
    authorizer = FakeAuthorizer(Verdict(allowed=True, reason="yes"))
    with (
        FakeMaster(api_token=None, gate=DirectAuthorizer(authorizer)) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        own = {"model": "ocr", "parameters": {"file:1/model.py": "aW1wb3J0IG9z"}}
        answer = web.put("/api/v1/load", json=own)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "TARN-5000")
        assert "as the cluster's owner" in answer.json()["error"]["next_step"]
        assert master.commands == []
        assert web.put("/api/v1/load", json={"model": "ocr"}).status_code == 200
        token = {"X-TARN-Token": TOKEN.decode()}
    with (
        FakeMaster(gate=DirectAuthorizer(authorizer)) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        assert web.put("/api/v1/load", json=own, headers=token).status_code == 200


@pytest.mark.parametrize("path", ["/instances/", "/health/", "/api/v1/status/"])
def test_a_slash_at_the_end_is_the_same_page(path: str) -> None:
    """As behind a proxy that adds one; by no redirect, and with the same guard."""
    with FakeMaster() as master, httpx.Client(base_url=master.url, trust_env=False) as web:
        headers = {"X-TARN-Token": TOKEN.decode()}
        assert web.get(path, headers=headers).status_code == 200
        assert web.get(path).status_code == (200 if path == "/health/" else 401)
        assert web.get(f"{path}/", headers=headers).status_code == 404
