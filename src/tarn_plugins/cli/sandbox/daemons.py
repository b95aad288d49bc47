"""The daemons of a sandbox: how each is started, where it listens, and who is at work.

Their processes outlive us: they are known again by pid and start.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.errors import NotFoundError, ProviderError, RefusedError, TimedOutError
from tarn.interfaces import Clock
from tarn.process_table import environment_of, start_ticks
from tarn_plugins.cli.sandbox.layout import written
from tarn_plugins.cli.sandbox.options import (
    PORTS,
    SandboxOptions,
    address,
    nodes,
    resource_managers,
)

__all__ = ["Crew", "Daemon", "check_free"]

_HDFS = "org.apache.hadoop.hdfs.server"
_YARN = "org.apache.hadoop.yarn.server"
_NAME_NODE = f"{_HDFS}.namenode.NameNode"
_SMALL = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xss512k",
    # Hadoop's classes, as downloaded, need no verification: this saves a fifth of the start.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Djava.net.preferIPv4Stack=true",
    # Hadoop's web servers define classes at run time.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)

_PROC = Path("/proc")
_CONNECT_S = 1.0
_HOME = b"-Dhadoop.home.dir="

_END_S = 10.0
_TAIL_BYTES = 4096
_TAIL_LINES = 8


@attrs.frozen
class DaemonProcess:
    """A process; its signals never reach another process with the same pid."""

    pid: int
    start: int
    """Clock ticks since boot."""

    @classmethod
    def read(cls, file: Path) -> "DaemonProcess | None":
        """Return the process that `write` wrote; None if *file* is unreadable."""
        try:
            plain = json.loads(file.read_text())
            return cls(int(plain["pid"]), int(plain["start"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, file: Path) -> None:
        """Write pid and start to *file*, atomically."""
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps({"pid": self.pid, "start": self.start}))
        draft.replace(file)

    @property
    def alive(self) -> bool:
        """Whether this process still runs."""
        return start_ticks(self.pid) == self.start

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with contextlib.suppress(ProcessLookupError), self._opened() as descriptor:
            # After opening: if the start is still the same, the descriptor is of that very process.
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end, and return whether it came; reap a child of ours."""
        with contextlib.suppress(ProcessLookupError), self._opened() as descriptor:
            if not self.alive:
                _reap(descriptor)
                return True
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(max(0.0, timeout_s) * 1000):
                return False
            _reap(descriptor)
        return True

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.pidfd_open(self.pid)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _reap(descriptor: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)


def spawn(
    argv: Sequence[str], environ: Mapping[str, str], folder: Path, log: Path
) -> DaemonProcess:
    """Start *argv* in *folder*, in a new session, with its output appended to *log*.

    Raises:
        OSError: It could not be started.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
        )
    # `DaemonProcess` watches it from here on; Popen must not warn that it was not reaped.
    process.returncode = 0
    return DaemonProcess(process.pid, start_ticks(process.pid) or 0)


def containers(data: Path) -> tuple[DaemonProcess, ...]:
    """Return the processes that NodeManagers with directories below *data* started.

    Only root finds the processes of other users, as whom a LinuxContainerExecutor runs containers.
    """
    # A NodeManager sets LOCAL_DIRS for each container, whose child processes inherit it.
    mark = f"LOCAL_DIRS={data}/".encode()
    found = []
    for entry in _PROC.iterdir():
        # Other users' processes, and those that end meanwhile, cannot be read.
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or os.getuid() not in (0, entry.stat().st_uid):
                continue
            start = start_ticks(int(entry.name))
            variables = environment_of(int(entry.name))
            if start is not None and any(one.startswith(mark) for one in variables):
                found.append(DaemonProcess(int(entry.name), start))
    return tuple(found)


@attrs.frozen
class Daemon:
    """One daemon."""

    name: str
    """``nn``, ``dn``, ``zk``, ``kdc``, ``rm``, ``rm2``, ``nm1``...; its log is
    ``logs/<name>.log``."""
    main: str
    """A Java class, or a program if *heap_mib* is 0."""
    heap_mib: int
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Java's flags, besides the common ones."""

    @property
    def kind(self) -> str:
        """Return the key into `PORTS`."""
        return self.name.rstrip("0123456789")


