"""Sequences and waiting requests at a real HAProxy, with instances that a test plays."""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from haproxy_tritons import view
from servers.haproxy import HAPROXY
from servers.keyed_haproxy import RULES, KeyedHaproxy, PlayedSequences, SequenceClient
from servers.newer_haproxy import RELEASES, haproxy_program

from tarn.clock import SystemClock
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = [
    pytest.mark.one_triton,
    pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed"),
]
BACKEND = "triton_backend"
Program = Path | None
Fleet = tuple[HAProxyServers, list[PlayedSequences]]


@pytest.fixture(params=["own", *RELEASES], ids=["own", *RELEASES.values()])
def program(request: pytest.FixtureRequest) -> Program:
    """The machine's own HAProxy (None), or a newer one."""
    return None if request.param == "own" else haproxy_program(request.param)


@contextlib.contextmanager
def fleet(
    haproxy: KeyedHaproxy, count: int = 3
) -> Iterator[tuple[HAProxyServers, list[PlayedSequences]]]:
    """Give HAProxy *count* instances, as the agent does."""
    slots = haproxy.settings.slot_prefix if haproxy.settings.slots else ""
    engine = HAProxyServers(
        HaproxyTarget(haproxy.socket, slots=slots, fleet="fleet"), SystemClock()
    )
    engine.follow(RULES)
    tritons = [PlayedSequences(number) for number in range(1, count + 1)]
    try:
        engine.sync(view(1, *(one.member for one in tritons)))
        until(lambda: up(haproxy, f"{BACKEND}_keyed") == up(haproxy, BACKEND) == count, 15)
        yield engine, tritons
    finally:
        engine.close(withdraw=False)
        for one in tritons:
            one.close()


def up(haproxy: KeyedHaproxy, backend: str) -> int:
    rows = haproxy.statistics(backend).values()
    return sum(row["status"] == "UP" and row["svname"] != "BACKEND" for row in rows)


def shares(haproxy: KeyedHaproxy, backend: str) -> Counter[str]:
    rows = haproxy.statistics(backend).items()
    return Counter({name: int(row["stot"]) for name, row in rows if name != "BACKEND"})


def test_sequences_stay_and_other_requests_spread(tmp_path: Path, program: Program) -> None:
    with KeyedHaproxy(tmp_path, program=program) as haproxy, fleet(haproxy) as (_, tritons):
        client = SequenceClient(haproxy.http_port)
        client.steps(range(1, 61), range(5), 4)
        assert (client.wrong(), client.failed()) == ({}, {})
        assert all(count >= 25 for count in shares(haproxy, f"{BACKEND}_keyed").values())
        assert sum(len(one.sums) for one in tritons) == 60
        for number in range(30):
            client.step(number, 0, 1, model="plain")
        assert sum(shares(haproxy, BACKEND).values()) == 30
        assert len(+shares(haproxy, BACKEND)) == 3


def busy(haproxy: KeyedHaproxy) -> bool:
    """Whether a server has a request whose key is bounded."""
    rows = haproxy.statistics(f"{BACKEND}_bounded").values()
    return any(int(row["scur"]) for row in rows)


BOUNDED = {"models": ["chat"], "key": "json", "path": "parameters.sequence_id", "imbalance": 130}


@pytest.mark.parametrize("slots", [0, 3])
def test_a_key_that_all_ask_for_spreads_within_its_bound(
    tmp_path: Path, program: Program, slots: int
) -> None:
    """One at a time they reach one instance; at once none gets over 130 % of the mean."""
    file = KeyedHaproxy(tmp_path, program=program, imbalance=130, slots=slots)
    with file as haproxy, fleet(haproxy) as (engine, tritons):
        engine.follow({"complete": True, "rules": [BOUNDED]})
        until(lambda: f"<{engine.rules.head}>" in haproxy.command("get var proc.tarn_affinity"), 5)
        client = SequenceClient(haproxy.http_port)
        for _ in range(9):
            client.step(7, 0, 9, model="chat")
            until(lambda: not busy(haproxy), 5)  # one that has just been answered may still count
        before = [one.asked for one in tritons]
        assert max(before) == 9, before
        gate = threading.Event()
        for one in tritons:
            one.before = lambda: gate.wait(20)
        with ThreadPoolExecutor(12) as pool:
            going = [pool.submit(client.step, 7, 0, 9, "chat") for _ in range(12)]
            until(lambda: sum(one.asked for one in tritons) == 21, 10)
            at_once = [one.asked - had for one, had in zip(tritons, before, strict=True)]
            gate.set()
            for each in going:
                each.result(20)
        assert client.failed() == {}
        assert max(at_once) <= 6, at_once
        said = engine.applied()
        assert said is not None
        assert said.error == ""


def test_a_bound_that_the_file_does_not_keep_is_told(tmp_path: Path) -> None:
    with KeyedHaproxy(tmp_path) as haproxy, fleet(haproxy, 1) as (engine, _):
        engine.follow({"complete": True, "rules": [BOUNDED]})
        until(lambda: "the bound of 130 %" in getattr(engine.applied(), "error", ""), 5)


def test_two_first_requests_at_once_find_the_same_instance(
    tmp_path: Path, program: Path | None
) -> None:
    with KeyedHaproxy(tmp_path, program=program) as haproxy, fleet(haproxy) as (_, tritons):
        client = SequenceClient(haproxy.http_port)
        with ThreadPoolExecutor(8) as pool:
            for seq in range(100, 120):
                list(pool.map(lambda _, seq=seq: client.step(seq, 0, 9), range(4)))
        holders = [sum(seq in one.sums for one in tritons) for seq in range(100, 120)]
        assert holders == [1] * 20


