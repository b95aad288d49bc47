"""Requests of one address: a bucket each, and bounded memory."""

import httpx
import pytest
from fake_master import FakeMaster, PolicyAuthorizer, StillClock
from hypothesis import given
from hypothesis import strategies as st

from tarn.http.admission import Rates
from tarn.http.authenticator import KnownProxy, Proofs
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.tls.contexts import network

STEPS = st.lists(
    st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2", ""]), st.floats(-0.5, 2.0)), max_size=200
)


@given(per_s=st.integers(1, 20), steps=STEPS)
def test_nobody_gets_more_than_the_mean_and_a_burst_of_it(
    per_s: int, steps: list[tuple[str, float]]
) -> None:
    """Over any time: a second's worth, and as many as the seconds allow; whoever waits gets in."""
    rates, now_s, let_in = Rates(per_s), 1000.0, dict[str, int]()
    latest = now_s
    for address, pause_s in steps:
        now_s += pause_s  # a clock that steps back gives nothing away
        latest = max(latest, now_s)
        wait_s = rates.wait_s(address, now_s)
        assert 0 <= wait_s <= 1.0
        let_in[address] = let_in.get(address, 0) + (wait_s == 0)
        back = sum(max(0.0, -pause) for _, pause in steps)
        assert let_in[address] <= per_s + (latest - 1000.0 + back) * per_s + 1e-6


@given(per_s=st.integers(1, 50), asked=st.integers(1, 100))
def test_whoever_waits_as_long_as_told_is_let_in(per_s: int, asked: int) -> None:
    """The answer's Retry-After is true."""
    rates = Rates(per_s)
    waits = [rates.wait_s("a", 5.0) for _ in range(asked)]
    assert sum(wait == 0 for wait in waits) == min(per_s, asked)
    assert rates.wait_s("a", 5.0 + waits[-1] + 1e-9) == 0 or waits[-1] == 0


@given(st.lists(st.integers(0, 50), max_size=300))
def test_memory_is_bounded_whoever_comes(addresses: list[int]) -> None:
    """The address heard of the longest ago is forgotten."""
    rates = Rates(1, most=8)
    for number in addresses:
        rates.wait_s(f"10.0.0.{number}", 1.0)
        assert len(rates) <= 8


def test_beyond_the_limit_it_is_429_on_every_route_and_before_anybody_is_asked_who_they_are() -> (
    None
):
    """With when to come again; a bad token costs what a good one costs."""
    with (
        FakeMaster(rate_limit=3, clock=StillClock()) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        paths = ("/health", "/instances", "/nowhere", "/health", "/instances", "/nowhere")
        answers = [web.get(path) for path in paths]
    assert [a.status_code for a in answers] == [200, 401, 404 - 3, 429, 429, 429]
    late = answers[-1]
    assert late.headers["Retry-After"] == "1"
    assert late.json()["error"]["code"] == "TARN-3710"
    assert "content-security-policy" in late.headers


def test_a_burst_may_be_more_than_a_seconds_worth() -> None:
    """Ten at once, and then one in six seconds."""
    rates = Rates(1 / 6, burst=10)
    assert [rates.wait_s("a", 5.0) for _ in range(11)] == [0.0] * 10 + [pytest.approx(6.0)]
    assert rates.wait_s("a", 11.0) == 0.0
    assert rates.wait_s("a", 11.0) > 0
    assert rates.wait_s("a", 1000.0) == 0.0


OWN = b"the-own-token-of-one-load-balancer"
LB = KnownProxy("lb1", network("127.0.0.1"), "token", OWN, users=frozenset({"*"}))
RIGHTS = {("alice", "infer", "ocr"), ("anonymous", "infer", "ocr"), ("alice", "view", "")}


def _behind_a_proxy(rate_limit: int) -> FakeMaster:
    """Return a master that knows the model ``ocr``, and trusts a proxy at this address.

    Its clock stands: on a slow machine a limit would be reached by nobody, or be over too soon.
    """
    return FakeMaster(
        rate_limit=rate_limit,
        clock=StillClock(),
        proofs=Proofs((LB,)),
        gate=DirectAuthorizer(PolicyAuthorizer(rights=RIGHTS)),
        config={"models": {"serve": ["ocr"]}},
    )


def test_questions_of_a_proxy_count_by_the_user_they_are_about() -> None:
    """Invented models use up neither what others may ask, nor what is asked about real ones."""
    with (
        _behind_a_proxy(5) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):

        def ask(user: str, model: str, token: bytes = OWN) -> httpx.Response:
            path = f"/authorize?user={user}&action=infer&model={model}"
            return web.get(path, headers={"X-TARN-Token": token.decode()})

        flood = [ask("anonymous", f"invented{number}") for number in range(40)]
        assert {one.status_code for one in flood} == {200, 429}
        assert "about this user" in flood[-1].json()["error"]["found"]
        assert [ask(one, "ocr").text for one in ("alice", "anonymous", "bob")] == [
            *["true"] * 2,
            "false",
        ]
        # what proves nobody counts by the address, and takes nothing from what proves somebody
        wrong = [ask("alice", "ocr", b"wrong").status_code for _ in range(20)]
        assert {401, 429} == set(wrong)
        assert ask("alice", "ocr").text == "true"


def test_a_user_whom_a_proxy_names_has_requests_of_their_own() -> None:
    """Who asks too often through it takes nothing from the others, nor from the proxy itself."""
    with (
        _behind_a_proxy(3) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):

        def ask(user: str) -> int:
            headers = {"X-TARN-Token": OWN.decode(), **({"X-TARN-User": user} if user else {})}
            return web.get("/api/v1/me", headers=headers).status_code

        assert {ask("mallory") for _ in range(20)} == {200, 429}
        assert {ask("anonymous") for _ in range(20)} == {200, 429}
        assert [ask("alice"), ask("")] == [200, 200]


def test_a_wrong_ticket_is_not_looked_at_once_its_address_has_asked_too_often() -> None:
    """A ticket is work, also at the address of a proxy; the proxy's token still counts."""
    with (
        _behind_a_proxy(3) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        ticket = {"Authorization": "Negotiate bm9uZQ=="}
        answers = [web.get("/api/v1/me", headers=ticket).status_code for _ in range(10)]
        assert {401, 429} == set(answers)
        own = {"X-TARN-Token": OWN.decode(), "X-TARN-User": "alice"}
        assert web.get("/api/v1/me", headers=own).status_code == 200
        assert web.get("/health").status_code == 429  # counts by the address, as ever


def test_what_is_left_is_read_without_counting() -> None:
    """A look takes nothing."""
    rates = Rates(2)
    assert [rates.left("a", 5.0) for _ in range(3)] == [2.0] * 3
    assert rates.wait_s("a", 5.0) == 0
    assert [rates.left("a", 5.0), rates.left("a", 5.25), rates.left("a", 99.0)] == [1.0, 1.5, 2.0]
