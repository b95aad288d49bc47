"""Attacks on who signs in to a master's pages: by name, against a real server, and none works.

A foreign page in a real browser is in ``tests/observe``.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping

import attrs
import httpx
import pytest
from fake_master import TOKEN, FakeMaster

from tarn.domain import ProxyRule
from tarn.domain.access import AccessRules
from tarn.http.admission import ACTIONS, WRITE
from tarn.http.issued_tokens import SESSION_S, Sessions

pytestmark = pytest.mark.security

HOLDER = {"X-TARN-Token": TOKEN.decode()}
RM, ELSEWHERE = "127.0.0.4", "127.0.0.5"
RULE = ProxyRule(frozenset({RM}), "alice", proves=True, base="/proxy/application_1_2")
WRITES = [path.replace("{name}", "lb1") for path, need in ACTIONS.items() if need.methods == WRITE]
PAGE_ELSEWHERE = {"Origin": "http://rm.example:8088"}


@pytest.fixture(scope="module")
def master() -> Iterator[FakeMaster]:
    access = AccessRules("alice")
    with FakeMaster(proxy=RULE, access=access, dashboard="http://master/dashboard") as running:
        yield running


@pytest.fixture(scope="module")
def apart() -> Iterator[FakeMaster]:
    """A master whose runtime's proxy is on another machine, as it mostly is."""
    with FakeMaster(proxy=attrs.evolve(RULE, addresses=frozenset({"192.0.2.4"}))) as running:
        yield running


def web(master: FakeMaster, address: str = "127.0.0.1") -> httpx.Client:
    """A client that connects from *address*."""
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=master.url, transport=transport, trust_env=False)


def code(page: httpx.Client) -> str:
    return str(page.put("/api/v1/session/link", headers=HOLDER).json()["code"])


def session(page: httpx.Client, headers: Mapping[str, str] | None = None) -> str:
    """Sign in with a code; tries by token are few."""
    answer = page.put("/api/v1/session", json={"code": code(page)}, headers=headers or {})
    return str(answer.json()["session"])


def named(user: str) -> dict[str, str]:
    """What the proxy sends for somebody whom it has authenticated."""
    return {"Cookie": f"proxy-user={user}"}


def opens(page: httpx.Client, sent: Mapping[str, str]) -> int:
    return page.get("/api/v1/status", headers=sent).status_code


def test_a_session_that_an_attacker_chose_is_never_taken_up(master: FakeMaster) -> None:
    """Fixation: what a page brings when it signs in is not what it gets."""
    with web(master) as page:
        theirs = f"s1.{int(time.time()) + 3600}.{'a' * 22}.{'0' * 64}"
        got = [session(page, {"X-TARN-Session": theirs}) for _ in range(2)]
        assert len({theirs, *got}) == 3
        assert opens(page, {"X-TARN-Session": theirs}) == 401
        sent = {"code": code(page), "session": theirs}
        assert page.put("/api/v1/session", json=sent).status_code == 400


def test_of_twenty_who_bring_one_code_one_gets_in(master: FakeMaster) -> None:
    """Replay, also at the same moment."""
    found, ready = list[int](), threading.Barrier(20)
    with web(master) as page:
        one = code(page)

    def use() -> None:
        with web(master) as page:
            ready.wait(10)
            found.append(page.put("/api/v1/session", json={"code": one}).status_code)

    threads = [threading.Thread(target=use) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [200] + [401] * 19


def test_a_session_that_is_over_or_of_another_token_opens_nothing(master: FakeMaster) -> None:
    """Made with the right key a working day ago; made now with another cluster's."""
    name = master.board.current.name
    over = Sessions(TOKEN, name, lambda: time.time() - SESSION_S - 1).begin()
    made = Sessions(TOKEN, name, lambda: time.time() - SESSION_S + 60).begin()
    with web(master) as page:
        assert opens(page, {"X-TARN-Session": made}) == 200
        for text in (over, Sessions(TOKEN, "other", time.time).begin(),
                     Sessions(b"guessed", name, time.time).begin(),
                     made.replace(made.split(".")[1], str(int(time.time()) + 10**6))):  # fmt: skip
            assert opens(page, {"X-TARN-Session": text}) == 401


def test_a_session_counts_in_its_header_alone(master: FakeMaster) -> None:
    """Not in a query, which proxies and histories write down; not in a cookie; not twice."""
    with web(master) as page:
        text = session(page)
        for name in ("session", "X-TARN-Session", "x-tarn-session", "token"):
            for path in ("/api/v1/status", "/metrics"):
                assert page.get(path, params={name: text}).status_code == 401
        for sent in (
            {"Cookie": f"X-TARN-Session={text}"},
            {"X-TARN-Token": text},
            {"Authorization": f"Bearer {text}"},
            {"X-TARN-Session": f"{text}, {text}"},
        ):
            assert opens(page, sent) == 401
        twice = [("X-TARN-Session", text), ("X-TARN-Session", text)]
        assert page.get("/api/v1/status", headers=twice).status_code == 400


@pytest.mark.parametrize("path", WRITES)
def test_a_page_elsewhere_writes_nothing(apart: FakeMaster, path: str) -> None:
    """With a session, a token, or the proof of a page; and no page elsewhere may ask before."""
    with web(apart) as page:
        own = {"X-TARN-Session": session(page)}
        proof = page.get("/api/v1/me", headers=own).json()["csrf"]
        for sent in (own, HOLDER, {}):
            for said in (PAGE_ELSEWHERE, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                         {"Sec-Fetch-Site": "same-site"}):  # fmt: skip
                answer = page.put(f"{path}?csrf={proof}", json={}, headers={**sent, **said})
                assert answer.status_code in ((401, 403) if not sent else (403,))
        method = {"Access-Control-Request-Method": "PUT"}
        header = {"Access-Control-Request-Headers": "x-tarn-session"}
        asked = page.options(path, headers={**PAGE_ELSEWHERE, **method, **header})
        assert asked.status_code in (401, 405)
        assert not [name for name in asked.headers if name.startswith("access-control")]
    assert apart.commands == []


def test_the_proof_of_a_page_counts_for_its_person_through_the_proxy(master: FakeMaster) -> None:
    """Not for another, not from another address, not without a person, not with another master."""
    with web(master, RM) as far, web(master, ELSEWHERE) as near, FakeMaster(proxy=RULE) as other:
        proof = far.get("/api/v1/me", headers=named("alice")).json()["csrf"]
        for user, value in (("bob", proof), ("alice", proof[:-1]), ("alice", "")):
            answer = far.put(
                f"/api/v1/resume?csrf={value}", headers={**named(user), **PAGE_ELSEWHERE}
            )
            assert (answer.status_code, len(master.commands)) == (403, 0)
        sent = {**named("alice"), **PAGE_ELSEWHERE}
        # its cookie counts from the proxy's own address, so there alone there is a person
        assert near.put(f"/api/v1/resume?csrf={proof}", headers=sent).status_code == 401
        assert far.put(f"/api/v1/resume?csrf={proof}", headers=PAGE_ELSEWHERE).status_code == 401
        with web(other, RM) as elsewhere:
            assert elsewhere.put(f"/api/v1/resume?csrf={proof}", headers=sent).status_code == 403
        doubled = f"/api/v1/resume?csrf={proof}&csrf={proof}"
        assert far.put(doubled, headers=sent).status_code == 403
        for path in ("/api/v1/session/link", "/api/v1/session/end", "/api/v1/session"):
            assert far.put(f"{path}?csrf={proof}", headers=sent).status_code == 403
        assert far.put(f"/api/v1/resume?csrf={proof}", headers=sent).status_code == 200
    assert len(master.commands) == 1


def test_no_token_and_no_code_is_taken_from_the_proxy(master: FakeMaster) -> None:
    """It wrote them down already: the page is told where to sign in instead, and the code stays."""
    with web(master, RM) as far, web(master) as near:
        one = code(near)
        for body in ({"token": TOKEN.decode()}, {"code": one}):
            answer = far.put("/api/v1/session", json=body, headers=named("alice"))
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "TARN-3804")
        assert near.put("/api/v1/session", json={"code": one}).status_code == 200


