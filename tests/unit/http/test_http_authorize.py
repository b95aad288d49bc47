"""``/authorize``: what is asked, who may ask it about whom, and that every doubt is a no."""

import asyncio

import attrs
import httpx
import pytest
from fake_master import (
    TOKEN,
    FakeMaster,
    PolicyAuthorizer,
    RealClock,
    StillClock,
    instance,
    snapshot,
)
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from tarn.control.mailbox import Inbox
from tarn.domain import ANONYMOUS, Principal, ProxyRule, Readiness, Verdict
from tarn.errors import ConfigError, ProviderError
from tarn.http.authenticator import OWNER
from tarn.http.authorize import MISSING, Authorize, AuthorizeRequest, question
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.request import IDENTITY, Identity
from tarn.http.rights import MOST_STALE, Rights, Sources
from tarn.read.snapshot import Board, Snapshot

RIGHTS = {
    ("alice", "infer", "ocr"),
    ("alice", "list", "*"),
    ("anonymous", "list", "ocr"),
    ("bob", "authorize", ""),
    ("haproxy", "infer", "ocr"),
}
ALICE, BOB = Principal("alice", via="spnego"), Principal("bob", via="spnego")
HAPROXY = Principal("haproxy", via="trusted-proxy")
NAMED = Principal("carol", via="proxy")


async def _groups(user: str) -> frozenset[str]:
    return frozenset({f"{user}s"})


def sources(
    authorizer: PolicyAuthorizer, shown: Snapshot | None = None, *, ready: bool = True
) -> Sources:
    return Sources(
        board=Board(shown or snapshot()),
        inbox=Inbox(lambda: None),
        gate=DirectAuthorizer(authorizer),
        readiness=lambda: Readiness(ready=ready),
        config=dict,
        clock=RealClock(),
        groups=_groups,
    )


def ask(
    authorizer: PolicyAuthorizer,
    principal: Principal,
    query: str,
    shown: Snapshot | None = None,
    *,
    ready: bool = True,
) -> Response:
    """Ask a route of its own, as if the door had let *principal* in."""
    given = sources(authorizer, shown, ready=ready)
    return asked(Authorize(Rights(given), given.groups), principal, query)


def asked(route: Authorize, principal: Principal, query: str) -> Response:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/authorize",
        "query_string": query.encode(),
        "headers": [],
        IDENTITY: Identity(principal),
    }
    return asyncio.run(route.authorize(Request(scope)))


@pytest.mark.parametrize(
    ("principal", "query", "status", "answer"),
    [
        (ALICE, "model=ocr&action=infer", 200, b"true"),
        (ALICE, "model=ocr&action=infer&user=alice", 200, b"true"),
        (ALICE, "model=ocr&action=metadata", 200, b"false"),
        (ALICE, "model=*&action=list", 200, b"true"),
        (ALICE, "model=*&action=infer", 200, b"false"),
        (ALICE, "model=ocr&action=infer&user=bob", 403, b""),
        (BOB, "model=ocr&action=infer", 200, b"false"),
        (BOB, "model=ocr&action=infer&user=alice", 200, b"true"),
        (NAMED, "model=ocr&action=infer&user=alice", 403, b""),
        (ANONYMOUS, "model=ocr&action=list", 200, b"true"),
        (ANONYMOUS, "model=ocr&action=infer&user=alice", 403, b""),
        (ANONYMOUS, "model=ocr&action=list&user=anonymous", 200, b"true"),
        # the api token may ask about anybody, and is nobody's name
        (OWNER, "model=ocr&action=infer&user=alice", 200, b"true"),
        (OWNER, "model=ocr&action=infer", 200, b"false"),
        (OWNER, "model=ocr&action=list", 200, b"true"),
        # a trusted proxy may ask about anybody, and about itself
        (HAPROXY, "model=ocr&action=infer&user=alice", 200, b"true"),
        (HAPROXY, "model=ocr&action=infer&user=bob", 200, b"false"),
        (HAPROXY, "model=ocr&action=list&user=anonymous", 200, b"true"),
    ],
)
def test_who_may_ask_about_whom_and_what_they_are_told(
    principal: Principal, query: str, status: int, answer: bytes
) -> None:
    """About oneself always; about others with the right to; the answer is one word."""
    got = ask(PolicyAuthorizer(rights=RIGHTS), principal, query)
    assert (got.status_code, bytes(got.body) if answer else b"") == (status, answer)


