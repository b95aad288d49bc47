"""A server of sockets, for answers that no HTTP server would give."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tarn.domain import Endpoint

__all__ = ["server"]

DEADLINE_S = 10.0


@contextmanager
def server(serve: Callable[[socket.socket], None], threads: int = 1) -> Iterator[Endpoint]:
    """A port on which *serve* gets each connection; as many at once as there are threads."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(ConnectionError):
                    serve(connection)

        workers = [threading.Thread(target=run) for _ in range(threads)]
        for worker in workers:
            worker.start()
        port = listener.getsockname()[1]
        try:
            yield Endpoint("127.0.0.1", port, 1, port)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for worker in workers:
                worker.join(DEADLINE_S)
