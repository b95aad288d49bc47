"""What the client's tests stand on: tensors, a master with a view, and a server that misbehaves."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import attrs
import numpy as np
from fake_master import FakeMaster, instance, view
from tritonclient.http import InferInput

from tarn.domain import Endpoint
from tarn.testing.fake_triton import FakeTriton

Behaviour = Callable[[socket.socket, bytes], None]


def tensor(number: float, count: int = 1) -> list[InferInput]:
    """The inputs of the echo model."""
    one = InferInput("IN", [count], "FP32")
    one.set_data_from_numpy(np.full(count, number, np.float32))
    return [one]


def asks(client: Any, number: float, **named: Any) -> float:
    """Infer, and return what came back."""
    return float(client.infer("echo", tensor(number), **named).as_numpy("OUT")[0])


def publish(master: FakeMaster, endpoints: Iterable[Endpoint], revision: int, **more: Any) -> None:
    """Let *master* show a fleet with one ready instance at each endpoint."""
    fleet = tuple(instance(e.http_port, endpoint=e) for e in endpoints)
    shown = attrs.evolve(view(fleet, revision), **more)
    master.publish(instances=fleet, view=shown, desired=len(fleet), epoch=shown.epoch)


def http_of(tritons: Iterable[FakeTriton]) -> list[str]:
    """The addresses of fake Tritons."""
    return [triton.endpoint.http for triton in tritons]


class Misbehaving:
    """A server on 127.0.0.1 that does with each request what it is told.

    Args:
        behaviours: For the first request, the second, and so on; the last one stays.
    """

    def __init__(self, *behaviours: Behaviour) -> None:
        self._behaviours = list(behaviours)
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name="misbehaving")]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(5)
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), name="misbehaving-one")
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := _request(sock):
                self.requests.append(request)
                todo = self._behaviours[0]
                if len(self._behaviours) > 1:
                    self._behaviours.pop(0)
                todo(sock, request)


def _request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        block = sock.recv(65536)
        if not block:
            return b""
        data += block
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def resets(sock: socket.socket, _request: bytes) -> None:
    """Reset the connection before a byte of the answer."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def says(text: bytes, *, then_close: bool = False) -> Behaviour:
    """Send *text*, whatever was asked."""

    def behave(sock: socket.socket, _request: bytes) -> None:
        sock.sendall(text)
        if then_close:
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    return behave


def answer(number: float, status: str = "200 OK") -> bytes:
    """An echo's answer in JSON."""
    output = {"name": "OUT", "datatype": "FP32", "shape": [1], "data": [number]}
    body = json.dumps({"model_name": "echo", "outputs": [output]}).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
