"""Who speaks for whom: a name in a header counts from a proxy that proved itself, by its rules."""

import asyncio
import threading
from collections.abc import Mapping

import attrs
import httpx
import pytest
from fake_master import FakeMaster
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import ANONYMOUS, Principal
from tarn.domain.access import AccessRules, by_standing
from tarn.domain.spec import SubjectsSpec, TrustedProxy
from tarn.errors import ConfigError, NotAuthorizedError
from tarn.http.authenticator import (
    OWNER,
    AcceptedTicket,
    Authenticator,
    KnownProxy,
    Proofs,
    trusted,
)
from tarn.http.blocking_pool import BlockingPool, DirectAuthorizer
from tarn.http.request import Identity, RequestInfo
from tarn.http.users import People
from tarn.tls.contexts import connects, network
from tarn_plugins.authorizer.none import NoAuthorizer

API = b"the-api-token-of-the-cluster"
OWN = b"the-own-token-of-one-proxy"
HERE, THERE = "10.0.0.5", "10.0.0.6"
LB = KnownProxy("lb1", network(HERE), "token", OWN, users=frozenset({"*"}))
GATE = KnownProxy("gate", network("10.0.1.0/24"), "mtls", groups=frozenset({"analysts"}))
KNOX = KnownProxy("knox", network(HERE), "kerberos", users=frozenset({"alice"}))

Header = tuple[bytes, bytes]


@attrs.frozen
class Register:
    """A `UserDirectory`: a short name is what stands before the ``@``."""

    groups_of: Mapping[str, frozenset[str]] = attrs.field(factory=dict)

    def short(self, principal: str) -> str:
        return principal.partition("@")[0]

    def groups(self, user: str) -> frozenset[str]:
        if user == "breaks":
            raise OSError("the directory of users is away")
        return self.groups_of.get(user, frozenset())


class Readable:
    """A `TicketChecker`: a ticket is the name of its principal in plain text."""

    def accept(self, token: bytes) -> AcceptedTicket:
        if token == b"stale":
            raise NotAuthorizedError("anonymous", "authenticate", next_step="The ticket: it is old")
        return AcceptedTicket(token.decode(), b"and I am the master")


@pytest.fixture(scope="module")
def desk():
    one = BlockingPool("the directory of users", deadline_s=2.0)
    yield one
    one.close()


@pytest.fixture
def who(desk: BlockingPool):
    """A function that asks an identity with all kinds of proofs."""

    def ask(
        *headers: Header,
        peer: str = HERE,
        certificate: str = "",
        api: bytes | None = API,
        tickets: bool = False,
        query: bytes = b"",
        path: str = "/api/v1/status",
    ) -> Identity:
        names = Register({"bob": frozenset({"analysts"}), "alice": frozenset({"staff"})})
        known = Readable() if tickets else None

        async def answer() -> Identity:
            proofs = Proofs((LB, GATE, KNOX), known, desk, People(names, desk))
            asked = RequestInfo(path, query, tuple(headers), peer, certificate)
            return await Authenticator(api, None, proofs).identify(asked)

        return asyncio.run(answer())

    return ask


def token(value: bytes) -> Header:
    return b"x-tarn-token", value


def user(value: bytes) -> Header:
    return b"x-tarn-user", value


def ticket(principal: bytes) -> Header:
    import base64  # noqa: PLC0415

    return b"authorization", b"Negotiate " + base64.b64encode(principal)


def test_a_proxy_with_its_token_names_a_user(who) -> None:
    """With their groups, for the authorizer."""
    said = who(token(OWN), user(b"alice")).principal
    assert said == Principal("alice", frozenset({"staff"}), "proxy")


def test_a_proxy_that_names_nobody_is_itself(who) -> None:
    """What a load balancer does for its own work."""
    assert who(token(OWN)).principal == Principal("lb1", via="trusted-proxy")
    assert who(certificate="gate", peer="10.0.1.77").principal == Principal(
        "gate", via="trusted-proxy"
    )


@pytest.mark.parametrize("peer", [THERE, "", "10.0.0.50", "::1", "localhost", "10.0.0.5, 10.0.0.6"])
def test_a_token_counts_from_its_address_only(who, peer: str) -> None:
    """Whoever stole it needs the address, too."""
    assert who(token(OWN), user(b"alice"), peer=peer).status == 401


