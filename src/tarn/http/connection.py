"""HTTP/1.1 of one connection: h11's, with a short way for plain requests.

Load balancers and scrapers ask for the same small pages many times a second. h11 and uvicorn need
more time for such a head and its answer than the application needs to make it. So a plain head is
read here by one regular expression, and a plain answer is written in one piece. The application is
the same: it admits, refuses and logs as always.

Everything else is left to h11: another head, an answer that is not plain, and data that arrives
before the answer is complete. h11 then reads the plain head late, and continues.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any

import h11
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from tarn.tls.acceptor import PLACE, ConnectionSlot
from tarn.tls.contexts import common_name

__all__ = ["HOT", "ServerConnection", "plain_answer", "plain_request"]

# Only a day, and without subdomains: a browser applies it to every port of this host, where other
# programs may listen.
HSTS = (b"strict-transport-security", b"max-age=86400")
# For a part of an answer: by then 64 KiB and the buffers of the kernel are full.
TAKEN_WITHIN_S = 30.0

Headers = list[tuple[bytes, bytes]]

# The pages that are asked for all the time. Their answers have a Content-Length.
HOT = frozenset({b"/health", b"/instances", b"/livez", b"/metrics", b"/readyz"})
LONGEST_PLAIN = 4096
# A head with any other name is not plain, so none of these may say how long a request is, or what
# the connection becomes.
ORDINARY = frozenset(
    {
        *(b"accept", b"accept-encoding", b"accept-language", b"authorization", b"cache-control"),
        *(b"cookie", b"host", b"pragma", b"user-agent", b"x-prometheus-scrape-timeout-seconds"),
        *(b"x-request-id", b"x-tarn-session", b"x-tarn-token", b"x-tarn-user"),
    }
)
# What clients of HTTP/1.0 began to send, and those of HTTP/1.1 repeat; it changes nothing.
KEPT_OPEN = (b"connection", b"keep-alive")
# One blank after the colon and none at the end: there is nothing to strip.
_FIELD = rb"([A-Za-z0-9-]++): ([\x21-\x7e]++(?: ++[\x21-\x7e]++)*+)\r\n"
_FIELDS = re.compile(_FIELD)
_REQUEST = re.compile(rb"GET (/[a-z]++) HTTP/1\.1\r\n((?:" + _FIELD + rb")++)\r\n")
_ANSWER = re.compile(rb"(?:" + _FIELD + rb")++")
# In an answer they change how it is written.
_FRAMING = (b"connection", b"host", b"transfer-encoding")
_WITHOUT_BODY = (204, 304)


def plain_request(data: bytes) -> tuple[bytes, Headers] | None:
    """Return path and headers of *data*, which is exactly one plain head; else None."""
    found = _REQUEST.fullmatch(data) if len(data) <= LONGEST_PLAIN else None
    if found is None or found[1] not in HOT:
        return None
    headers = [(name.lower(), value) for name, value in _FIELDS.findall(found[2])]
    names = [name for name, value in headers if (name, value) != KEPT_OPEN]
    return (found[1], headers) if names.count(b"host") == 1 and {*names} <= ORDINARY else None


def plain_answer(
    start: Mapping[str, Any], end: Mapping[str, Any], first: Iterable[tuple[bytes, bytes]] = ()
) -> bytes:
    """Return the bytes of the whole answer, or nothing if it is not plain.

    Args:
        start: Its ASGI message ``http.response.start``.
        end: Its only ``http.response.body``.
        first: Headers to write before its own.
    """
    status, body = start["status"], end.get("body", b"")
    if end["type"] != "http.response.body" or end.get("more_body") or status in _WITHOUT_BODY:
        return b""
    headers = [*first, *start.get("headers", ())]
    lengths = [value for name, value in headers if name == b"content-length"]
    if lengths != [b"%d" % len(body)] or any(name in _FRAMING for name, _ in headers):
        return b""
    head = b"".join([b"%s: %s\r\n" % one for one in headers])
    if not _ANSWER.fullmatch(head) or head.count(b"\r\n") != len(headers):
        return b""
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, STATUS_PHRASES[status], head, body)


class ServerConnection(H11Protocol):
    """HTTP/1.1 of one connection, which keeps the state of its slot up to date."""

    place: ConnectionSlot

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request
        return cycle is None or cycle.response_complete

    @property
    def waits(self) -> bool:
        """Whether it waits for its peer, to send a head or to take the rest."""
        paused = self.timeout_keep_alive_task is not None
        return self.transport.is_closing() or (self.is_idle and not paused)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, after the TLS handshake if there is one."""
        super().connection_made(transport)
        self.flow = _TimedFlow(transport)
        self.place.drop = transport.abort
        behind_tls = transport.get_extra_info("ssl_object") is not None
        proven = common_name(transport.get_extra_info("peercert")) if behind_tls else None
        self.app = _ConnectionApp(self.app, self.place, proven)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the slot back."""
        self.place.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the slot is busy once its head is complete."""
        plain = plain_request(data) if self._is_between_requests() else None
        if plain is not None:
            self._begin(data, *plain)
        else:
            if isinstance(self.cycle, _PlainCycle):
                self.cycle.leave_to_h11()
            super().data_received(data)
        self._settle()

    def on_response_complete(self) -> None:
        """Become idle, or continue with a request that has already arrived."""
        super().on_response_complete()
        self._settle()

    def _is_between_requests(self) -> bool:
        """Return whether the next byte is the first of a head, and nothing is left of the last."""
        idle = self.conn.our_state is self.conn.their_state is h11.IDLE
        fresh = idle and not self.conn.trailing_data[0]
        return fresh and self.is_idle and not self.transport.is_closing()

    def _begin(self, head: bytes, path: bytes, headers: Headers) -> None:
        """Answer a plain request, as `H11Protocol.handle_events` would."""
        self._unset_keepalive_if_required()
        # All that h11 remembers of one request when it reads the next.
        self.conn.their_http_version = b"1.1"
        self.headers = headers
        assert self.scheme is not None
        self.scope = {
            "type": "http",
            "asgi": {"version": self.config.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": "GET",
            "root_path": self.root_path,
            "path": self.root_path + path.decode(),
            "raw_path": self.root_path.encode() + path,
            "query_string": b"",
            "headers": headers,
            "state": self.app_state.copy(),
        }
        self.cycle = _PlainCycle(
            head,
            scope=self.scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _settle(self) -> None:
        if self.is_idle:
            self.place.rest()
        else:
            self.place.work()


class _PlainCycle(RequestResponseCycle):
    """The answer to a plain request, of which h11 knows nothing unless it is needed.

    Args:
        head: The bytes of the request.
        more: What uvicorn's own takes.
    """

    def __init__(self, head: bytes, **more: Any) -> None:
        super().__init__(**more)
        self.more_body = False
        self.message_event.set()
        # Empty once the answer is written, or left to h11.
        self._head = head
        self._start: Any = None

    async def send(self, message: Any) -> None:
        """Take a part of the answer (ASGI); a plain answer is written with its last part."""
        if self._head and message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if self._is_plain() and start is not None:
            whole = plain_answer(start, message, self.default_headers)
            if whole:
                self._write(whole)
                return
        self.leave_to_h11()
        if start is not None:
            await super().send(start)
        await super().send(message)

    def leave_to_h11(self) -> None:
        """Let h11 read the head and write the answer, unless this is done already."""
        if self._head and not self.disconnected:
            self.conn.receive_data(self._head)
            self.conn.next_event()  # the request
            self.conn.next_event()  # its end
        self._head = b""

    def _is_plain(self) -> bool:
        """Return whether the connection is in the state in which the head found it."""
        kept = self.keep_alive and not self.disconnected
        return kept and bool(self._head) and not self.flow.write_paused

    def _write(self, whole: bytes) -> None:
        self._head = b""
        self.transport.write(whole)
        self.response_started = self.response_complete = True
        self.message_event.set()
        self.on_response()


class _TimedFlow(FlowControl):
    """Ends a connection whose client does not read, so that nobody can hold a stream like that."""

    async def drain(self) -> None:
        """Wait until the client has taken enough.

        Raises:
            ClientDisconnect: It did not in time; the connection is aborted.
        """
        try:
            async with asyncio.timeout(TAKEN_WITHIN_S):
                await super().drain()
        except TimeoutError as error:
            self._transport.abort()
            raise ClientDisconnect from error


class _ConnectionApp:
    """The application of one connection; it adds the connection's slot to the scope.

    With TLS it also adds ASGI's extension ``tls``, with the *proven* name of the client, and HSTS
    to the answer. *proven* is None for plain HTTP, and empty without a certificate.
    """

    def __init__(self, app: ASGIApp, place: ConnectionSlot, proven: str | None) -> None:
        self._app, self._place, self._proven = app, place, proven

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PLACE] = self._place
        if self._proven is None:
            await self._app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), HSTS]
            await send(message)

        tls = {"client_cert_name": self._proven or None}
        scope["extensions"] = {**scope.get("extensions", {}), "tls": tls}
        await self._app(scope, receive, secured)
