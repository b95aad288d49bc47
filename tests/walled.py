"""Clients behind a real firewall: a network namespace from which only some servers are reached.

Linux refuses, or drops, what such a client sends elsewhere; nothing in the client knows of it.
Servers that it may reach are held open inside by a process, whose sockets are served out here.
Needs root, and `nsenter` and `unshare` (util-linux).
"""

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tarn_plugins.cli.sandbox.daemons import daemons, sockets
from tarn_plugins.cli.sandbox.options import SandboxOptions

Address = tuple[str, int]

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CHUNK = 65536


class Wall:
    """A namespace from which *open_to* is reached, and nothing else.

    Args:
        folder: For the program that runs inside.
        open_to: Addresses and ports; each must be one of this machine's loopback.
    """

    def __init__(self, folder: Path, open_to: Iterable[Address]) -> None:
        addresses = tuple(open_to)
        here, there = socket.socketpair()
        self._here = here
        with there:
            self._holder = subprocess.Popen(
                ["unshare", "--net", sys.executable, __file__, str(there.fileno())],
                pass_fds=[there.fileno()],
            )
        self._doors = [_Door(self._held("hold", one), one) for one in addresses]
        self.python = str(folder / "walled-python")
        """Runs Python inside: for `House(python=...)`."""
        space = f"/proc/{self._holder.pid}/ns/net"
        text = f'#!/bin/sh\nexec nsenter --net={space} -- {sys.executable} "$@"\n'
        Path(self.python).write_text(text)
        Path(self.python).chmod(0o755)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._here.close()
        for door in self._doors:
            door.close()
        self._holder.wait(10)

    def silence(self, address: Address) -> None:
        """From now on nothing comes back from *address*, where connections were refused before."""
        self._held("silence", address).close()

    def _held(self, what: str, address: Address) -> socket.socket:
        self._here.sendall(f"{what} {address[0]} {address[1]}\n".encode())
        _said, descriptors, _flags, _from = socket.recv_fds(self._here, 1, 1)
        return socket.socket(fileno=descriptors[0])


@contextlib.contextmanager
def wall(folder: Path, options: SandboxOptions) -> Iterator[Wall]:
    """Let a client reach the ResourceManager and HDFS of a sandbox, and none of its nodes."""
    if os.geteuid() != 0 or shutil.which("nsenter") is None or not _may_unshare():
        pytest.skip("needs a network namespace: root, and unshare and nsenter of util-linux")
    near = [one for one in daemons(options, "") if one.kind in ("rm", "nn", "dn")]
    with Wall(folder, [each for one in near for each in sockets(one, options)]) as made:
        yield made


def _may_unshare() -> bool:
    return subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0


class _Door:
    """Serves one listening socket of the inside with connections to the real server."""

    def __init__(self, listener: socket.socket, address: Address) -> None:
        self._listener, self._address = listener, address
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._serve, name=f"door-{address}")]
        self._threads[0].start()

    def close(self) -> None:
        for each in (self._listener, *self._open):
            _cut(each, socket.SHUT_RDWR)
        for thread in self._threads:  # a connection that was just taken is in it by its end
            thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._carry, args=(inner,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _carry(self, inner: socket.socket) -> None:
        """Hand on both ways until both ends are over."""
        with inner, contextlib.suppress(OSError), socket.create_connection(self._address) as outer:
            self._open |= {inner, outer}
            back = threading.Thread(target=_pour, args=(outer, inner), daemon=True)
            back.start()
            _pour(inner, outer)
            back.join()
            self._open -= {inner, outer}


def _pour(source: socket.socket, sink: socket.socket) -> None:
    """Hand on until the end, and hand on the end."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    _cut(sink, socket.SHUT_WR)


def _cut(one: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(how)


def _hold(control: socket.socket) -> None:
    """Live inside: open what is asked for, and hand it out; end with the asker."""
    _up()
    kept: list[socket.socket] = []
    with control.makefile("r") as orders:
        for order in orders:
            what, host, port = order.split()
            if what == "hold":
                made = socket.create_server((host, int(port)), backlog=128)
            else:
                made = socket.create_server((host, int(port)), backlog=0)
                kept += _filling((host, int(port)))
            kept.append(made)
            socket.send_fds(control, [b"+"], [made.fileno()])


def _filling(address: Address) -> Iterator[socket.socket]:
    """Fill the queue of a server that takes nobody: Linux then drops who else knocks."""
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(address)
        yield one


def _up() -> None:
    """Bring the namespace's own loopback up."""
    with socket.socket() as any_one:
        name = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_one, _SIOCGIFFLAGS, name))
        fcntl.ioctl(any_one, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


if __name__ == "__main__":
    _hold(socket.socket(fileno=int(sys.argv[1])))