def test_an_ipv4_address_that_came_as_ipv6_is_the_same_one(who) -> None:
    """A socket for both kinds shows it so; and a network may be written so."""
    assert who(token(OWN), peer=f"::ffff:{HERE}").principal is not None
    assert str(network("::ffff:10.0.0.0/120")) == "10.0.0.0/24"
    assert who(token(OWN), peer=f"::{HERE}").principal is None


def test_a_certificate_counts_by_its_name_and_address(who) -> None:
    """Both; and the name of a proxy that proves itself otherwise is none here."""
    named = {"headers": user(b"bob")}
    assert who(named["headers"], certificate="gate", peer="10.0.1.9").principal == Principal(
        "bob", frozenset({"analysts"}), "proxy"
    )
    for certificate, peer in (
        ("gate", HERE),
        ("lb1", HERE),
        ("GATE", "10.0.1.9"),
        ("", "10.0.1.9"),
    ):
        assert who(user(b"bob"), certificate=certificate, peer=peer).status == 401


def test_a_proxy_speaks_for_whom_its_rules_name(who) -> None:
    """By user, or by a group that they are in: as Hadoop's proxy users."""
    assert who(user(b"alice"), certificate="gate", peer="10.0.1.9").status == 403
    assert who(user(b"nobody"), certificate="gate", peer="10.0.1.9").status == 403


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b" ",
        b"a b",
        b"alice,bob",
        b"alice;bob",
        b"alice\t",
        b"-rf",
        b"../alice",
        b"a/b",
        b"a\\b",
        b"<script>",
        b"a" * 129,
        b"alice\x00",
        "été".encode(),
        "été".encode("latin-1"),
        b"%61lice",
        b'"alice"',
        b"alice\r\nX-TARN-Token: x",
    ],
)
def test_a_name_is_held_to_a_strict_grammar(who, name: bytes) -> None:
    """400, and the answer does not repeat it."""
    said = who(token(OWN), user(name))
    assert said.status == 400
    assert said.principal is None
    assert name.strip() in (b"", b"-rf") or name.decode("latin-1").strip() not in said.found


@pytest.mark.parametrize(
    "name", [b"alice", b"a.b", b"svc_x", b"host1$", b"a@B.ORG", b"a+b=c", b"1"]
)
def test_names_that_are_common_are_taken(who, name: bytes) -> None:
    """Of people, services and machines."""
    assert who(token(OWN), user(name)).principal.user == name.decode()


@pytest.mark.parametrize("name", [b"x-tarn-user", b"x-tarn-token", b"authorization"])
def test_a_header_that_stands_twice_is_refused_from_anybody(who, name: bytes) -> None:
    """Two proxies on the way may each believe another one; here it is nobody."""
    for peer in (HERE, THERE):
        said = who((name, b"alice"), (name, b"alice"), peer=peer)
        assert (said.status, said.principal) == (400, None)
        assert "twice" in said.found


def test_the_api_token_is_its_holder_whoever_is_named(who) -> None:
    """The Java TARN's clients send both; the token opens more than any name."""
    assert who(token(API), user(b"alice"), peer=THERE).principal == OWNER
    assert who(token(API), user(b"alice")).principal == OWNER


def test_a_proven_proxy_never_hands_the_api_token_to_whom_it_names(who) -> None:
    """Else a user would have all that the token opens."""
    proven = {"certificate": "gate", "peer": "10.0.1.9"}
    assert who(token(API), **proven).principal == OWNER
    assert who(token(API), user(b"bob"), **proven).status == 400


def test_nobody_is_a_name_that_a_proxy_may_give(who) -> None:
    """Whom it did not authenticate; no groups, and no via that anybody trusts."""
    assert who(token(OWN), user(b"anonymous")).principal == ANONYMOUS


def test_without_an_api_token_a_proxys_wrong_one_is_refused_all_the_same(who) -> None:
    """Somebody who tries is not let in as nobody."""
    assert who(token(b"wrong-but-as-long-as-the-"), api=None).status == 401
    assert who(api=None).principal == ANONYMOUS
    assert who(user(b"alice"), api=None, peer=THERE).principal == ANONYMOUS


