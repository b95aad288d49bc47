"""The processes of one sandbox: who is at work, starting one, ending all."""

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import NotFoundError, ProviderError, TimedOutError
from tarn.interfaces import Clock
from tarn_plugins.cli.sandbox.daemons import (
    Daemon,
    command,
    daemons,
    format_command,
    sockets,
)
from tarn_plugins.cli.sandbox.options import SandboxOptions
from tarn_plugins.cli.sandbox.processes import DaemonProcess, containers, spawn
from tarn_plugins.cli.sandbox.sockets import taken

__all__ = ["Crew"]

_END_S = 10.0
_TAIL_BYTES = 4096
_TAIL_LINES = 8


class Crew:
    """The daemons in *directory*. One thread; they outlive it."""

    def __init__(self, directory: Path, options: SandboxOptions, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self.all: tuple[Daemon, ...] = daemons(options, str(directory))
        """In the order in which they are best started."""

    def daemon(self, name: str) -> Daemon:
        """Return one of them.

        Raises:
            NotFoundError: There is none of this name.
        """
        for one in self.all:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.all)
        raise NotFoundError(f"there is no daemon '{name}'", right=f"There are: {names}")

    def process(self, name: str) -> DaemonProcess | None:
        """Return the daemon's process; None: it does not run."""
        process = DaemonProcess.read(self._pid(name))
        return process if process is not None and process.alive else None

    def running(self) -> set[str]:
        """Return the names of those that run, stopped ones included."""
        return {one.name for one in self.all if self.process(one.name)}

    def log(self, name: str) -> Path:
        """Return where the daemon writes."""
        return self._directory / "logs" / f"{name}.log"

    def start(self, daemon: Daemon, java: str, environ: Mapping[str, str]) -> None:
        """Start it; *java* is the program. It is not waited for."""
        argv = command(daemon, java, str(self._directory))
        spawn(argv, environ, self._directory, self.log(daemon.name)).write(self._pid(daemon.name))

    def format(self, java: str, environ: Mapping[str, str]) -> DaemonProcess:
        """Start what makes an empty HDFS, and ends; its log is called ``format``."""
        argv = format_command(java, str(self._directory), self.daemon("nn").flags)
        return spawn(argv, environ, self._directory, self.log("format"))

    def kill(self, name: str, number: signal.Signals) -> None:
        """Send a signal; after SIGKILL and SIGTERM wait for the end.

        Raises:
            NotFoundError: It is unknown, or does not run.
            TimedOutError: It does not end.
        """
        process = self.process(self.daemon(name).name)
        if process is None:
            raise NotFoundError(f"the daemon '{name}' does not run", where=str(self._directory))
        process.send(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            if not process.wait(_END_S):
                raise TimedOutError(f"'{name}' did not end within {_END_S:g} s of {number.name}")
            self._pid(name).unlink(missing_ok=True)

    def listens(self, name: str, options: SandboxOptions) -> bool:
        """Whether every socket of a daemon takes connections.

        Raises:
            ProviderError: It ended.
        """
        if self.process(name) is None:
            raise self.ended(name, f"the daemon {name} ended")
        return all(taken(*where) for where in sockets(self.daemon(name), options))

    def check(self) -> None:
        """Raise `ProviderError` when a daemon does not run."""
        for one in self.all:
            if self.process(one.name) is None:
                raise self.ended(one.name, f"the daemon {one.name} ended")

    def ended(self, name: str, found: str) -> ProviderError:
        """Return the error that says *found*, with the end of a log."""
        log = self.log(name)
        with contextlib.suppress(OSError):
            lines = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
            found = "\n".join([f"{found}; its log ends:", *lines[-_TAIL_LINES:]])
        return ProviderError("sandbox", found, code="TARN-3505", where=str(log))

    def end(self) -> None:
        """End every daemon, and every container that its NodeManagers started. Idempotent.

        NodeManagers leave their containers running when they end, for the next one; here none
        comes.

        Raises:
            TimedOutError: Something does not even end by SIGKILL.
        """
        running = self._recorded()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                process.send(number)
                process.send(signal.SIGCONT)
            end_s = self._clock.now_s() + _END_S
            running = [one for one in running if not one.wait(end_s - self._clock.now_s())]
            for container in containers(self._directory / "data"):
                container.send(signal.SIGKILL)
        if running:
            raise TimedOutError(
                f"these processes do not end: {', '.join(str(one.pid) for one in running)}",
                where=f"sandbox {self._directory}",
            )
        for file in (self._directory / "run").glob("*.pid"):
            file.unlink()

    def _recorded(self) -> list[DaemonProcess]:
        """Return what runs, whatever the options say today."""
        found = map(DaemonProcess.read, sorted((self._directory / "run").glob("*.pid")))
        return [one for one in found if one is not None and one.alive]

    def _pid(self, name: str) -> Path:
        return self._directory / "run" / f"{name}.pid"
