"""Requests that belong together reach the same instance, by what the master says."""

import asyncio
import json
from collections import Counter
from contextlib import ExitStack

import attrs
import pytest
from client_stage import asks, http_of, publish, tensor
from fake_master import TOKEN, FakeMaster, snapshot

import tarn.client
from tarn.client.affinity import AffinityRouter, RequestKey, sequence_headers
from tarn.client.pool import Affine, InstancePool, PoolMember
from tarn.client.targets import ServiceAddress
from tarn.domain import AffinityRule
from tarn.domain.affinity import AffinityStatus
from tarn.errors import ProviderError, UnreachableError
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until

SESSIONS = AffinityRule(("echo",), "header", idle_s=60.0)
A, B, C = (ServiceAddress("127.0.0.1", 8000 + n, f"llama-{n:04}") for n in range(3))


@pytest.fixture
def fleet():
    """A master with a rule, and three fake Tritons in its view."""
    with ExitStack() as stack:
        tritons = [stack.enter_context(FakeTriton("echo")) for _ in range(3)]
        status = AffinityStatus((SESSIONS,), complete=True)
        master = stack.enter_context(FakeMaster(snapshot(affinity=status)))
        publish(master, [t.endpoint for t in tritons], 4)
        yield master, tritons


def session(name):
    return {"headers": {"X-TARN-Affinity": name}}


def homes(tritons):
    """Return which Triton got requests of each session."""
    found = {}
    for number, triton in enumerate(tritons):
        for _, _, body in triton.requests:
            head, _ = json.JSONDecoder().raw_decode(body.decode("latin-1"))
            found.setdefault(head["id"].partition("/")[0], set()).add(number)
    return found


def test_a_session_stays_with_its_instance_and_sessions_spread(fleet):
    """Each has one; together they use all."""
    master, tritons = fleet
    with tarn.client.http(master.url, api_token=TOKEN.decode()) as client:
        for turn in range(4):
            for number in range(30):
                name = f"s{number}"
                asks(client, turn, request_id=f"{name}/{turn}", **session(name))
    found = homes(tritons)
    assert len(found) == 30
    assert all(len(where) == 1 for where in found.values())
    assert len(set.union(*found.values())) == 3


def test_two_clients_send_a_session_to_the_same_instance(fleet):
    """They know nothing of each other; the hash decides."""
    master, tritons = fleet
    for _ in range(2):
        with tarn.client.http(master.url, api_token=TOKEN.decode()) as client:
            for number in range(20):
                asks(client, number, request_id=f"s{number}/", **session(f"s{number}"))

    async def third():
        async with tarn.client.aio(master.url, api_token=TOKEN.decode()) as client:
            for number in range(20):
                await client.infer(
                    "echo", tensor(1), request_id=f"s{number}/", **session(f"s{number}")
                )

    asyncio.run(third())
    assert all(len(where) == 1 for where in homes(tritons).values())


def test_a_new_instance_takes_no_session_away(fleet):
    """Not before it was idle for as long as the rule says; new ones go there."""
    master, tritons = fleet
    publish(master, [t.endpoint for t in tritons[:2]], 5)
    with tarn.client.http(master.url, api_token=TOKEN.decode()) as client:
        for number in range(30):
            asks(client, number, request_id=f"s{number}/", **session(f"s{number}"))
        publish(master, [t.endpoint for t in tritons], 6)
        until(lambda: len(client.targets) == 3)
        for number in range(60):
            asks(client, number, request_id=f"s{number}/", **session(f"s{number}"))
    assert all(len(where) == 1 for where in homes(tritons).values())
    assert tritons[2].requests


def test_a_session_moves_when_its_instance_is_gone(fleet):
    """Unlike a sequence, it may: the rule is a wish."""
    master, tritons = fleet
    with tarn.client.http(master.url, api_token=TOKEN.decode()) as client:
        asks(client, 1, **session("ada"))
        (home,) = [triton for triton in tritons if triton.requests]
        home.crash()
        assert asks(client, 2, **session("ada")) == 2
        assert asks(client, 3, **session("ada")) == 3


def test_rules_that_change_are_followed_and_incomplete_ones_replace_none(fleet):
    """A new master says at first that it knows nothing."""
    master, _ = fleet
    with tarn.client.http(master.url, api_token=TOKEN.decode()) as client:
        router = client._router
        until(lambda: router._rules == (SESSIONS,))
        other = attrs.evolve(SESSIONS, header="X-Other")
        master.publish(affinity=AffinityStatus((other,), complete=True))
        until(lambda: router._rules == (other,))
        master.publish(affinity=AffinityStatus((), complete=False))
        master.publish(affinity=AffinityStatus((other, SESSIONS), complete=False))
        master.publish(affinity=AffinityStatus((SESSIONS,), complete=True))
        until(lambda: router._rules == (SESSIONS,))


