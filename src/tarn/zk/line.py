"""The wire of one session: it notes why it cannot connect, and can be cut."""

import logging
import socket
import threading
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

__all__ = ["Line", "silent_logger"]


class Line(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threads and sockets, with two things of our own.

    One server that swallows packets takes only its share of the session's life, so that the
    others are tried before the session is over. And a line that was cut stays cut: closing a
    client then ends no session, since nothing can reach the servers any more.
    """

    def __init__(self, connect_s: float) -> None:
        super().__init__()
        self._connect_s = connect_s
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self.last = ""
        """Why the last attempt to connect failed; empty after one that did not."""

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect to one server, as kazoo asks for it.

        Raises:
            OSError: The server could not be reached, or the line was cut.
        """
        if self._is_cut:
            raise ConnectionAbortedError("the line was cut")
        kwargs["timeout"] = min(self._connect_s, kwargs.get("timeout") or self._connect_s)
        try:
            made = super().create_connection(*args, **kwargs)
        except Exception as error:
            self.last = _why(error, kwargs.get("address"))
            raise
        self.last = ""
        with self._guard:
            self._socket = made
            cut = self._is_cut
        if cut:
            _shut(made)
        return made

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


def _why(error: BaseException, address: Any) -> str:
    place = f" at {address[0]}:{address[1]}" if isinstance(address, tuple) else ""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{reason}{place}"