def test_a_drain_lets_sequences_end_where_they_began(tmp_path: Path, program: Program) -> None:
    with KeyedHaproxy(tmp_path, program=program) as haproxy, fleet(haproxy) as (engine, tritons):
        first, *rest = tritons
        client = SequenceClient(haproxy.http_port)
        client.steps(range(1, 41), range(3), 9)
        its = sorted(seq for seq in first.sums if isinstance(seq, int))
        assert len(its) > 3
        engine.sync(view(2, *(one.member for one in rest)))
        client.steps(range(101, 141), range(10), 9)
        assert not {seq for seq in first.sums if isinstance(seq, int) and seq > 100}
        until(lambda: left_at(engine) == (len(its), len(its)), 5)
        client.steps(range(1, 41), range(3, 10), 9)
        assert (client.wrong(), client.failed()) == ({}, {})
        assert set(its) == set(first.sums)
        until(lambda: left_at(engine) == (0, 0), 3)
        until(lambda: first.member.instance_id not in shares(haproxy, f"{BACKEND}_keyed"), 3)


def left_at(engine: HAProxyServers) -> tuple[int, int]:
    """Return the open sessions and sequences of instance 1, as they are acknowledged."""
    said = engine.applied()
    assert said is not None
    sessions, sequences = (
        dict(one).get("fleet-0001", 0) for one in (said.sessions, said.sequences)
    )
    return sessions, sequences


def test_sequences_at_rest_do_not_keep_an_instance_for_ever(
    tmp_path: Path, program: Path | None
) -> None:
    """After ``idle_s`` of five seconds Triton has forgotten them, too."""
    with KeyedHaproxy(tmp_path, program=program) as haproxy, fleet(haproxy) as (engine, tritons):
        first, *rest = tritons
        SequenceClient(haproxy.http_port).steps(range(1, 41), range(2), 9)
        engine.sync(view(2, *(one.member for one in rest)))
        until(lambda: left_at(engine)[1] > 3, 3)
        until(lambda: first.member.instance_id not in shares(haproxy, f"{BACKEND}_keyed"), 8)


def test_a_reload_keeps_every_sequence(tmp_path: Path, program: Program) -> None:
    """Also of requests that come while the new process has no servers yet."""
    with KeyedHaproxy(tmp_path, program=program) as haproxy, fleet(haproxy):
        client = SequenceClient(haproxy.http_port)
        client.steps(range(1, 31), range(3), 9)
        threading.Event().wait(6)  # peers hand a table on only after some seconds
        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(client.steps, range(1, 31), range(3, 7), 9, at_once=30)
            haproxy.reload()
            going.result(60)
        client.steps(range(1, 31), range(7, 10), 9)
        assert (client.wrong(), client.failed()) == ({}, {})
        assert "value=" in haproxy.command("get var proc.tarn_filled")


def test_requests_wait_for_the_first_instance(tmp_path: Path, program: Program) -> None:
    """Each counts once as demand; beyond the limit there is 503 at once."""
    with (
        KeyedHaproxy(tmp_path, program=program, hold_most=20) as haproxy,
        fleet(haproxy, 0) as (engine, _),
    ):
        client = SequenceClient(haproxy.http_port)
        late = PlayedSequences(1)
        with contextlib.closing(late), ThreadPoolExecutor(40) as pool:
            going = [pool.submit(client.step, n, 0, 9) for n in range(1, 9)]
            going += [pool.submit(client.step, n, 0, 9, "plain") for n in range(11, 23)]
            until(lambda: engine.statistics().held == 20, 5)
            beyond = SequenceClient(haproxy.http_port)
            beyond.step(99, 0, 9)
            assert beyond.got == {99: [(503, "no Triton instance is free")]}
            engine.sync(view(2, late.member))
            for one in going:
                one.result(30)
        assert (client.wrong(), client.failed()) == ({}, {})
        assert late.asked == 20
        assert engine.statistics().held == 0


def test_who_leaves_waits_no_longer(tmp_path: Path) -> None:
    """In 2.6. Newer ones see it only when the wait is over: until then it counts as demand."""
    with KeyedHaproxy(tmp_path) as haproxy, fleet(haproxy, 0) as (engine, _):
        impatient = SequenceClient(haproxy.http_port, timeout_s=1.0)
        with ThreadPoolExecutor(5) as pool:
            gone = [pool.submit(impatient.step, n, 0, 9) for n in range(5)]
            until(lambda: engine.statistics().held == 5, 5)
            for one in gone:
                one.result(10)
        until(lambda: engine.statistics().held == 0, 5)


def test_placeholders_forget_what_another_instance_had(
    tmp_path: Path, program: Path | None
) -> None:
    with (
        KeyedHaproxy(tmp_path, program=program, slots=2) as haproxy,
        fleet(haproxy, 2) as (engine, tritons),
    ):
        first, second = tritons
        client = SequenceClient(haproxy.http_port)
        client.steps(range(1, 21), range(3), 9)
        its = [seq for seq in first.sums if isinstance(seq, int)]
        third = PlayedSequences(3)
        with contextlib.closing(third):
            engine.sync(view(2, second.member))
            client.steps(range(1, 21), range(3, 10), 9)
            assert (client.wrong(), client.failed()) == ({}, {})
            until(lambda: left_at(engine) == (0, 0), 5)
            until(lambda: up(haproxy, f"{BACKEND}_keyed") == 1, 5)
            engine.sync(view(3, second.member, third.member))
            until(lambda: up(haproxy, f"{BACKEND}_keyed") == 2, 5)
            again = SequenceClient(haproxy.http_port)
            again.steps(its, range(3, 5), 9)
            assert again.wrong() == {}
            assert set(again.failed()) == set(its)