def daemons(options: SandboxOptions, directory: str) -> tuple[Daemon, ...]:
    """Return every daemon, in the best order of their start."""
    # Java ignores KRB5_CONFIG.
    realm = f"-Djava.security.krb5.conf={directory}/etc/kerberos/krb5.conf"
    flags = (realm,) if options.kerberos else ()
    quorum = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    zookeeper = Daemon("zk", quorum, 128, (f"{directory}/etc/zk/zoo.cfg",))
    manager, node = f"{_YARN}.resourcemanager.ResourceManager", f"{_YARN}.nodemanager.NodeManager"
    return (
        *((Daemon("kdc", "krb5kdc", 0, ("-n",)),) if options.kerberos else ()),
        *((zookeeper,) if options.ha else ()),
        *(Daemon(name, manager, 384, flags=flags) for name in resource_managers(options)),
        Daemon("nn", _NAME_NODE, 256, flags=flags),
        Daemon("dn", f"{_HDFS}.datanode.DataNode", 256, flags=flags),
        *(Daemon(name, node, 192, flags=flags) for name in nodes(options)),
    )


def command(daemon: Daemon, java: str, directory: str) -> tuple[str, ...]:
    """Return the command line of *daemon*; *java* is the program."""
    if not daemon.heap_mib:
        return (daemon.main, *daemon.arguments)
    flags = (f"-Xmx{daemon.heap_mib}m", "-Dhadoop.root.logger=INFO,console", *daemon.flags)
    return (
        *java_command(java, directory, daemon.name, flags),
        daemon.main,
        *daemon.arguments,
    )