def test_a_lost_sequence_says_so_until_it_begins_again():
    """No request of it reaches another instance, however often the caller tries."""
    with ExitStack() as stack:
        three = [stack.enter_context(FakeTriton("echo")) for _ in range(3)]
        with tarn.client.http(http_of(three)) as client:
            asks(client, 1, sequence_id=7, sequence_start=True)
            (home,) = [triton for triton in three if triton.requests]
            home.crash()
            for _ in range(3):
                with pytest.raises(UnreachableError, match="state of sequence '7', which is lost"):
                    asks(client, 2, sequence_id=7)
            assert sum(len(triton.requests) for triton in three) == 1
            assert asks(client, 1, sequence_id=7, sequence_start=True) == 1
            assert asks(client, 2, sequence_id=7, sequence_end=True) == 2


def test_sequences_of_two_models_with_one_id_do_not_meet():
    """Each has a state of its own."""
    router = AffinityRouter(FakeClock())
    one, other = (router.key_of(model, 7, {}, b"") for model in ("a", "b"))
    router.settle(one, PoolMember(A))
    assert router.home(other) is None
    assert router.home(one).target == A
    assert router.key_of("a", 0, {}, b"") is None
    assert router.key_of("a", "", {}, b"") is None


def test_a_key_that_was_idle_for_long_is_free_again():
    """As long as its rule says; one whose rule keeps nothing is never bound."""
    clock = FakeClock()
    router = AffinityRouter(clock)
    key = RequestKey("echo", b"u", SESSIONS)
    router.settle(key, PoolMember(A))
    clock.advance(59.0)
    assert router.home(key) is not None
    router.settle(key, PoolMember(A))
    clock.advance(60.0)
    assert router.home(key) is None
    loose = RequestKey("echo", b"u", AffinityRule(("echo",), "body"))
    router.settle(loose, PoolMember(A))
    assert router.home(loose) is None


def pool(*targets):
    made = InstancePool(FakeClock(), lambda: 0.0)
    made.set_members(targets)
    return made


def test_a_hot_key_does_not_fill_one_instance():
    """With an imbalance, what is over the bound goes to the next one of the key's order."""
    hot = Affine(b"hot", imbalance=125)
    taken = Counter(pool_.target for pool_ in _take(pool(A, B, C), hot, 30))
    assert max(taken.values()) <= 13
    assert len(taken) == 3
    assert len(set(_take(pool(A, B, C), Affine(b"hot"), 30))) == 1


def _take(fleet, affine, count):
    return [fleet.take(affine=affine) for _ in range(count)]


def test_a_home_that_is_left_alone_is_passed_over():
    """A key moves while its instance refuses connections."""
    fleet = pool(A, B, C)
    home = fleet.take(affine=Affine(b"k"))
    fleet.give_back(home, None, answered=False)
    fleet.eject(home)
    assert fleet.take(affine=Affine(b"k", home)) is not home


@pytest.mark.parametrize(
    ("sequence", "given", "sent"),
    [
        (7, {}, {"x-sequence-id": "7"}),
        ("a b", {"A": 1}, {"A": 1, "x-sequence-id": "a b"}),
        (7, {"X-Sequence-ID": "own"}, {"X-Sequence-ID": "own"}),
        (0, {}, {}),
        ("", {}, {}),
        ("a\r\nb", {}, {}),
        ("ä", {}, {}),
        (" a", {}, {}),
        ("x" * 300, {}, {}),
    ],
)
def test_the_id_is_sent_as_a_header_where_it_can_be(sequence, given, sent):
    """A load balancer reads it there; a header of the caller's own stays."""
    assert sequence_headers(sequence, given) == sent


class NewerMaster:
    """Finds a master whose rules are of a later version."""

    name = "newer"

    def open(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        return None

    def instances(self):
        return {"epoch": "1-1", "revision": 1, "complete": True, "instances": []}

    def affinity(self):
        return {"complete": True, "rules": [{"key": "moon"}]}


def test_a_rule_that_is_not_known_here_is_not_passed_over():
    """Without it, sequences might be spread: the error says what to do."""
    with pytest.raises(ProviderError, match="as new as the master's"):
        tarn.client.http(NewerMaster())