def test_where_tickets_are_taken_nobody_is_anonymous(who) -> None:
    """Also without an api token; and who is refused hears how to ask."""
    said = who(api=None, tickets=True)
    assert (said.status, said.headers) == (401, {"WWW-Authenticate": "Negotiate"})


def test_a_ticket_names_its_user_and_the_answer_has_the_other_half(who) -> None:
    """With groups, for the authorizer."""
    said = who(ticket(b"bob@R"), tickets=True, peer=THERE)
    assert said.principal == Principal("bob", frozenset({"analysts"}), "spnego")
    assert said.headers["WWW-Authenticate"].startswith("Negotiate YW5k")


@pytest.mark.parametrize(
    ("principal", "status"), [(b"stale", 401), (b"a b@R", 403), (b"@R", 403), (b"$1@R", 403)]
)
def test_a_ticket_that_names_nobody(who, principal: bytes, status: int) -> None:
    """A bad one is no proof; a good one of somebody without a name here is proven, and refused."""
    assert who(ticket(principal), tickets=True).status == status


def test_a_ticket_where_none_is_taken_is_no_proof(who) -> None:
    """Nobody looks at it."""
    assert who(ticket(b"bob@R")).status == 401


def test_a_directory_of_users_that_is_away_lets_nobody_in(who, caplog) -> None:
    """503, not a user without groups: rules that deny a group would not hold."""
    said = who(token(OWN), user(b"breaks"))
    assert (said.status, said.principal) == (503, None)
    assert "could not be looked up" in said.found
    assert "away" not in said.found
    assert "could not be looked up" in caplog.text


def test_a_directory_that_hangs_costs_its_deadline_and_no_more() -> None:
    """Then it is a no, and the loop was free meanwhile."""
    hang = threading.Event()
    desk = BlockingPool("the directory of users", deadline_s=0.05)

    @attrs.frozen
    class Hanging(Register):
        def groups(self, user: str) -> frozenset[str]:
            hang.wait(10)
            return frozenset()

    async def answer() -> tuple[Identity, int]:
        proofs = Proofs((LB,), None, desk, People(Hanging(), desk))
        asked = RequestInfo("/", b"", (token(OWN), user(b"alice")), HERE)
        question = asyncio.create_task(Authenticator(API, None, proofs).identify(asked))
        turns = 0
        while not question.done():
            turns += 1
            await asyncio.sleep(0.001)
        return await question, turns

    try:
        said, turns = asyncio.run(answer())
        assert (said.status, said.principal) == (503, None)
        assert turns > 5
    finally:
        hang.set()
        desk.close()


def test_groups_are_asked_once_a_minute_and_not_kept_longer(desk: BlockingPool) -> None:
    """A directory is slow; and who was thrown out of a group is out."""
    asked: list[str] = []
    now = [0.0]

    class Counting(Register):
        def groups(self, user: str) -> frozenset[str]:
            asked.append(user)
            return frozenset({"g"})

    async def ask() -> None:
        people = People(Counting(), desk, lambda: now[0])
        for at_s in (0.0, 59.0, 61.0, 62.0):
            now[0] = at_s
            assert await people.groups("alice") == {"g"}

    asyncio.run(ask())
    assert asked == ["alice", "alice"]


def test_a_name_like_an_option_is_never_looked_up(desk: BlockingPool) -> None:
    """``id -Gn -a`` would tell the groups of the master's own user."""

    class Never(Register):
        def groups(self, user: str) -> frozenset[str]:
            raise AssertionError(user)

    assert asyncio.run(People(Never(), desk).groups("-a")) == frozenset()


@pytest.mark.parametrize(("written", "peer"), [(HERE, f"::ffff:{HERE}"), (f"::ffff:{HERE}", HERE)])
def test_a_proxy_connects_from_its_address_however_that_is_written(written: str, peer: str) -> None:
    """Its connections keep their places exactly where it may speak for others."""
    proxy = TrustedProxy("lb1", written, "token", users=("*",))
    (known,) = trusted((proxy,), {"lb1": OWN.decode()})
    from_here = connects((proxy,))
    assert (from_here(peer), known.at(peer)) == (True, True)
    assert (from_here(THERE), from_here("no address"), known.at(THERE)) == (False, False, False)


