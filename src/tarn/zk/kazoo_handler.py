"""The wire of one session: it notes why it cannot connect, and can be cut."""

import functools
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from tarn.domain.address import host_port

__all__ = ["KazooHandler", "silent_logger"]


class KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threads and sockets, with two things of our own.

    The connection is ours: kazoo would trust every authority that the system trusts besides the one
    that is named, and leave the socket of a failed handshake to the garbage collector.
    One server that swallows packets takes only its share of the session's life, so that the
    others are tried before the session is over. And a line that was cut stays cut: closing a
    client then ends no session, since nothing can reach the servers any more.
    """

    def __init__(
        self, connect_s: float, tls: ssl.SSLContext | None, over: Callable[[], None]
    ) -> None:
        super().__init__()
        self._over = over
        self._connect_s = connect_s
        self._tls = tls
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self.last = ""
        """Why the last attempt to connect failed; empty after one that did not."""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_options: Any
    ) -> socket.socket:
        """Connect to one server, as kazoo asks for it: resolved address, name, seconds.

        Raises:
            OSError: The server could not be reached or is not believed, or the line was cut.
        """
        if self._is_cut:
            raise ConnectionAbortedError("the connection was cut")
        try:
            made = self._connect(address, hostname, min(self._connect_s, timeout))
        except OSError as error:
            self.last = f"{error.strerror or error} at {host_port(*address[:2])}"
            raise
        self.last = ""
        with self._guard:
            self._socket = made
            cut = self._is_cut
        if cut:
            _shut(made)
        return made

    def _connect(self, address: tuple[str, int], hostname: str, timeout_s: float) -> socket.socket:
        made = socket.create_connection(address, timeout_s)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return made
            return self._tls.wrap_socket(made, server_hostname=hostname)
        except OSError:
            made.close()
            raise

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        """Start the one thread that carries a connection, and tell when it gives up for good."""

        @functools.wraps(func)
        def carry(*args: Any, **kwargs: Any) -> None:
            try:
                func(*args, **kwargs)
            finally:
                self._over()

        thread = super().spawn(carry, *args, **kwargs)
        thread.name = "zookeeper connection"
        return thread

    def cut(self) -> None:
        """Let nothing pass any more, in either direction. Any thread; never blocks."""
        with self._guard:
            self._is_cut, made = True, self._socket
        if made is not None:
            _shut(made)


def silent_logger() -> logging.Logger:
    """Return a logger that drops everything.

    At its debug level kazoo logs every request, and with it the password of a digest; above it
    every attempt to connect. What a person should know is in our errors.
    """
    logger = logging.Logger("tarn.zk.kazoo", logging.CRITICAL)  # noqa: LOG001 (outside the tree)
    logger.addHandler(logging.NullHandler())
    return logger


def _shut(made: socket.socket) -> None:
    try:
        made.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
