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
from tarn.domain.address import host_port
from tarn.errors import LaunchError
from tarn.http.connection_slots import ConnectionSlot, ConnectionSlots
from tarn.http.idle_timeout import close_idle_connections, is_idle
from tarn.http.tls import MasterTls
from tarn.http.tls_acceptor import ServerConnection, TlsAcceptor

__all__ = ["App", "HttpServer"]

BACKLOG = 1024
KEEP_ALIVE_S = 30
START_WITHIN_S = 10.0
CLOSE_WITHIN_S = 0.5
"""For answers in work when the server ends; then they are cut."""
LARGEST_HEAD = 64 * 1024


class App(Protocol):
    """An ASGI application that can end its own streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...

    def close(self) -> None:
        """End what would keep connections busy; any thread, idempotent."""
        ...


class HttpServer:
    """Listens from the start, serves from ``start`` to ``close``.

    Args:
        host: Address to listen on, or a name of it.
        port: 0 takes a free one.
        preferred: With port 0: taken when it is free, so that a restarted master is found again.
        advertised: The host that others should use; by default *host*.
        head_within_s: Seconds for the head of a request, before the connection is closed; as many
            for the handshake of TLS before it.
        tls: Of one context, everybody is shown it; None: plain HTTP.
        most: Connections that it holds; see `ConnectionSlots`.
        trusted: Says of an address that its connections are kept from the start.

    Raises:
        LaunchError: The fixed port, or the address, is taken (TARN-3103), or is not this machine's.
    """

    def __init__(  # noqa: PLR0913 (the place, and by keyword what may be besides)
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
        self.displaced = preferred if not port and preferred not in (None, self.port) else None
        """The *preferred* port, where it was not free; None: it was, or none was preferred."""
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{host_port(advertised or host, self.port)}"
        self._tls = MasterTls(tls) if isinstance(tls, ssl.SSLContext) else tls
        self._head_within_s = head_within_s
        self._app: App | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()

    def start(self, app: App) -> str:
        """Serve *app* on the thread ``http``; return the base URL once it answers.

        Raises:
            LaunchError: It did not come up within ten seconds.
        """
        self._app = app
        self._uvicorn = _Uvicorn(_config(app), self._settled, self._head_within_s)
        self._uvicorn.accept_by(
            lambda made: TlsAcceptor(
                self._socket,
                None if self._tls is None else self._tls.of,
                made,
                self._head_within_s,
                self.url,
                self._places,
            )
        )
        self._thread = threading.Thread(
            target=self._run, args=(self._uvicorn,), name="http", daemon=True
        )
        self._thread.start()
        self._settled.wait(START_WITHIN_S)
        if not self._uvicorn.started:
            self.close()
            raise LaunchError("http", "the HTTP server did not come up", where=self.url)
        return self.url

    def close(self) -> None:
        """End within a second, with streams still open too. Idempotent."""
        if self._app is not None:
            self._app.close()
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        self._socket.close()

    def _run(self, server: uvicorn.Server) -> None:
        try:
            # A failed start is a SystemExit in uvicorn; here it is told by start().
            with contextlib.suppress(SystemExit):
                asyncio.run(server.serve(sockets=[]))
        finally:
            self._settled.set()


class _Uvicorn(uvicorn.Server):
    """A uvicorn that says when it serves, lets a `TlsAcceptor` accept, and hangs up on idlers.

    It takes no signals: uvicorn takes them on the main thread only.
    """

    def __init__(
        self, config: uvicorn.Config, settled: threading.Event, head_within_s: float
    ) -> None:
        super().__init__(config)
        self._serves = settled
        self._head_within_s = head_within_s
        self._watch: asyncio.Task[None] | None = None
        self._acceptor: TlsAcceptor | None = None

    def accept_by(
        self, acceptor: Callable[[Callable[[ConnectionSlot], asyncio.Protocol]], TlsAcceptor]
    ) -> None:
        """Let the `TlsAcceptor` that *acceptor* makes accept in uvicorn's place.

        To be called before it serves.
        """

        def made(place: ConnectionSlot) -> asyncio.Protocol:
            state, loop = self.lifespan.state, asyncio.get_running_loop()
            connection = ServerConnection(self.config, self.server_state, state, loop)
            connection.place = place
            return connection

        self._acceptor = acceptor(made)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._acceptor is not None:
            self._acceptor.open()
        self._watch = asyncio.create_task(close_idle_connections(self, self._head_within_s))
        self._serves.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in tuple(self.server_state.connections):
            # Its goodbye would be waited for: a client that rests reads nothing.
            if is_idle(connection) and connection.transport.get_extra_info("ssl_object"):
                connection.transport.abort()
        await super().shutdown(sockets)


def _listen(host: str, port: int, preferred: int | None) -> socket.socket:
    """Return a listening socket; only with IPPROTO_TCP do its connections get TCP_NODELAY.

    asyncio looks at the protocol number before it sets the option; without it, p50 is 44 ms.
    """
    first = preferred if preferred and not port else port
    for candidate in dict.fromkeys((first, port)):
        family, place = _resolved(host, candidate)
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            # At once: two sockets may bind one port, but only one of them may listen.
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if candidate == port:
                raise _taken(host, port, error) from error
        else:
            listener.setblocking(False)  # noqa: FBT003 (the standard library's signature)
            return listener
    raise AssertionError(host)  # pragma: no cover (the last candidate returned or raised)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[object, ...]]:
    """Return where *host* is, of version 4 where it has such an address.

    Raises:
        LaunchError: Nobody knows the name.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise _taken(host, port, error) from error
    family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, place


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


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        access_log=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        http=ServerConnection,  # by h11: the other one, taken where it is installed, bounds no head
        interface="asgi3",
        lifespan="on",
        log_config=None,
        log_level="warning",
        loop="asyncio",
        proxy_headers=False,  # an address in a header is proof of nothing
        server_header=False,
        timeout_graceful_shutdown=cast("int", CLOSE_WITHIN_S),  # any number of seconds will do
        timeout_keep_alive=KEEP_ALIVE_S,
        ws="none",
    )