def test_another_user_is_asked_about_with_their_groups_and_no_standing() -> None:
    """Groups come from the master's own source; the asker's say nothing about the other."""
    authorizer = PolicyAuthorizer(rights=RIGHTS)
    ask(authorizer, OWNER, "model=ocr&action=infer&user=dora")
    assert authorizer.asked == [
        (Principal("dora", frozenset({"doras"}), via="proxy"), "infer", "ocr")
    ]


@pytest.mark.parametrize(
    "query",
    ["", "model=ocr", "action=infer", "model=&action=infer", "model=ocr&action=", "user=alice"],
)
def test_without_a_model_or_an_action_it_is_the_contracts_400(query: str) -> None:
    """In its words."""
    got = ask(PolicyAuthorizer(rights=RIGHTS), ALICE, query)
    assert (got.status_code, bytes(got.body).decode()) == (400, MISSING)
    assert MISSING == "Missing 'action' or 'model' parameter"


@pytest.mark.parametrize(
    "query",
    [
        "model=ocr&action=infer&model=other",
        "model=ocr&action=infer&action=list",
        "model=ocr&action=infer&user=alice&user=bob",
        "model=ocr&action=infer&user=",
        "model=ocr&action=infer&user",
        "model=ocr&action=admin",
        "model=ocr&action=INFER",
        "model=ocr&action=infer%20",
        "model=../ocr&action=infer",
        "model=..&action=infer",
        "model=stats&action=infer",
        "model=ocr/1&action=infer",
        "model=ocr%0a&action=infer",
        "model=ocr%00&action=infer",
        "model=**&action=infer",
        "model=%C3%A9t%C3%A9&action=infer",
        "model=ocr&action=infer&user=al%0aice",
        "model=ocr&action=infer&user=%ff",
        "model=ocr&action=infer&user=a,b",
        "model=ocr&action=infer&user=al%C3%AFce",
        f"model={'o' * 257}&action=infer",
        f"model=ocr&action=infer&user={'a' * 257}",
        "&".join(["x=1"] * 20) + "&model=ocr&action=infer",
    ],
)
def test_what_can_be_read_in_two_ways_is_400_and_nobody_is_asked(query: str) -> None:
    """A field twice, an empty one, a word or a character that there is not."""
    with pytest.raises(ConfigError):
        question(query.encode())


@given(st.binary(max_size=60))
def test_any_query_is_a_question_or_a_400(query: bytes) -> None:
    """Never another exception, never a guess."""
    try:
        found = question(query)
    except ConfigError:
        return
    assert found is None or (found.model and found.action in ("infer", "metadata", "list"))


def test_a_question_is_read_as_it_was_written() -> None:
    """Unknown fields say nothing; percent signs are decoded once, and stand in no name."""
    found = question(b"user=al%69ce%2b&x=1&action=metadata&model=a.b-c_1")
    assert found == AuthorizeRequest("metadata", "a.b-c_1", "alice+")
    with pytest.raises(ConfigError):
        question(b"user=al%2520ice&action=metadata&model=a")


@pytest.mark.parametrize(
    ("rights", "answer"),
    [
        ({"*", "echo"}, b"true"),
        ({"*"}, b"false"),
        ({"echo"}, b"false"),
        (set(), b"false"),
    ],
)
def test_every_model_at_once_is_each_that_is_known_and_those_to_come(
    rights: set[str], answer: bytes
) -> None:
    """Who is denied one of them is denied all; in one question."""
    authorizer = PolicyAuthorizer(rights={("alice", "infer", model) for model in rights})
    got = ask(authorizer, ALICE, "model=*&action=infer", snapshot(instance(1)))
    assert (bytes(got.body), authorizer.lists) == (answer, [("*", "echo")])


def test_an_authorizer_that_is_not_ready_yet_is_no_verdict_and_is_not_asked() -> None:
    """503, whoever asks about whomever: a load balancer may go by what it heard before."""
    authorizer = PolicyAuthorizer(rights=RIGHTS)
    for principal, query in ((ALICE, ""), (ALICE, "&user=bob"), (HAPROXY, "&user=alice")):
        got = ask(authorizer, principal, f"model=ocr&action=infer{query}", ready=False)
        assert (got.status_code, got.headers["retry-after"]) == (503, "2")
    assert authorizer.asked == []


