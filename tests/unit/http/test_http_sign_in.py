"""``/api/v1/me`` and ``/api/v1/session``, over a real socket."""

from collections.abc import Iterator

import httpx
import pytest
from fake_master import TOKEN, FakeAuthorizer, FakeMaster

from tarn.domain import ProxyRule, Verdict
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.issued_tokens import SESSION_S

HOLDER = {"X-TARN-Token": TOKEN.decode()}
PAGE = "http://nm-12.example:41234/dashboard"
RULE = ProxyRule(frozenset({"127.0.0.1"}), "alice", base="/proxy/application_1_2")
FAR = {"Cookie": "proxy-user=dr.who"}


def web(master: FakeMaster) -> httpx.Client:
    return httpx.Client(base_url=master.url, trust_env=False)


@pytest.fixture(scope="module")
def master() -> Iterator[FakeMaster]:
    with FakeMaster() as running:
        yield running


@pytest.fixture
def page(master: FakeMaster) -> Iterator[httpx.Client]:
    with web(master) as client:
        yield client


def session_of(page: httpx.Client, body: dict[str, str]) -> dict[str, str]:
    """Sign in, by a token (ten times a minute are let in) or by the answer with a code."""
    body = {name: value for name, value in body.items() if name != "expires_in_s"}
    answer = page.put("/api/v1/session", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["expires_in_s"] == SESSION_S
    assert "set-cookie" not in answer.headers
    return {"X-TARN-Session": answer.json()["session"]}


def test_the_api_token_begins_a_session_that_opens_what_the_token_opens(
    page: httpx.Client,
) -> None:
    """It is asked for once, and the page keeps the session instead."""
    session = session_of(page, {"token": TOKEN.decode()})
    said = page.get("/api/v1/me", headers=session).json()
    assert (said["user"], said["via"], said["direct"]) == ("owner", "session", None)
    assert said["may"] == ["view", "follow", "authorize", "admin"]
    assert SESSION_S - 60 < said["session"]["expires_in_s"] <= SESSION_S
    assert page.put("/api/v1/resume", headers=session).status_code == 200
    assert page.get("/api/v1/me").status_code == 401


def test_the_holder_of_the_token_gets_a_code_that_begins_one_session(page: httpx.Client) -> None:
    """Once; the holder themselves are no session."""
    assert page.get("/api/v1/me", headers=HOLDER).json()["session"] is None
    given = page.put("/api/v1/session/link", headers=HOLDER).json()
    assert given["expires_in_s"] == 60
    session = session_of(page, {"code": given["code"]})
    assert page.get("/api/v1/status", headers=session).status_code == 200
    again = page.put("/api/v1/session", json={"code": given["code"]})
    assert (again.status_code, again.json()["error"]["code"]) == (401, "TARN-3800")


def test_a_session_makes_no_code(page: httpx.Client) -> None:
    """Else it would have no end."""
    session = session_of(page, {"token": TOKEN.decode()})
    assert page.put("/api/v1/session/link", headers=session).status_code == 403
    assert page.put("/api/v1/session/link").status_code == 401


def test_an_ended_session_opens_nothing(page: httpx.Client) -> None:
    """The other sessions go on."""
    one, other = (session_of(page, {"token": TOKEN.decode()}) for _ in range(2))
    assert page.put("/api/v1/session/end", headers=one).json() == {"ended": True}
    assert page.get("/api/v1/me", headers=one).status_code == 401
    assert page.put("/api/v1/session/end", headers=one).status_code == 401
    assert page.get("/api/v1/me", headers=other).status_code == 200
    assert page.put("/api/v1/session/end", headers=HOLDER).json() == {"ended": False}


@pytest.mark.parametrize(
    "body",
    [
        *("{}", '{"token": ""}', '{"token": 5}', '{"token": null}', '{"code": ["x"]}', "[]", "x"),
        '{"token": "a", "code": "b"}',
        '{"user": "owner"}',
        '{"token": "%s"}' % ("x" * 5000),
    ],
)  # fmt: skip
def test_a_body_that_is_no_proof_is_told_what_is_right(page: httpx.Client, body: str) -> None:
    """And nothing that was sent is repeated."""
    answer = page.put("/api/v1/session", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "xxx" not in answer.text
    assert "Expected" in answer.json()["error"]["right"]


def test_whoever_tries_too_often_waits_and_the_right_token_too() -> None:
    """Else the answer to the right one would tell it; a code is too long to be guessed."""
    with FakeMaster() as master, web(master) as page:
        answers = [page.put("/api/v1/session", json={"token": "guess"}) for _ in range(11)]
        assert [one.status_code for one in answers] == [401] * 10 + [429]
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 6
        right = page.put("/api/v1/session", json={"token": TOKEN.decode()})
        assert (right.status_code, right.json()["error"]["code"]) == (429, "TARN-3801")
        code = page.put("/api/v1/session/link", headers=HOLDER).json()["code"]
        assert session_of(page, {"code": code})


def test_where_no_token_is_asked_for_nobody_signs_in() -> None:
    """Everybody may do everything there, and the page is told so."""
    with FakeMaster(api_token=None) as master, web(master) as page:
        said = page.get("/api/v1/me").json()
        assert (said["user"], said["via"], said["session"]) == ("anonymous", "none", None)
        assert "admin" in said["may"]
        for path, body in (("session", {"token": "x"}), ("session", {"code": "x"}),
                           ("session/link", {})):  # fmt: skip
            answer = page.put(f"/api/v1/{path}", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "TARN-3803")
        assert page.get("/api/v1/me", headers={"X-TARN-Session": "s1.x"}).status_code == 200


def test_who_may_less_is_told_what_they_may() -> None:
    """The page shows no button that would be refused."""
    gate = DirectAuthorizer(FakeAuthorizer(Verdict(allowed=False, reason="no")))
    with FakeMaster(api_token=None, gate=gate) as master, web(master) as page:
        assert page.get("/api/v1/me").json()["may"] == []


def test_the_next_master_with_the_token_knows_a_session(page: httpx.Client) -> None:
    """A page lives through a fail-over; a code does not."""
    session = session_of(page, {"token": TOKEN.decode()})
    code = page.put("/api/v1/session/link", headers=HOLDER).json()["code"]
    with FakeMaster() as later, web(later) as other:
        assert other.get("/api/v1/status", headers=session).status_code == 200
        assert other.put("/api/v1/session", json={"code": code}).status_code == 401


@pytest.mark.parametrize(
    "more", [HOLDER, {"Authorization": f"Bearer {TOKEN.decode()}"}, {"X-TARN-Token": "wrong"}]
)
def test_a_session_beside_a_token_is_a_contradiction(
    page: httpx.Client, more: dict[str, str]
) -> None:
    """Whichever of them counts, somebody would be surprised."""
    session = session_of(page, page.put("/api/v1/session/link", headers=HOLDER).json())
    assert page.get("/api/v1/status", headers={**session, **more}).status_code == 400


def test_through_the_proxy_a_page_learns_where_to_sign_in() -> None:
    """YARN proves nobody here, and no token may pass it: the master's own address is shown."""
    with FakeMaster(proxy=RULE, dashboard=PAGE) as master, web(master) as page:
        refused = page.get("/api/v1/me", headers=FAR)
        assert (refused.status_code, refused.json()["error"]["direct"]) == (401, PAGE)
        for headers in ({}, {**FAR, "Sec-Fetch-Site": "same-origin"}):
            assert "direct" not in page.get("/api/v1/me", headers=headers).json()["error"]
        assert "direct" not in page.get("/api/v1/status", headers=FAR).json()["error"]
        sent = page.put("/api/v1/session", json={"token": TOKEN.decode()}, headers=FAR)
        assert (sent.status_code, sent.json()["error"]["code"]) == (403, "TARN-3804")
        assert PAGE in sent.json()["error"]["next_step"]
        assert page.get("/api/v1/me", headers=HOLDER).json()["direct"] is None


def test_through_the_proxy_a_write_carries_the_proof_of_its_page() -> None:
    """Its Origin is the proxy's; what `me` told the page makes up for that."""
    elsewhere = {**FAR, "Origin": "http://rm.example:8088"}
    with FakeMaster(api_token=None, proxy=RULE, dashboard=PAGE) as master, web(master) as page:
        said = page.get("/api/v1/me", headers=FAR).json()
        assert said["direct"] == PAGE
        bare = page.put("/api/v1/resume", headers=elsewhere)
        assert (bare.status_code, bare.json()["error"]["code"]) == (403, "TARN-3711")
        over = page.put("/api/v1/resume?csrf=c1.5.x", headers=elsewhere)
        assert (over.status_code, over.json()["error"]["code"]) == (403, "TARN-3802")
        good = page.put(f"/api/v1/resume?csrf={said['csrf']}", headers=elsewhere)
        assert good.status_code == 200
    assert len(master.commands) == 1
