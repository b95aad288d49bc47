"""A program that runs for a test: what all servers have in common."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from tarn.testing.wait import until

END_S = 10.0


_given: set[int] = set()
_MOST_GIVEN = 5000


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody uses now, and that this process was not given before.

    A server that was given one may not listen yet.
    """
    if len(_given) > _MOST_GIVEN:
        _given.clear()
    ports: list[int] = []
    with contextlib.ExitStack() as stack:  # as long as they are held none comes twice
        while len(ports) < count:
            link = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = link.getsockname()[1]
            if port not in _given:
                ports.append(port)
    _given.update(ports)
    return ports


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses now."""
    (port,) = free_ports(1)
    return port


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Say whether somebody takes connections at a port of *host*."""
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex((host, port)) == 0


class ServerProcess:
    """One program, its log, and its end. One thread; a context.

    Args:
        argv: Its command line.
        log: Where what it prints is added.
        environ: All of its environment; None: the test's.
    """

    within_s = 30.0
    """For so long a start may take."""

    def __init__(
        self, argv: Sequence[str], log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.argv, self.log, self.environ = list(argv), log, environ
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None, f"{self.argv[0]} does not run"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._process is not None

    def start(self) -> None:
        """Start it; back when it answers."""
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start it; it may not answer yet when this returns."""
        self._process = self._spawned(*self.argv)

    def wait(self) -> None:
        """Wait until it answers; what does not is ended."""
        try:
            until(self._alive_and_answers, self.within_s, f"{self.argv[0]} ({self.log})")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it at once, as a crash does. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(END_S)

    def restart(self) -> None:
        """Stop it, and start it again: what was only told to it is lost."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it hang for a while (SIGSTOP), and go on afterwards."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def said(self) -> str:
        """Return its log as it is."""
        return self.log.read_text("utf-8", "replace")

    def answers(self) -> bool:
        """Say whether it can be used; asked again and again while it starts."""
        raise NotImplementedError

    def _spawned(self, *argv: str) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                env=self.environ,
                start_new_session=True,  # ^C is for the tests, which end it in order
            )

    def _alive_and_answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.said()[-3000:]
        return self.answers()