EVIL = "s1.1\r\nX-TARN-User: owner\r\nSet-Cookie: a=b\r\n\r\n"


def test_nothing_that_is_sent_becomes_a_header(master: FakeMaster) -> None:
    """Line breaks in a session, a code, a token, a proof; raw, and percent-encoded."""
    with web(master) as page:
        for body in ({"code": EVIL}, {"token": EVIL}):
            answer = page.put("/api/v1/session", json=body)
            assert answer.status_code == 401
            assert "a=b" not in answer.text + str(answer.headers)
        got = page.put("/api/v1/resume", params={"csrf": EVIL}, headers=PAGE_ELSEWHERE)
        assert got.status_code == 401
        assert "set-cookie" not in got.headers
    for line in (b"X-TARN-Session: a\nX-TARN-Token: %s" % TOKEN, b"X-TARN-Session: a\0b",
                 b"X-TARN-Session: a\r X-TARN-Token: %s" % TOKEN):  # fmt: skip
        head = b"GET /api/v1/status HTTP/1.1\r\nHost: m\r\nConnection: close\r\n%s\r\n\r\n" % line
        with socket.create_connection(("127.0.0.1", master.server.port), 10) as raw:
            raw.sendall(head)
            assert raw.recv(4096).split()[1] in (b"400", b"401")


def test_guessing_at_one_address_stops_nobody_at_another(master: FakeMaster) -> None:
    """And whoever guesses is stopped after ten."""
    with web(master, "127.0.0.6") as guesser, web(master, "127.0.0.7") as owner:
        tries = [
            guesser.put("/api/v1/session", json={"token": f"{n}"}).status_code for n in range(30)
        ]
        assert tries[:10] == [401] * 10
        assert tries.count(401) <= 11
        assert owner.put("/api/v1/session", json={"token": TOKEN.decode()}).status_code == 200


def test_no_secret_of_signing_in_is_written_down(
    master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the log nor in an answer to anything but signing in."""
    caplog.set_level(0)
    with web(master) as page:
        one, own = code(page), session(page)
        answers = [
            page.put("/api/v1/session", json={"token": f"{TOKEN.decode()}x"}).text,
            page.put("/api/v1/session", json={"code": own}).text,
            page.put("/api/v1/session", json={"code": one, "token": own}).text,
            *(page.get(path, headers={"X-TARN-Session": own}).text
              for path, need in ACTIONS.items() if need.methods != WRITE and "stream" not in path),
        ]  # fmt: skip
        page.put("/api/v1/session/end", headers={"X-TARN-Session": own})
    ours = "\n".join(r.getMessage() for r in caplog.records if not r.name.startswith("http"))
    for secret in (one, own, TOKEN.decode()):
        assert secret not in ours + "\n".join(answers)
    assert json.loads(answers[0])["error"]["code"] == "TARN-3800"


def test_a_person_of_the_proxy_is_who_it_names(master: FakeMaster) -> None:
    """On a Kerberized cluster; with its own address for those who would sign in."""
    with web(master, RM) as far:
        said = far.get("/api/v1/me", headers=named("bob")).json()
        assert (said["user"], said["via"]) == ("bob", "rm-proxy")
        assert said["direct"] == "http://master/dashboard"
        nobody = far.get("/api/v1/me", headers={**PAGE_ELSEWHERE})
        assert nobody.status_code == 401