def test_an_authorizer_that_was_ready_and_is_not_any_more_says_no() -> None:
    """Even if it would say yes: rights may be withdrawn so, and nothing may outlive that."""
    readiness = [Readiness(ready=True)]
    given = sources(PolicyAuthorizer(rights=RIGHTS))
    given = attrs.evolve(given, readiness=lambda: readiness[-1])
    route = Authorize(Rights(given), given.groups)
    first = asked(route, ALICE, "model=ocr&action=infer")
    readiness.append(Readiness(ready=False))
    second = asked(route, ALICE, "model=ocr&action=infer")
    assert (bytes(first.body), bytes(second.body)) == (b"true", b"false")
    assert second.status_code == 200


def test_groups_that_nobody_knows_in_time_are_no_verdict() -> None:
    """503, which is a no to whoever asks for the sake of somebody else."""

    async def late(_user: str) -> frozenset[str]:
        raise ProviderError("identity", "late", retry_after_s=1)

    with FakeMaster(groups=late) as master:
        answer = httpx.get(
            f"{master.url}/authorize?model=ocr&action=infer&user=alice",
            headers={"X-TARN-Token": TOKEN.decode()},
            trust_env=False,
        )
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "true" not in answer.text


def test_over_http_with_the_reason_for_who_wants_json() -> None:
    """A user that the runtime's proxy names, the api token, and a stranger."""
    rule = ProxyRule(frozenset({"127.0.0.1"}), "owner-of-it", proves=True)
    authorizer = PolicyAuthorizer(rights=RIGHTS, stale=True)
    asked = {"model": "ocr", "action": "infer"}
    with (
        FakeMaster(api_token=None, gate=DirectAuthorizer(authorizer), proxy=rule) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        cookie = {"Cookie": "proxy-user=alice"}
        text = web.get("/authorize", params=asked, headers=cookie)
        json = web.get("/authorize", params=asked, headers={**cookie, "Accept": "application/json"})
        anonymous = web.get("/authorize", params=asked)
        forged = web.get("/authorize", params=asked, headers={"X-TARN-User": "alice"})
        twice = web.get("/authorize?model=ocr&action=infer&user=a&user=b", headers=cookie)
        put = web.put("/authorize", params=asked, headers=cookie)
    assert (text.status_code, text.text) == (200, "true")
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert json.json() == {
        **asked,
        "user": "alice",
        "allowed": True,
        "reason": "policy 7",
        "stale": True,
    }
    assert (anonymous.text, forged.text) == ("false", "false")
    assert (twice.status_code, put.status_code) == (400, 405)


def test_without_the_token_nobody_asks() -> None:
    """Where one is set."""
    with FakeMaster() as master:
        url = f"{master.url}/authorize?model=ocr&action=infer"
        right = {"X-TARN-Token": TOKEN.decode()}
        assert httpx.get(url, trust_env=False).status_code == 401
        assert httpx.get(url, headers=right, trust_env=False).text == "true"


def test_the_questions_fields_are_all_of_it() -> None:
    """Nothing else of a request reaches the authorizer."""
    assert [field.name for field in attrs.fields(AuthorizeRequest)] == ["action", "model", "user"]


@attrs.define
class StaleFor(PolicyAuthorizer):
    """Cannot refresh what it knows of one user."""

    user: str = ""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        verdict = super().check(principal, action, model)
        return attrs.evolve(verdict, stale=principal.user == self.user)


def test_what_is_stale_about_one_user_is_not_about_another() -> None:
    """A fresh verdict about somebody takes nothing back, and is not called stale itself."""
    authorizer, clock = StaleFor(rights=RIGHTS, user="alice"), StillClock()
    rights = Rights(attrs.evolve(sources(authorizer), clock=clock))

    def ask(one: Principal) -> None:
        asyncio.run(rights.on_model(one, "infer", "ocr"))

    assert not rights.stale
    ask(ALICE)
    ask(BOB)
    assert [rights.stale_for(one) for one in (ALICE, BOB, OWNER)] == [True, False, True]
    assert rights.stale
    authorizer.user = "bob"
    ask(ALICE)
    ask(BOB)
    assert [rights.stale_for(one) for one in (ALICE, BOB)] == [False, True]
    late = attrs.evolve(sources(authorizer), clock=attrs.evolve(clock, now=clock.now + 61))
    rights._now_s = late.clock.now_s
    assert not rights.stale
    assert not rights.stale_for(BOB)


def test_memory_of_stale_verdicts_is_bounded() -> None:
    """Whoever asks."""
    rights = Rights(sources(PolicyAuthorizer(rights=RIGHTS, stale=True)))
    for number in range(MOST_STALE + 10):
        rights._note(Principal(f"user-{number}"), stale=True)
    assert len(rights._stale) == MOST_STALE
