"""The listening socket, and the thread that serves it."""

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Protocol, cast

import uvicorn
from starlette.types import Receive, Scope, Send

from tarn.descriptors import MOST_CONNECTIONS
from tarn.domain.endpoint import host_port
from tarn.errors import LaunchError
from tarn.http.connection import ServerConnection
from tarn.tls.acceptor import ConnectionSlot, ConnectionSlots, TlsAcceptor
from tarn.tls.contexts import MasterTls

__all__ = ["App", "HttpServer", "config_of", "new_loop"]


BACKLOG = 1024
KEEP_ALIVE_S = 30
START_WITHIN_S = 10.0
# For unfinished answers when the server ends; then they are cut.
CLOSE_WITHIN_S = 0.5
LARGEST_HEAD = 64 * 1024


class App(Protocol):
    """An ASGI application that can end its own streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...

    def close(self) -> None:
        """End the streams, which would keep connections busy; any thread, idempotent."""
        ...


class HttpServer:
    """Listens from the start, serves from ``start`` to ``close``.

    Args:
        host: Address to listen on, or its name.
        port: 0 for a free one.
        preferred: With port 0, the port to take if it is free, so that clients of a restarted
            master find it again.
        advertised: The host that clients should use; by default *host*.
        head_within_s: Seconds for the TLS handshake, and for the head of a request.
        tls: The contexts to listen with, or one for all clients; None for plain HTTP.
        most: How many connections may be open; see `ConnectionSlots`.
        trusted: Returns whether connections from an address are kept from the start.

    Raises:
        LaunchError: The port is taken (TARN-3103), or the address is not this machine's.
    """

    def __init__(  # noqa: PLR0913 (the address, and options by keyword)
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        preferred: int | None = None,
        advertised: str = "",
        head_within_s: float = 10.0,
        tls: MasterTls | ssl.SSLContext | None = None,
        most: int = MOST_CONNECTIONS,
        trusted: Callable[[str], bool] = lambda _peer: False,
    ) -> None:
        self._places = ConnectionSlots(most, trusted)
        self._socket = _listen(host, port, preferred)
        self.port: int = self._socket.getsockname()[1]
        # The *preferred* port if it was not free, else None.
        self.displaced = preferred if not port and preferred not in (None, self.port) else None
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{host_port(advertised or host, self.port)}"
        self._tls = MasterTls(tls) if isinstance(tls, ssl.SSLContext) else tls
        self._head_within_s = head_within_s
        self._app: App | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()

    def start(self, app: App) -> str:
        """Serve *app* on a thread; return the base URL once it answers.

        Raises:
            LaunchError: It did not start within ten seconds.
        """
        self._app = app
        self._uvicorn = server = _Uvicorn(config_of(app), self._settled, self._head_within_s)
        server.acceptor = TlsAcceptor(
            self._socket,
            None if self._tls is None else self._tls.of,
            server.connection,
            self._head_within_s,
            self.url,
            self._places,
        )
        self._thread = threading.Thread(target=self._run, args=(server,), name="http", daemon=True)
        self._thread.start()
        self._settled.wait(START_WITHIN_S)
        if not server.started:
            self.close()
            raise LaunchError("http", "the HTTP server did not come up", where=self.url)
        return self.url

    def close(self) -> None:
        """End within a second, even with open streams. Idempotent."""
        if self._app is not None:
            self._app.close()
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        self._socket.close()

    def _run(self, server: uvicorn.Server) -> None:
        try:
            # uvicorn raises SystemExit when it cannot start; start() then raises LaunchError.
            with contextlib.suppress(SystemExit), asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(server.serve(sockets=[]))
        finally:
            self._settled.set()


class _Uvicorn(uvicorn.Server):
    """A uvicorn whose connections a `TlsAcceptor` accepts, and which closes idle ones.

    It handles no signals, since uvicorn does so only on the main thread.
    """

    def __init__(
        self, config: uvicorn.Config, settled: threading.Event, head_within_s: float
    ) -> None:
        super().__init__(config)
        self._serves = settled
        self._head_within_s = head_within_s
        self._watch: asyncio.Task[None] | None = None
        # Accepts in place of uvicorn; must be set before this serves.
        self.acceptor: TlsAcceptor | None = None

    @property
    def connections(self) -> list[ServerConnection]:
        """The open connections."""
        every = self.server_state.connections
        return [connection for connection in every if isinstance(connection, ServerConnection)]

    def connection(self, place: ConnectionSlot) -> asyncio.Protocol:
        """Return the HTTP protocol of the connection with the slot *place*."""
        loop = asyncio.get_running_loop()
        made = ServerConnection(self.config, self.server_state, self.lifespan.state, loop)
        made.place = place
        return made

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.acceptor is not None:
            self.acceptor.open()
        self._watch = asyncio.create_task(_close_idle_connections(self, self._head_within_s))
        self._serves.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self.acceptor is not None:
            await self.acceptor.close()
        for connection in self.connections:
            # An orderly end of TLS waits for the peer, and an idle client reads nothing.
            if connection.is_idle and connection.transport.get_extra_info("ssl_object"):
                connection.transport.abort()
        await super().shutdown(sockets)
        for connection in self.connections:
            connection.transport.abort()
        await asyncio.sleep(0)  # a transport ends in the next turn, which the loop must still take


# uvicorn limits only the pause between two requests: a client that sends a byte a minute, or reads
# nothing, would hold its connection for ever.
async def _close_idle_connections(server: _Uvicorn, head_within_s: float) -> None:
    """Close connections that have waited for a whole head for *head_within_s* seconds.

    A closing connection has three times as long to take what was sent. A connection that is being
    answered is left alone: the body and each part of the answer have their own deadlines.
    """
    loop = asyncio.get_running_loop()
    since: dict[ServerConnection, float] = {}
    while True:
        await asyncio.sleep(head_within_s / 4)
        now_s = loop.time()
        waiting = [connection for connection in server.connections if connection.waits]
        since = {connection: since.get(connection, now_s) for connection in waiting}
        for connection, start_s in since.items():
            patience = 3 if connection.transport.is_closing() else 1
            if now_s - start_s >= patience * head_within_s:
                connection.transport.abort()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop where that is installed, else one of asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 (optional)
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _listen(host: str, port: int, preferred: int | None) -> socket.socket:
    """Return a listening socket."""
    first = preferred if preferred and not port else port
    for candidate in dict.fromkeys((first, port)):
        try:
            found = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise _taken(host, candidate, error) from error
        # An IPv4 address if the name has one.
        family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
        # asyncio sets TCP_NODELAY only on connections of a socket with this protocol number;
        # without the option, p50 is 44 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            # At once: two sockets may bind one port, but only one of them can listen.
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if candidate == port:
                raise _taken(host, port, error) from error
        else:
            listener.setblocking(False)  # noqa: FBT003 (the standard library's signature)
            return listener
    raise AssertionError(host)  # pragma: no cover (the last candidate returned or raised)


def _taken(host: str, port: int, error: OSError) -> LaunchError:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return LaunchError(
            "http",
            f"the master's HTTP service cannot listen: {error.strerror}",
            where=host,
            right="The name must lead to an address of this machine.",
            next_step="Fix name resolution or /etc/hosts on this machine",
        )
    return LaunchError(
        "http",
        f"the master's HTTP service cannot listen: {error.strerror}",
        code="TARN-3103",
        where=host_port(host, port),
        next_step="Set api.port to another port, or to 0 for a free one",
    )


def config_of(app: App) -> uvicorn.Config:
    """Return how uvicorn serves *app*."""
    return uvicorn.Config(
        app,
        access_log=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        # With h11: httptools, which uvicorn prefers, does not limit the size of a head, and takes
        # malformed heads that h11 refuses.
        http=ServerConnection,
        interface="asgi3",
        lifespan="on",
        log_config=None,
        log_level="warning",
        loop="asyncio",
        proxy_headers=False,  # an address in a header proves nothing
        server_header=False,
        timeout_graceful_shutdown=cast("int", CLOSE_WITHIN_S),  # uvicorn takes fractions too
        timeout_keep_alive=KEEP_ALIVE_S,
        ws="none",
    )
