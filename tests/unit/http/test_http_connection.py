"""The short way of plain requests: it reads and writes what h11 would, or leaves it to h11.

A head that comes in two parts is always h11's, so each law sends the same bytes both ways.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import h11
import pytest
from fake_master import TOKEN, FakeMaster, StillClock
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from tarn.http import connection as connections
from tarn.http.connection import HOT, ServerConnection, plain_answer, plain_request
from tarn.http.server import config_of
from tarn.tls.acceptor import ConnectionSlots

_RANDOM = re.compile(rb'(x-request-id: |nonce=")[^\r"]+')
App = Callable[[Scope, Receive, Send], Awaitable[None]]
RIGHT = b"X-TARN-Token: " + TOKEN


def head(*lines: bytes, target: bytes = b"/instances", method: bytes = b"GET") -> bytes:
    """Return a head with these header lines."""
    return b"\r\n".join([method + b" " + target + b" HTTP/1.1", *lines, b"", b""])


@attrs.define(eq=False)
class Wire(asyncio.Transport):
    """Remembers what was written."""

    written: bytes = b""
    writes: int = 0
    closed: bool = False
    paused: bool = False
    ends: Callable[[None], None] | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        places = {"peername": ("127.0.0.1", 50000), "sockname": ("127.0.0.1", 8888)}
        return places.get(name, default)

    def write(self, data: Any) -> None:
        if data:
            self.written += bytes(data)
            self.writes += 1

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True
        if self.ends is not None:
            asyncio.get_running_loop().call_soon(self.ends, None)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Line:
    """One connection of a server without sockets, and what its application was asked."""

    def __init__(self, app: App) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.app = app
        config = config_of(self)
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"Mon, 30 Nov 2026 10:00:00 GMT")]
        self.http = ServerConnection(config, state, {}, asyncio.get_running_loop())
        self.slots = ConnectionSlots(8)
        place = self.slots.take("127.0.0.1")
        assert place is not None
        self.http.place = place
        self.wire = Wire()
        self.http.connection_made(self.wire)
        self.wire.ends = self.http.connection_lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown = {key: value for key, value in scope.items() if not key.startswith("tarn.")}
        # uvicorn's releases name several, and nothing of ours asks which
        assert shown.pop("asgi").keys() == {"version", "spec_version"}
        self.scopes.append(shown)
        await self.app(scope, receive, send)

    def close(self) -> None:
        """Nothing to end."""

    def says(self, data: bytes) -> None:
        """Let the client send *data*, unless it was hung up on."""
        if not self.wire.closed:
            try:
                self.http.data_received(data)
            except h11.LocalProtocolError:  # nonsense after an answer: the loop hangs up
                self.wire.abort()

    async def settled(self) -> None:
        """Wait until everything that came is answered."""
        async with asyncio.timeout(10):
            while self.http.tasks:
                await asyncio.gather(*self.http.tasks)
                # What is done already is not waited for, but its callback takes another turn.
                await asyncio.sleep(0)

    @property
    def is_idle(self) -> bool:
        return self.http.place in self.slots._idle

    @property
    def all(self) -> tuple[object, ...]:
        """Return everything that a client or the application can see, without random words."""
        masked = _RANDOM.sub(rb"\1*", self.wire.written)
        states = (self.http.conn.our_state, self.http.conn.their_state)
        return masked, self.wire.closed, self.is_idle, self.scopes, states


def short_and_long(app: App, sent: Sequence[tuple[bytes, bool]]) -> tuple[Line, Line]:
    """Send each text to a connection in one piece, and to another in two.

    The flag next to a text says whether the client waits for the answer before it goes on.
    """

    async def both() -> tuple[Line, Line]:
        short, long = Line(app), Line(app)
        for text, waits in sent:
            short.says(text)
            long.says(text[:1])
            long.says(text[1:])
            if waits:
                await short.settled()
                await long.settled()
        await short.settled()
        await long.settled()
        return short, long

    return asyncio.run(both())


LINES = st.sampled_from(
    [
        *(b"Host: master", b"host:master", b"Host:  master ", b"Host : master", b"Host:\tmaster"),
        *(b"Host: localhost", b"Host: evil", b"Host:", b"Ho\0st: master", b"Host: ma\0ster"),
        *(RIGHT, RIGHT, RIGHT, b"X-TARN-Token: wrong", b"x-tarn-token:" + TOKEN, RIGHT + b" "),
        *(b"Authorization: Bearer " + TOKEN, b"Authorization: TARN", b"Authorization: Negotiate x"),
        *(b"Accept: */*", b"Accept: application/json", b"Accept: application/openmetrics-text"),
        *(b"Connection: keep-alive", b"Connection: close", b"Connection: Upgrade, keep-alive"),
        *(b"Content-Length: 0", b"Content-Length: 4", b"Content-Length: 4, 4"),
        *(b"Content-Length: x", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip"),
        *(b"Expect: 100-continue", b"Upgrade: websocket", b"Upgrade: h2c", b"X-Odd: 1"),
        *(b"User-Agent: a  b", b"User-Agent: \xe9", b"X-Request-Id: gateway-7f3a:42"),
        *(b"Cookie: a=b; c=d", b" folded", b"\tfolded", b"no colon", b": empty", b""),
        *(b"X-TARN-User: anna", b"Origin: http://evil", b"Sec-Fetch-Site: cross-site"),
        *(b"Accept: */*\nContent-Length: 4", b"Accept: */*\rContent-Length: 4"),
    ]
)
TARGETS = st.sampled_from(
    [
        *(b"/instances", b"/instances", b"/health", b"/metrics", b"/livez", b"/readyz"),
        *(b"/instances/", b"/health?x=1", b"/INSTANCES", b"//health", b"http://master/health"),
        *(b"/config", b"/nowhere", b"/metrics?token=" + TOKEN, b"*", b"/health#x", b"/%68ealth"),
    ]
)
METHODS = st.sampled_from([b"GET"] * 8 + [b"HEAD", b"POST", b"get", b"GET ", b"OPTIONS"])
ANY_HEADS = st.builds(
    lambda lines, target, method, body: head(*lines, target=target, method=method) + body,
    st.lists(LINES, max_size=5),
    TARGETS,
    METHODS,
    st.sampled_from([b"", b"", b"body", b"GET ", b"\r\n", head(b"Host: master", RIGHT)]),
)
# Most of these are plain.
GOOD_HEADS = st.builds(
    lambda lines, target: head(b"Host: localhost", *lines, target=target),
    st.lists(st.just(RIGHT) | LINES, max_size=2),
    st.sampled_from(sorted(HOT)),
)
HEADS = ANY_HEADS | GOOD_HEADS


@given(st.lists(st.tuples(HEADS, st.booleans()), min_size=1, max_size=3))
def test_every_answer_is_that_of_h11(sent: list[tuple[bytes, bool]]) -> None:
    """Byte for byte, with what the application sees, who hangs up, and whose slot is idle."""
    master = FakeMaster(clock=StillClock())
    try:
        short, long = short_and_long(master.app, sent)
        assert short.all == long.all
    finally:
        master.server.close()


@given(st.data())
def test_what_is_plain_h11_reads_alike(data: st.DataObject) -> None:
    """However a plain head is damaged: it is not plain any more, or it is another whole request."""
    kinds = [b"Host: x", RIGHT, b"Accept: */*", b"Connection: keep-alive", b"User-Agent: curl/8"]
    text = bytearray(head(*data.draw(st.permutations(kinds)), target=data.draw(TARGETS)))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        more = data.draw(st.binary(max_size=2) | st.sampled_from([b"\r\n", b": ", b" ", b"\n"]))
        text[at : at + data.draw(st.integers(0, 2))] = more
    found = plain_request(bytes(text))
    if found is not None:
        reader = h11.Connection(h11.SERVER)
        reader.receive_data(bytes(text))
        asked = reader.next_event()
        assert isinstance(asked, h11.Request)
        assert (asked.method, asked.http_version) == (b"GET", b"1.1")
        assert (asked.target, [*asked.headers]) == found
        assert isinstance(reader.next_event(), h11.EndOfMessage)
        assert reader.trailing_data == (b"", False)
        assert not reader.they_are_waiting_for_100_continue
        assert reader.their_state is h11.DONE


@pytest.mark.parametrize(
    "lines",
    [
        (b"Host: master", b"User-Agent: curl/8.5.0", b"Accept: */*", RIGHT),
        (
            *(b"Host: master:8888", b"Accept: */*", b"Accept-Encoding: gzip, deflate"),
            *(b"Connection: keep-alive", b"User-Agent: python-httpx/0.28.1", RIGHT),
        ),
        (
            *(b"Host: nm-12:40001", b"User-Agent: Prometheus/3.1.0"),
            b"Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.4,*/*;q=0.1",
            *(b"Accept-Encoding: gzip", b"Authorization: Bearer 0123456789"),
            b"X-Prometheus-Scrape-Timeout-Seconds: 10",
        ),
        (b"Host: triton", b"X-TARN-Token: 0123456789"),
    ],
    ids=["curl", "httpx", "prometheus", "haproxy"],
)
def test_what_clients_send_is_plain(lines: tuple[bytes, ...]) -> None:
    """And it is answered in one piece, without h11."""
    for target in HOT:
        assert plain_request(head(*lines, target=target)) is not None
    app = FakeMaster(api_token=None)
    app.server.close()
    short, long = short_and_long(app.app, [(head(*lines), True)])
    assert (short.wire.writes, long.wire.writes) == (1, 2)


def test_a_long_head_is_left_to_h11() -> None:
    """Which bounds it."""
    fits = head(b"Host: x", b"Cookie: " + b"x" * 3000)
    assert plain_request(fits) is not None
    assert plain_request(fits.replace(b"x" * 3000, b"x" * 5000)) is None


VALUES = st.sampled_from([b"a", b"a b", b"", b" a", b"a ", b"a\r\nSet-Cookie: b", b"a\nb", b"\xe9"])
NAMES = st.sampled_from(
    [b"content-type", b"X-A", b"etag", b"connection", b"transfer-encoding", b"host", b"a b", b""]
)


@given(
    status=st.sampled_from([200, 204, 304, 401, 429, 503, 599]),
    headers=st.lists(st.tuples(NAMES, VALUES | st.just(b"chunked") | st.just(b"close"))),
    lengths=st.lists(st.sampled_from([b"2", b"02", b"3", b"x"]), max_size=2) | st.just([b"2"]),
    more=st.booleans(),
)
def test_what_is_written_h11_writes_alike(
    status: int, headers: list[tuple[bytes, bytes]], lengths: list[bytes], more: bool
) -> None:
    """No header of an answer can become two, and no length can be wrong."""
    every = [*headers, *((b"content-length", length) for length in lengths)]
    start = {"type": "http.response.start", "status": status, "headers": every}
    end = {"type": "http.response.body", "body": b"ok", "more_body": more}
    whole = plain_answer(start, end)
    if whole:
        writer = h11.Connection(h11.SERVER)
        writer.receive_data(head(b"Host: x"))
        assert isinstance(writer.next_event(), h11.Request)
        assert isinstance(writer.next_event(), h11.EndOfMessage)
        reason = connections.STATUS_PHRASES[status]
        said = writer.send(h11.Response(status_code=status, headers=every, reason=reason))
        end_of_it = (writer.send(h11.Data(data=b"ok")), writer.send(h11.EndOfMessage()))
        assert whole == b"".join((said or b"", *(one or b"" for one in end_of_it)))
        assert writer.our_state is h11.DONE


def test_an_ordinary_answer_is_plain() -> None:
    """The law above would hold for a writer that leaves everything to h11, too."""
    start = {"type": "", "status": 503, "headers": [(b"content-length", b"2")]}
    end = {"type": "http.response.body", "body": b"ok"}
    first = [(b"date", b"today")]
    assert plain_answer(start, end, first) == (
        b"HTTP/1.1 503 Service Unavailable\r\ndate: today\r\ncontent-length: 2\r\n\r\nok"
    )


PLAIN = head(b"Host: master")
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
OK = {"type": "http.response.body", "body": b"ok"}


async def _fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError("on purpose")


async def _streams(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"one", b"two", b""):
        await send({"type": "http.response.body", "body": part, "more_body": bool(part)})


async def _reads(_scope: Scope, receive: Receive, send: Send) -> None:
    body = await receive()
    await send({**START, "headers": [(b"content-length", b"%d" % len(repr(body)))]})
    await send({**OK, "body": repr(body).encode()})


async def _hangs_up(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({**START, "headers": [*START["headers"], (b"connection", b"close")]})  # type: ignore[misc]
    await send(OK)


async def _promises_more(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({**START, "headers": [(b"content-length", b"9")]})
    await send(OK)


@pytest.mark.parametrize("app", [_fails, _streams, _reads, _hangs_up, _promises_more])
def test_an_answer_that_is_not_plain_is_that_of_h11(app: App) -> None:
    """Whatever the application does; and the next request is answered alike."""
    short, long = short_and_long(app, [(PLAIN, True), (PLAIN, False), (PLAIN, True)])
    assert short.all == long.all
    assert short.scopes


async def _half(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send(START)
    raise RuntimeError("on purpose")


def test_an_answer_that_ends_before_its_body_is_a_500() -> None:
    """Nothing of it was written yet."""
    short, _long = short_and_long(_half, [(PLAIN, True)])
    assert short.wire.written.startswith(b"HTTP/1.1 500 ")
    assert short.wire.closed


class Held:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await self.go.wait()
        await send(START)
        await send(OK)


def test_the_slot_is_busy_while_the_answer_is_made() -> None:
    """A busy connection is never closed to make room."""

    async def scene() -> None:
        line = Line(app := Held())
        assert line.is_idle
        line.says(PLAIN)
        assert not line.is_idle
        app.go.set()
        await line.settled()
        assert line.is_idle
        assert line.http.timeout_keep_alive_task is not None
        line.http.timeout_keep_alive_task.cancel()

    asyncio.run(scene())


def test_what_comes_early_is_answered_second_and_not_read_further() -> None:
    """No client makes the server collect requests."""

    async def scene() -> None:
        line = Line(app := Held())
        line.says(PLAIN)
        line.says(PLAIN + PLAIN)
        assert line.wire.paused
        assert len(line.scopes) == 0
        app.go.set()
        await line.settled()
        assert line.wire.written.count(b"HTTP/1.1 200 OK\r\n") == 3
        assert not line.wire.paused

    asyncio.run(scene())


def test_a_server_that_ends_answers_and_hangs_up() -> None:
    """What has begun is answered."""

    async def scene() -> None:
        line = Line(app := Held())
        line.says(PLAIN)
        line.http.shutdown()
        assert not line.wire.closed
        app.go.set()
        await line.settled()
        assert line.wire.written.endswith(b"\r\n\r\nok")
        assert line.wire.closed

    asyncio.run(scene())


def test_who_left_gets_nothing() -> None:
    """And harms nobody: the answer is made, and dropped."""

    async def scene() -> None:
        line = Line(app := Held())
        line.says(PLAIN)
        line.http.connection_lost(None)
        app.go.set()
        await line.settled()
        assert line.wire.written == b""
        assert len(line.slots) == 0

    asyncio.run(scene())


def test_who_does_not_read_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer waits while what was written before is not taken, but not for ever."""
    monkeypatch.setattr(connections, "TAKEN_WITHIN_S", 0.01)

    async def scene() -> None:
        line = Line(app := Held())
        line.http.pause_writing()
        app.go.set()
        line.says(PLAIN)
        await line.settled()
        assert line.wire.closed
        assert line.wire.written == b""

    asyncio.run(scene())
