"""Connections are bounded, not requests: who says nothing takes nobody's place."""

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest
from fake_master import TOKEN, FakeMaster

from tarn.http.server import HttpServer
from tarn.tls.acceptor import ConnectionSlot, ConnectionSlots, TlsAcceptor

pytestmark = pytest.mark.usefixtures("each_way")

MOST = 32
OPEN, ONE = MOST // 2, MOST // 4


def taken(places: ConnectionSlots, peer: str, dropped: list[str], name: str = "") -> ConnectionSlot:
    place = places.take(peer)
    assert place is not None
    place.drop = lambda: dropped.append(name)
    return place


def test_the_longest_idle_one_of_an_address_goes_first() -> None:
    """Each address has a quarter of the places, and others lose nothing by it."""
    places, dropped = ConnectionSlots(MOST), list[str]()
    other = taken(places, "10.0.0.9", dropped, "other")
    for number in range(ONE + 2):
        taken(places, "10.0.0.1", dropped, str(number))
    assert dropped == ["0", "1"]
    assert len(places) == ONE + 1
    other.leave()
    assert len(places) == ONE


def test_addresses_together_have_half_of_the_places() -> None:
    """The other half is for those who bring a proof."""
    places, dropped = ConnectionSlots(MOST), list[str]()
    for number in range(OPEN + 3):
        taken(places, f"10.0.0.{number}", dropped, str(number))
    assert dropped == ["0", "1", "2"]


def test_one_at_work_is_never_taken_away_and_rest_begins_its_time_again() -> None:
    """Where all of an address are at work, the new one is refused."""
    places, dropped = ConnectionSlots(MOST), list[str]()
    working = taken(places, "10.0.0.1", dropped, "working")
    rested = taken(places, "10.0.0.1", dropped, "rested")
    working.work()
    rested.work()
    rested.rest()
    for number in range(ONE - 1):
        taken(places, "10.0.0.1", dropped, str(number))
    assert dropped == ["rested"]
    others = [taken(places, "10.0.0.2", dropped) for _ in range(ONE)]
    for other in others:
        other.work()
    assert places.take("10.0.0.2") is None


def test_who_was_let_in_and_a_trusted_proxy_keep_their_places() -> None:
    """Half of the places can be filled by nobody without a proof."""
    places, dropped = ConnectionSlots(MOST, lambda peer: peer == "10.0.0.7"), list[str]()
    proven = [taken(places, "10.0.0.1", dropped, "proven") for _ in range(3)]
    for place in proven:
        place.keep()
    taken(places, "10.0.0.7", dropped, "proxy")
    for number in range(3 * MOST):
        taken(places, f"10.0.1.{number % 50}", dropped, "open")
    assert set(dropped) == {"open"}
    assert len(places) == OPEN + 4
    proven[0].leave()
    proven[0].leave()
    assert len(places) == OPEN + 3


def test_when_all_places_are_kept_the_longest_idle_of_them_goes() -> None:
    """Also where something else needs room: a descriptor."""
    places, dropped = ConnectionSlots(MOST, lambda _peer: True), list[str]()
    for number in range(MOST + 1):
        taken(places, "10.0.0.7", dropped, str(number))
    assert dropped == ["0"]
    assert places.make_room()
    assert dropped == ["0", "1"]


@contextlib.contextmanager
def small(api_token: bytes | None = TOKEN, **more: object) -> Iterator[FakeMaster]:
    """A master's API with few places."""
    master = FakeMaster(api_token=api_token)
    master.server.close()
    master.server = HttpServer(most=MOST, **more)  # type: ignore[arg-type]
    with master:
        yield master


def ask(line: http.client.HTTPConnection, path: str, token: bool = True) -> int:
    line.request("GET", path, headers={"X-TARN-Token": TOKEN.decode()} if token else {})
    answer = line.getresponse()
    answer.read()
    return answer.status


def test_idle_connections_of_one_address_keep_nobody_out() -> None:
    """Ten times the places, all silent: a kept connection, a stream and newcomers go on."""
    with small() as master, contextlib.ExitStack() as held:
        where = ("127.0.0.1", master.server.port)
        kept = http.client.HTTPConnection(*where, timeout=5)
        assert ask(kept, "/api/v1/status") == 200
        stream = http.client.HTTPConnection(*where, timeout=5)
        headers = {"Accept": "text/event-stream", "X-TARN-Token": TOKEN.decode()}
        stream.request("GET", "/api/v1/stream", headers=headers)
        news = stream.getresponse()
        first = [news.readline() for _ in range(7)]
        assert first[0] == b"event: instances\n"
        for number in range(10 * MOST):
            held.enter_context(socket.create_connection(where, timeout=5))
            if number % MOST == 0:
                fresh = http.client.HTTPConnection(*where, timeout=5)
                assert ask(fresh, "/livez", token=False) == 200
                fresh.close()
                assert ask(kept, "/authorize?action=infer&model=echo") == 200
        master.publish(desired=6)
        assert b'"desired": 6' in [news.readline() for _ in range(4)][2]
        assert len(master.server._places) <= OPEN + 2
        stream.close()
        kept.close()


def test_without_a_token_nobody_keeps_a_place() -> None:
    """Whoever asks is let in there, and has proven nothing by that."""
    with small(None) as master, contextlib.ExitStack() as held:
        for _ in range(2 * ONE):
            line = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
            held.callback(line.close)
            assert ask(line, "/api/v1/status", token=False) == 200
        assert len(master.server._places) <= ONE


def test_places_are_given_back() -> None:
    """By those that leave, and by those that never finish a head."""
    with small(head_within_s=0.3) as master:
        where, pause = ("127.0.0.1", master.server.port), threading.Event()
        lines = [socket.create_connection(where, timeout=5) for _ in range(4)]
        for line in lines[:2]:
            line.sendall(b"GET /livez HT")
        for line in lines:
            with contextlib.suppress(ConnectionError):  # what came after the end was not read
                assert line.recv(10) == b""
            line.close()
        assert any(len(master.server._places) == 0 or pause.wait(0.02) for _ in range(250))


def test_a_flood_is_a_line_a_minute_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Each line names its kind, by which the master's log counts it."""
    places = ConnectionSlots(MOST)
    for _ in range(2 * MOST):
        places.take("10.0.0.1")
    ours = [record for record in caplog.records if record.name == "tarn.tls.acceptor"]
    kinds = {getattr(record, "kind", None) for record in ours}
    assert kinds == {"idle connections are closed"}


def test_a_connection_that_fails_for_any_reason_gives_its_place_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else each such failure would take one from the others for good."""

    def broken(_place: ConnectionSlot) -> asyncio.Protocol:
        raise ValueError("a protocol that cannot be made")

    async def connect() -> tuple[bytes, int]:
        places, listener = ConnectionSlots(MOST), socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        door = TlsAcceptor(listener, None, broken, 5.0, "http://127.0.0.1", places)
        door.open()
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(5.0):
            said = await reader.read()
        writer.close()
        await door.close()
        listener.close()
        return said, len(places)

    assert asyncio.run(connect()) == (b"", 0)
    assert [record.message for record in caplog.records] == ["a connection could not be set up"]
