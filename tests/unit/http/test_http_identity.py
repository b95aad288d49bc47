"""Whose word about a user is believed: the proxy of the runtime, from its own address only."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import ANONYMOUS, Principal, ProxyRule
from tarn.http.authenticator import OWNER, Authenticator
from tarn.http.request import RequestInfo

PROXY = "10.0.0.7"
TOKEN = b"correct-horse"
RULE = ProxyRule(frozenset({PROXY}), "alice", proves=True)
UNPROVEN = ProxyRule(frozenset({PROXY}), "alice")
ALICE = Principal("alice", via="rm-proxy")

Headers = list[tuple[bytes, bytes]]


def asked(
    *cookies: bytes,
    rule: ProxyRule | None = RULE,
    token: bytes | None = TOKEN,
    peer: str = PROXY,
    more: Headers | None = None,
) -> Principal | None:
    headers = [*(more or []), *((b"cookie", cookie) for cookie in cookies)]
    one = RequestInfo("/api/v1/status", b"", tuple(headers), peer)
    return asyncio.run(Authenticator(token, rule).identify(one)).principal


def test_the_owner_is_let_in_by_the_word_of_the_proxy() -> None:
    """Without the api token, which cannot travel there."""
    assert asked(b"proxy-user=alice") == ALICE


@pytest.mark.parametrize("peer", ["", "10.0.0.8", "127.0.0.1", "10.0.0.70", "::ffff:10.0.0.7"])
def test_from_any_other_address_the_cookie_says_nothing(peer: str) -> None:
    """Anybody can write one."""
    assert asked(b"proxy-user=alice", peer=peer) is None
    assert asked(b"proxy-user=alice", peer=peer, token=None) == ANONYMOUS


def test_a_proxy_that_proves_nothing_is_not_believed() -> None:
    """Without Kerberos it passes on any name that it was told."""
    assert asked(b"proxy-user=alice", rule=UNPROVEN) is None
    assert asked(b"proxy-user=alice", rule=UNPROVEN, token=None) == ANONYMOUS
    assert asked(b"proxy-user=alice", rule=None) is None


def test_another_user_is_named_and_rights_decide() -> None:
    """With a token and without: proven is proven, and what bob may is another question."""
    assert asked(b"proxy-user=bob") == Principal("bob", via="rm-proxy")
    assert asked(b"proxy-user=bob", token=None) == Principal("bob", via="rm-proxy")


@pytest.mark.parametrize(
    ("cookie", "user"),
    [
        (b"a=b; proxy-user=alice; c=d", "alice"),
        (b"  proxy-user = alice ", "alice"),
        (b"proxy-user=svc%40REALM.ORG", "svc@REALM.ORG"),
        (b"proxy-user=%C3%A9t%C3%A9", "été"),
        (b"proxy-user=a%2Bb", "a+b"),
        (b"proxy-user=a=b", "a=b"),
    ],
)
def test_the_value_is_form_encoded(cookie: bytes, user: str) -> None:
    """As Java's URLEncoder writes it; other cookies do not matter."""
    assert asked(cookie, token=None) == Principal(user, via="rm-proxy")


@pytest.mark.parametrize(
    "cookies",
    [
        (b"",),
        (b"proxy-user=",),
        (b"proxy-user",),
        (b"proxy-user=   ",),
        (b"proxy-user=alice; proxy-user=alice",),
        (b"proxy-user=bob", b"proxy-user=alice"),
        (b"PROXY-USER=alice",),
        (b"xproxy-user=alice",),
        (b"proxy-user=alice%00",),
        (b"proxy-user=alice%0Aroot",),
        (b"proxy-user=alice+smith",),
        (b'proxy-user="alice"',),
        (b"proxy-user=%FF",),
        (b"proxy-user=alice%3B+proxy-user%3Dbob",),
        (b"proxy-user=" + b"a" * 300,),
    ],
)
def test_a_cookie_that_says_nothing_or_too_much_names_nobody(cookies: tuple[bytes, ...]) -> None:
    """Of several, one was sent by somebody else."""
    assert asked(*cookies) is None
    assert asked(*cookies, token=None) == ANONYMOUS


def test_a_token_counts_before_any_cookie() -> None:
    """A right one is the owner; a wrong one is refused whatever the cookie says."""
    right, wrong = [(b"x-tarn-token", TOKEN)], [(b"authorization", b"Bearer wrong")]
    assert asked(b"proxy-user=bob", more=right) == OWNER
    assert asked(b"proxy-user=alice", more=wrong) is None


def test_a_cookie_without_a_name_lets_nobody_in() -> None:
    """Whoever the owner is."""
    nobody = ProxyRule(frozenset({PROXY}), "", proves=True)
    assert asked(b"proxy-user=", rule=nobody) is None


@given(st.binary(max_size=60), st.sampled_from([PROXY, "10.0.0.8"]))
def test_any_bytes_are_no_error_and_prove_nobody_from_elsewhere(cookie: bytes, peer: str) -> None:
    """From its own address they name somebody or nobody."""
    who = asked(b"proxy-user=" + cookie, peer=peer)
    assert who is None or (peer == PROXY and who.via == "rm-proxy")
