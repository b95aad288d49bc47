"""What HAProxy is told of affinity, and what it says of the sequences that it keeps."""

import pytest

from tarn_plugins.discovery.haproxy.affinity_text import (
    HaproxyRules,
    held_in,
    live_entries,
    models_named,
    server_number,
)
from tarn_plugins.discovery.haproxy.plan import HaproxyBackend, plan
from tarn_plugins.discovery.haproxy.runtime_messages import BackendServer, Load

TABLE = """# table: tarn_sequences, type: string, size:102400, used:4
0x1: key=s.1 use=0 exp=3599000 server_id=7 server_key=fleet-0007 gpt0=0
0x2: key=s.2 use=0 exp=3540000 server_id=7 server_key=fleet-0007 gpt0=0
0x3: key=s.3 use=0 exp=3599999 server_id=7 server_key=fleet-0007 gpt0=1
0x4: key=s.4 use=2 exp=3599999 shard=0 gpt0=1 server_id=8 server_key=fleet-0008
0x5: key=h.bob use=0 exp=3599000 server_id=8 server_key=fleet-0008
"""


def test_an_entry_lives_until_its_end_or_its_rest() -> None:
    """One whose request is under way lives in any case."""
    assert live_entries(TABLE, {"s": 30.0}) == {7: 1, 8: 1}
    assert live_entries(TABLE, {"s": 65.0, "h": 5.0}) == {7: 2, 8: 2}
    assert live_entries("", {}) == {}


def test_held_requests_are_counted_over_both_protocols() -> None:
    """A HAProxy without the table holds none."""
    text = (
        "# table: tarn_held\n0x1: key=http use=3 exp=0 conn_cur=3\n0x2: key=grpc use=1 conn_cur=1\n"
    )
    assert held_in(text) == 4
    assert held_in("No such table") == 0


def test_a_number_belongs_to_one_instance_for_ever() -> None:
    """Of the fleets that share a HAProxy each has its range; HAProxy takes 31 bits."""
    assert server_number("fleet-0007") == server_number("fleet-0006") + 1
    assert server_number("fleet-0007") != server_number("other-0007")
    assert 0 < server_number("a" * 40 + "-999999") < 2**31
    assert server_number("triton") == 0


def test_rules_are_words_that_the_runtime_api_takes() -> None:
    """Whatever stands in a name: no blank, no parenthesis, no comma, no quote."""
    rows = [
        {"models": ["a b", "c/d:+é)"], "key": "sequence", "idle_s": 65.0},
        {"models": ["x"], "key": "json", "path": "a.b", "first_bytes": 5},
        {"key": "header", "header": "X-User"},
    ]
    rules = HaproxyRules.read({"rules": rows, "complete": True})
    assert rules.text.split("/") == [
        "sequence:::0:1:a~20b+c~2fd~3a~2b~c3~a9~29",
        "json::a.b:5:0:x",
        "header:X-User::0:0:",
    ]
    *parts, head = rules.commands
    assert parts == [f"set var proc.tarn_affinity.0 str({rules.text})"]
    assert head == f"set var proc.tarn_affinity str({rules.head})"
    assert rules.rests_s == {"s": 65.0}
    assert models_named(rules) == "a b, c/d:+é)"


def test_a_bound_is_for_keys_that_are_not_remembered() -> None:
    chat = {"models": ["chat"], "key": "json", "path": "text", "imbalance": 130}
    body = {"models": ["ocr"], "key": "body", "imbalance": 125}
    rules = HaproxyRules.read({"rules": [chat, body]})
    assert rules.text == "json::text:0:2:chat/body:::0:2:ocr"
    assert rules.imbalance == 125
    kept = {"key": "header", "header": "X-User", "idle_s": 5.0, "imbalance": 130}
    assert HaproxyRules.read({"rules": [kept]}).text == "header:X-User::0:1:"
    assert HaproxyRules.read({"rules": [kept]}).imbalance == 0


def test_what_a_master_does_not_know_yet_is_kept_where_it_can_be_read() -> None:
    """The same where a master tells no rules; a master with none wants none."""
    assert HaproxyRules.read({"rules": [], "complete": False}).text == "readable:::0:1:"
    assert HaproxyRules.read(None).commands == ["set var proc.tarn_affinity str(none)"]
    assert HaproxyRules.read(None).rests_s == {"s": 60.0}
    assert HaproxyRules.read({"rules": []}).commands == [
        "set var proc.tarn_affinity str(00000000.0)"
    ]


@pytest.mark.parametrize(
    "answer",
    [{}, {"rules": [{"key": "colour"}]}, {"rules": [{"key": "body", "models": ["m" * 60] * 5000}]}],
)
def test_rules_that_are_none_are_refused(answer: dict[str, object]) -> None:
    """So the former ones count on."""
    with pytest.raises((ValueError, KeyError)):
        HaproxyRules.read(answer)


KEYED = HaproxyBackend("b_keyed", keyed=True)
DRAINS = BackendServer("fleet-0001", "127.0.0.1", 80, admin=0x08, state=2, number=7)
IDLE = {"fleet-0001": Load(0, 0, 0)}


def left(server: BackendServer, entries: dict[int, int], backend: HaproxyBackend = KEYED) -> bool:
    made = plan(backend, (), (server,), IDLE, slots=False, remove=True, entries=entries)
    return any(order.text.startswith("del server") for order in made.orders)


def test_a_server_stays_until_its_sequences_end() -> None:
    """A dead one has none; and the other backends do not wait for them."""
    assert not left(DRAINS, {7: 1})
    assert left(DRAINS, {7: 0})
    assert left(DRAINS, {8: 3})
    assert left(BackendServer("fleet-0001", "127.0.0.1", 80, admin=0x08, state=0, number=7), {7: 1})
    assert left(DRAINS, {7: 1}, HaproxyBackend("b"))
