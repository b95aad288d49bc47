"""Kazoo's connections: they record why they failed, and can be cut."""

import functools
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from tarn.domain.endpoint import host_port

__all__ = ["KazooHandler", "silent_logger"]


class KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threads, with connections of our own, which can be cut.

    Args:
        connect_s: Seconds for one attempt to connect.
        tls: The TLS context; None for plain connections.
        over: Called on the thread of a connection when it ends for good.
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
        # Why the last attempt to connect failed; empty after one that did not.
        self.last = ""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_options: Any
    ) -> socket.socket:
        """Connect to one server, as kazoo asks for it: resolved address, name, seconds.

        Raises:
            OSError: The server could not be reached or is not trusted, or `cut` was called.
        """
        if self._is_cut:
            raise ConnectionAbortedError("the connection was cut")
        try:
            # A server that drops packets gets only its share of the session's timeout, so that the
            # others are tried before the session ends.
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
        # Kazoo's own function would also trust the system's authorities besides the given ones, and
        # leave the socket of a failed handshake to the garbage collector.
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
        """Start the thread of a connection, and report when it ends for good."""

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
        """Stop all traffic for good, in both directions. Any thread; never blocks."""
        # Closing a client then does not end its session: nothing reaches the servers any more.
        with self._guard:
            self._is_cut, made = True, self._socket
        if made is not None:
            _shut(made)


def silent_logger() -> logging.Logger:
    """Return a logger that drops everything."""
    # At level DEBUG kazoo logs every request, with the password of a digest; above it, every
    # attempt to connect. What people should know is in our errors.
    logger = logging.Logger("tarn.zk.kazoo", logging.CRITICAL)  # noqa: LOG001 (outside the tree)
    logger.addHandler(logging.NullHandler())
    return logger


def _shut(made: socket.socket) -> None:
    try:
        made.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