def format_command(java: str, directory: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command line that formats HDFS; *flags* are the NameNode's."""
    small = ("-Xmx128m", "-Dhadoop.root.logger=INFO,console")
    return (
        *java_command(java, directory, "nn", (*small, *flags)),
        _NAME_NODE,
        "-format",
        "-nonInteractive",
    )


def java_command(
    java: str, directory: str, conf: str, flags: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return a command line without the main class and its arguments."""
    classpath = f"{directory}/etc/{conf}:{directory}/etc/hadoop:{directory}/share:{directory}/lib/*"
    return (
        java,
        *_SMALL,
        *flags,
        f"-Dhadoop.home.dir={directory}",
        f"-Dhadoop.log.dir={directory}/logs",
        # For unpacked native libraries and web pages, which a killed daemon leaves behind.
        f"-Djava.io.tmpdir={directory}/data/tmp",
        "-cp",
        classpath,
    )


def sockets(daemon: Daemon, options: SandboxOptions) -> tuple[tuple[str, int], ...]:
    """Return (address, port) of every socket on which *daemon* listens."""
    own = address(daemon.name, options)
    return tuple((own, port) for port in PORTS[daemon.kind].values())


def check_free(wanted: Iterable[Daemon], options: SandboxOptions) -> None:
    """Check that every socket of these daemons is free.

    Raises:
        RefusedError: One is taken (TARN-3504); the message names the sandbox that has it, if that
            can be found.
    """
    for daemon in wanted:
        for listens, port in sockets(daemon, options):
            with socket.socket() as trial:
                # As Java's servers do: old connections in TIME_WAIT do not make a port taken.
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    trial.bind((listens, port))
                except OSError as error:
                    raise RefusedError(
                        f"{listens}:{port} is taken ({error.strerror})",
                        code="TARN-3504",
                        where=f"daemon {daemon.name}",
                        next_step=_advice(options),
                    ) from error


def taken(address: str, port: int) -> bool:
    """Return whether a server accepts connections there."""
    with socket.socket() as trial:
        trial.settimeout(_CONNECT_S)
        return trial.connect_ex((address, port)) == 0


def _advice(options: SandboxOptions) -> str:
    # Each daemon's command line names the directory of its sandbox.
    for directory in _sandboxes():
        there = written(directory)
        if there is not None and there.network == options.network:
            return (
                f"End the other sandbox (`tarn sandbox down --directory {directory}`), or "
                "choose another --network."
            )
    return "End the program that listens there, or choose another --network."


def _sandboxes() -> Iterator[Path]:
    """Yield the directories of running sandboxes; one may come several times."""
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                for argument in (entry / "cmdline").read_bytes().split(b"\0"):
                    if argument.startswith(_HOME):
                        yield Path(argument.removeprefix(_HOME).decode(errors="replace"))


class Crew:
    """The daemons in *directory*. For one thread; the daemons outlive it."""

    def __init__(self, directory: Path, options: SandboxOptions, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self.all: tuple[Daemon, ...] = daemons(options, str(directory))
        """In the best order of their start."""

    def daemon(self, name: str) -> Daemon:
        """Return the daemon *name*.

        Raises:
            NotFoundError: There is no such daemon.
        """
        for one in self.all:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.all)
        raise NotFoundError(f"there is no daemon '{name}'", right=f"There are: {names}")

    def process(self, name: str) -> DaemonProcess | None:
        """Return the daemon's process; None if it does not run."""
        process = DaemonProcess.read(self._pid(name))
        return process if process is not None and process.alive else None

    def running(self) -> set[str]:
        """Return the names of the daemons that run, including those stopped by SIGSTOP."""
        return {one.name for one in self.all if self.process(one.name)}

    def log(self, name: str) -> Path:
        """Return the path of the daemon's log."""
        return self._directory / "logs" / f"{name}.log"

    def start(self, daemon: Daemon, java: str, environ: Mapping[str, str]) -> None:
        """Start *daemon*, without waiting for it; *java* is the program."""
        argv = command(daemon, java, str(self._directory))
        spawn(argv, environ, self._directory, self.log(daemon.name)).write(self._pid(daemon.name))

    def format(self, java: str, environ: Mapping[str, str]) -> DaemonProcess:
        """Start the process that formats HDFS; its log is called ``format``."""
        argv = format_command(java, str(self._directory), self.daemon("nn").flags)
        return spawn(argv, environ, self._directory, self.log("format"))

    def kill(self, name: str, number: signal.Signals) -> None:
        """Send a signal; for SIGKILL and SIGTERM, wait for the end.

        Raises:
            NotFoundError: There is no such daemon, or it does not run.
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
        """Return whether every socket of a daemon accepts connections.

        Raises:
            ProviderError: The daemon ended.
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
        """Return an error with the text *found* and the end of a log."""
        log = self.log(name)
        with contextlib.suppress(OSError):
            lines = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
            found = "\n".join([f"{found}; its log ends:", *lines[-_TAIL_LINES:]])
        return ProviderError("sandbox", found, code="TARN-3505", where=str(log))

    def end(self) -> None:
        """End every daemon, and every container of its NodeManagers. Idempotent.

        Raises:
            TimedOutError: A process survives SIGKILL.
        """
        # From the files, since today's options may have fewer daemons.
        found = map(DaemonProcess.read, sorted((self._directory / "run").glob("*.pid")))
        running = [one for one in found if one is not None and one.alive]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                process.send(number)
                # A process stopped by SIGSTOP receives SIGTERM only after SIGCONT.
                process.send(signal.SIGCONT)
            end_s = self._clock.now_s() + _END_S
            running = [one for one in running if not one.wait(end_s - self._clock.now_s())]
            # A NodeManager that ends leaves its containers to a successor, which never comes here.
            for container in containers(self._directory / "data"):
                container.send(signal.SIGKILL)
        if running:
            raise TimedOutError(
                f"these processes do not end: {', '.join(str(one.pid) for one in running)}",
                where=f"sandbox {self._directory}",
            )
        for file in (self._directory / "run").glob("*.pid"):
            file.unlink()

    def _pid(self, name: str) -> Path:
        return self._directory / "run" / f"{name}.pid"