def test_a_spec_becomes_trusted_proxies_with_the_tokens_that_were_brought() -> None:
    """One that was not brought ends the master: it would be open to an empty one."""
    spec = (TrustedProxy("lb1", HERE, "token", token="env:LB"), TrustedProxy("g", "10.0.1.0/24"))
    made = trusted(spec, {"lb1": OWN.decode()})
    assert made == (LB, KnownProxy("g", network("10.0.1.0/24"), "mtls", None, frozenset({"*"})))
    for tokens in ({}, {"lb1": ""}):
        with pytest.raises(ConfigError, match="lb1"):
            trusted(spec, tokens)
    assert OWN.decode() not in repr(made)


secrets = st.sampled_from([API, OWN, b"", b"wrong"]) | st.binary(max_size=30)
headers = st.lists(
    st.tuples(
        st.sampled_from(
            [b"x-tarn-token", b"x-tarn-user", b"authorization", b"cookie", b"x-forwarded-user"]
        ),
        secrets | st.sampled_from([b"alice", b"Bearer " + API, b"Negotiate YWxpY2VAUg=="]),
    ),
    max_size=4,
)


@given(headers, st.sampled_from([HERE, THERE, "10.0.1.9", ""]), st.sampled_from(["", "gate", "x"]))
def test_whatever_is_sent_only_proofs_let_in(
    headers: list[Header], peer: str, certificate: str
) -> None:
    """Any bytes are no error; a name needs a proven proxy, the fleet's holder the api token."""
    asked = RequestInfo("/instances", b"", tuple(headers), peer, certificate)
    said = asyncio.run(Authenticator(API, None, Proofs((LB, GATE, KNOX))).identify(asked))
    if said.principal is None:
        assert said.status in (400, 401, 403)
        return
    values = [value for _, value in headers]
    holder = API in values or b"Bearer " + API in values
    by_token = OWN in values and peer == HERE
    by_certificate = certificate == "gate" and peer == "10.0.1.9"
    expected = {"token": holder}
    assert expected.get(said.principal.via, by_token or by_certificate)


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("ops", {"view", "follow", "authorize", "admin"}),
        ("alice", {"view"}),
        ("bob", {"view"}),
        ("carol", set()),
        ("anonymous", set()),
    ],
)
def test_viewers_may_look_and_not_touch_where_there_is_no_authorizer(
    name: str, may: set[str]
) -> None:
    """By name or by group, as admins; the page learns what it may show."""
    proxy = KnownProxy("lb1", network("127.0.0.1"), "token", OWN, users=frozenset({"*"}))
    access = AccessRules(
        admins=SubjectsSpec(users=("ops",)),
        viewers=SubjectsSpec(users=("alice",), groups=("analysts",)),
    )
    desk = BlockingPool("the directory of users")
    people = People(Register({"bob": frozenset({"analysts"})}), desk)
    with (
        FakeMaster(
            access=access,
            gate=DirectAuthorizer(NoAuthorizer()),
            proofs=Proofs((proxy,), None, desk, people),
        ) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        web.headers.update({"X-TARN-Token": OWN.decode(), "X-TARN-User": name})
        assert set(web.get("/api/v1/me").json()["may"]) == may
        assert web.get("/api/v1/status").status_code == (200 if "view" in may else 403)
        assert web.put("/api/v1/resume").status_code == (200 if "admin" in may else 403)
        assert web.get("/api/v1/logs").status_code == (404 if "admin" in may else 403)
    desk.close()


def test_viewers_count_for_nobody_who_proved_nothing() -> None:
    """Nor for a proxy of that name, which is nobody's short name."""
    rules = AccessRules(viewers=SubjectsSpec(users=("anonymous", "lb1", "carol")))
    assert by_standing(ANONYMOUS, "view", rules) is None
    assert by_standing(Principal("carol", via="spnego"), "follow", rules) is None
    assert by_standing(Principal("carol", via="spnego"), "view", rules) is not None
    proxy = by_standing(Principal("lb1", via="trusted-proxy"), "admin", rules)
    assert proxy is None
