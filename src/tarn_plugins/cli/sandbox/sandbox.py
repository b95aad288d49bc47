"""The sandbox itself."""

import contextlib
import getpass
import json
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import NotFoundError, ProviderError, RefusedError, TimedOutError, UnreachableError
from tarn.interfaces import ClientContext, Progress
from tarn_plugins.cli.sandbox import hosts, jars, java
from tarn_plugins.cli.sandbox.configuration import Site, files
from tarn_plugins.cli.sandbox.daemons import Daemon, command, daemons, format_command, sockets
from tarn_plugins.cli.sandbox.network import PORTS, addresses, host, nodes, resource_managers
from tarn_plugins.cli.sandbox.options import Options
from tarn_plugins.cli.sandbox.processes import Process, containers, spawn
from tarn_plugins.cli.sandbox.rest import ResourceManagers, ask, listing
from tarn_plugins.cli.sandbox.shims import shims

__all__ = ["DaemonStatus", "Sandbox"]

_BOOT_S = 180.0
_END_S = 10.0
_LOOK_S = 0.2
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER")
"""What daemons, and so containers, see of the environment of whoever starts them."""
_TAIL_BYTES = 4096
_TAIL_LINES = 8


@attrs.frozen
class DaemonStatus:
    """What one daemon does."""

    name: str
    host: str
    pid: int | None
    """None: it does not run."""
    log: str


class Sandbox:
    """A YARN and an HDFS in one directory. One thread; its daemons outlive it.

    ::

        <directory>/sandbox.json      the options it was made with
                    bin/              hadoop, hdfs, yarn: what HADOOP_HOME is for
                    etc/hadoop/       what HADOOP_CONF_DIR is for
                    etc/<daemon>/     what differs for one daemon
                    lib/              links to the jars
                    run/<daemon>.pid  who runs: pid, and start in clock ticks
                    logs/<daemon>.log
                    data/             gone after `down`

    Args:
        directory: Absolute, or below the working directory.
        context: Environment, cache, clock, and who hears of progress.
        options: None: those that it was made with.

    Raises:
        NotFoundError: *options* is None, and there is no sandbox.
    """

    def __init__(
        self, directory: Path, context: ClientContext, options: Options | None = None
    ) -> None:
        self.directory = directory.absolute()
        self._context = context
        self.options = options or self._written()
        self._user = getpass.getuser()

    # -- what it is

    @property
    def environ(self) -> dict[str, str]:
        """What a client of this Hadoop needs in its environment."""
        return {
            "HADOOP_HOME": str(self.directory),
            "HADOOP_CONF_DIR": str(self.directory / "etc" / "hadoop"),
            "JAVA_HOME": str(java.find(self._context.environ)),
        }

    @property
    def rest(self) -> ResourceManagers:
        """The ResourceManager's REST API."""
        names = [host(name, self.options) for name in resource_managers(self.options)]
        return ResourceManagers(names, PORTS["rm"]["http"], self._user)

    def daemons(self) -> tuple[DaemonStatus, ...]:
        """Return every daemon, and whether it runs."""
        return tuple(
            DaemonStatus(
                one.name,
                host(one.name, self.options),
                process.pid if (process := self._process(one.name)) else None,
                str(self._log(one.name)),
            )
            for one in self._all()
        )

    # -- life

    def up(self, timeout_s: float = _BOOT_S) -> None:
        """Start what does not run, and wait until every node does.

        Raises:
            RefusedError: It runs with other options, or its addresses are taken.
            ProviderError: Something lacks, or a daemon ended.
            TimedOutError: It did not come up in time; what was started is ended.
        """
        running = {one.name for one in self._all() if self._process(one.name)}
        self._check(running)
        self._lay_out()
        began_s = self._context.clock.now_s()
        try:
            self._start_all(running)
            self._wait_up(began_s + timeout_s)
        except BaseException:
            if not running:
                self._end()
            raise

    def down(self, *, keep: bool = False) -> None:
        """End every daemon and every container of this sandbox; remove it unless *keep*.

        With *keep* the data stays, and the next `up` goes on from it. Idempotent.
        """
        self._end()
        if not keep:
            for name in ("bin", "data", "etc", "lib", "logs", "run", "share"):
                shutil.rmtree(self.directory / name, ignore_errors=True)
            (self.directory / "sandbox.json").unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what others put there stays
                self.directory.rmdir()

    def kill(self, daemon: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to *daemon*; after SIGKILL and SIGTERM wait for its end.

        Raises:
            NotFoundError: There is no such daemon, or it does not run.
            TimedOutError: It does not end.
        """
        self._daemon(daemon)
        process = self._process(daemon)
        if process is None:
            raise NotFoundError(f"the daemon '{daemon}' does not run", where=str(self.directory))
        process.send(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            if not process.wait(_END_S):
                raise TimedOutError(f"'{daemon}' did not end within {_END_S:g} s of {number.name}")
            self._pid(daemon).unlink(missing_ok=True)

    def start(self, daemon: str) -> None:
        """Start *daemon* again; nothing happens when it runs. It is not waited for."""
        one = self._daemon(daemon)
        if self._process(daemon) is None:
            self._spawn(one)

    def wait_nodes(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until the active ResourceManager has exactly *count* running nodes.

        Raises:
            TimedOutError: It has not, in time.
        """
        end_s = self._context.clock.now_s() + timeout_s
        self._until(lambda: self._running_nodes() == count, end_s, f"{count} nodes RUNNING")

    # -- looking

    def apps(self, **query: str) -> list[dict[str, Any]]:
        """Return the applications, filtered as the RM's ``/apps`` does (``states="RUNNING"``)."""
        found = self.rest.get("apps", **query)["apps"] or {}
        return list(found.get("app", []))

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes as the RM's ``/nodes`` shows them, whatever their state."""
        found = self.rest.get("nodes")["nodes"] or {}
        return list(found.get("node", []))

    def metrics(self) -> dict[str, Any]:
        """Return the RM's ``/metrics`` of the whole cluster."""
        found: dict[str, Any] = self.rest.get("metrics")["clusterMetrics"]
        return found

    def hdfs_listing(self, path: str = "/") -> tuple[str, ...]:
        """Return every file of HDFS below *path*; empty directories end in ``/``."""
        return listing(host("nn", self.options), PORTS["nn"]["http"], self._user, path)

    # -- acting

    def kill_application(self, application_id: str) -> None:
        """Have YARN end an application; its end is not waited for."""
        self.rest.put(f"apps/{application_id}/state", {"state": "KILLED"})

    def label(self, node: str, label: str) -> None:
        """Put *node* (``nm2``) into the partition *label*, made when it is new; ``""``: none.

        Raises:
            ProviderError: YARN refused.
        """
        if label:
            self.run("yarn", "rmadmin", "-addToClusterNodeLabels", f"{label}(exclusive=true)")
        named = host(node, self.options)
        self.run("yarn", "rmadmin", "-replaceLabelsOnNode", f"{named}={label}" if label else named)

    def run(self, program: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run a program of ``bin`` as a client; return what it printed.

        Raises:
            ProviderError: It failed.
        """
        done = subprocess.run(
            [str(self.directory / "bin" / program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={**self._environ(), **self.environ},
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
        )
        if done.returncode:
            raise ProviderError(
                "sandbox",
                f"`{program} {arguments[0] if arguments else ''}` failed "
                f"(exit code {done.returncode}): {done.stderr.strip()[-_TAIL_BYTES:]}",
            )
        return done.stdout

    # -- parts of `up`

    def _check(self, running: set[str]) -> None:
        if running and self._written() != self.options:
            raise RefusedError(
                "this sandbox runs with other options",
                where=str(self.directory),
                next_step="End it first: `tarn sandbox down`.",
            )
        if not self._file.exists() and self.directory.is_dir() and any(self.directory.iterdir()):
            raise RefusedError(
                "the directory holds something that is no sandbox",
                where=str(self.directory),
                next_step="Name another one with --directory.",
            )
        hosts.ensure(addresses(self.options))
        for one in self._all():
            if one.name not in running:
                self._check_free(one)

    def _check_free(self, daemon: Daemon) -> None:
        for address, port in sockets(daemon, self.options):
            with socket.socket() as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    trial.bind((address, port))
                except OSError as error:
                    raise RefusedError(
                        f"{address}:{port} is taken ({error.strerror})",
                        code="TARN-3504",
                        where=f"daemon {daemon.name}",
                        next_step="Does another sandbox run? End it, or choose another --network.",
                    ) from error

    def _lay_out(self) -> None:
        options, home = self.options, java.find(self._context.environ)
        found = (
            jars.installed(Path(options.hadoop_home))
            if options.hadoop_home
            else jars.fetched(options.hadoop, self._context)
        )
        for name in ("run", "logs", "data/tmp", "lib"):
            (self.directory / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        for old in (self.directory / "lib").iterdir():
            old.unlink()
        for jar in found:
            (self.directory / "lib" / jar.name).symlink_to(jar)
        directory = str(self.directory)
        for path, text in files(options, Site(directory, self._user)).items():
            self._write(path, text, 0o644)
        for path, text in shims(str(home / "bin" / "java"), directory).items():
            self._write(path, text, 0o755)
        self._write("sandbox.json", json.dumps(attrs.asdict(options), indent=2), 0o644)

    def _write(self, path: str, text: str, mode: int) -> None:
        file = self.directory / path
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        file.chmod(mode)

    def _start_all(self, running: set[str]) -> None:
        """Start the daemons; those of HDFS last, for they wait until it is formatted."""
        formatting = None if self._formatted() else self._format()
        waiting = []
        for one in self._all():
            if one.name in running:
                continue
            if formatting and one.kind in ("nn", "dn"):
                waiting.append(one)
            else:
                self._spawn(one)
        if formatting and not (formatting.wait(_BOOT_S) and self._formatted()):
            raise self._ended("format", "HDFS could not be formatted")
        for one in waiting:
            self._spawn(one)

    def _formatted(self) -> bool:
        return (self.directory / "data" / "nn" / "current" / "VERSION").is_file()

    def _format(self) -> Process:
        self._tell("formatting HDFS")
        argv = format_command(self._java, str(self.directory))
        return spawn(argv, self._environ(), self.directory, self._log("format"))

    def _spawn(self, daemon: Daemon) -> None:
        self._tell(f"starting {daemon.name}")
        argv = command(daemon, self._java, str(self.directory))
        environ = {**self._environ(), **self.environ}
        process = spawn(argv, environ, self.directory, self._log(daemon.name))
        process.write(self._pid(daemon.name))

    def _wait_up(self, end_s: float) -> None:
        wanted = len(nodes(self.options))
        self._until(self._hdfs_is_up, end_s, "HDFS up", watched=True)
        self._make_directories()
        self._until(
            lambda: self._running_nodes() == wanted, end_s, f"{wanted} nodes RUNNING", watched=True
        )
        self._tell("up")

    def _hdfs_is_up(self) -> bool:
        query = "qry=Hadoop:service=NameNode,name=FSNamesystem*"
        beans = ask(host("nn", self.options), PORTS["nn"]["http"], f"/jmx?{query}")["beans"]
        seen = {key: value for bean in beans for key, value in bean.items()}
        return seen.get("NumLiveDataNodes") == 1 and seen.get("FSState") == "Operational"

    def _make_directories(self) -> None:
        wanted = {"/tmp": "1777", "/tmp/logs": "1777", f"/user/{self._user}": "755"}  # noqa: S108
        for path, mode in wanted.items():
            for query in (f"op=MKDIRS&permission={mode}", f"op=SETPERMISSION&permission={mode}"):
                ask(
                    host("nn", self.options),
                    PORTS["nn"]["http"],
                    f"/webhdfs/v1{path}?{query}&user.name={self._user}",
                    method="PUT",
                )

    def _running_nodes(self) -> int:
        return sum(node["state"] == "RUNNING" for node in self.nodes())

    def _until(
        self, true: Callable[[], bool], end_s: float, what: str, *, watched: bool = False
    ) -> None:
        """Ask again and again; a server that does not answer yet has said no."""
        pause = threading.Event()
        self._tell(f"waiting for {what}")
        while True:
            with contextlib.suppress(UnreachableError):
                if true():
                    return
            if watched:
                self._all_run()
            if self._context.clock.now_s() > end_s:
                raise TimedOutError(f"not in time: {what}", where=f"sandbox {self.directory}")
            pause.wait(_LOOK_S)

    def _all_run(self) -> None:
        for one in self._all():
            if self._process(one.name) is None:
                raise self._ended(one.name, f"the daemon {one.name} ended")

    def _ended(self, name: str, found: str) -> ProviderError:
        log = self._log(name)
        with contextlib.suppress(OSError):
            lines = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
            found = "\n".join([f"{found}; its log ends:", *lines[-_TAIL_LINES:]])
        return ProviderError("sandbox", found, code="TARN-3505", where=str(log))

    # -- parts of `down`

    def _end(self) -> None:
        """End the NodeManagers first, for they would start again what ends; then containers."""
        running = list(self._recorded())
        for number, patience_s in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
            for process in running:
                process.send(signal.SIGCONT)
                process.send(number)
            end_s = self._context.clock.now_s() + patience_s
            now_s = self._context.clock.now_s
            running = [one for one in running if not one.wait(end_s - now_s())]
            for container in containers(self.directory / "data"):
                container.send(signal.SIGKILL)
        if running:
            raise TimedOutError(
                f"these processes do not end: {', '.join(str(one.pid) for one in running)}",
                where=f"sandbox {self.directory}",
            )
        for file in (self.directory / "run").glob("*.pid"):
            file.unlink()

    def _recorded(self) -> Iterator[Process]:
        for file in sorted((self.directory / "run").glob("*.pid")):
            process = Process.read(file)
            if process is not None and process.alive:
                yield process

    # -- where things are

    @property
    def _file(self) -> Path:
        return self.directory / "sandbox.json"

    @property
    def _java(self) -> str:
        return str(java.find(self._context.environ) / "bin" / "java")

    def _written(self) -> Options:
        try:
            return Options.read(json.loads(self._file.read_text("utf-8")))
        except FileNotFoundError as error:
            raise NotFoundError(
                "there is no sandbox here",
                where=str(self.directory),
                next_step="`tarn sandbox up` makes one.",
            ) from error

    def _all(self) -> tuple[Daemon, ...]:
        return daemons(self.options, str(self.directory))

    def _daemon(self, name: str) -> Daemon:
        for one in self._all():
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self._all())
        raise NotFoundError(f"there is no daemon '{name}'", right=f"There are: {names}")

    def _process(self, name: str) -> Process | None:
        """Return the daemon's process; None: it does not run."""
        process = Process.read(self._pid(name))
        return process if process is not None and process.alive else None

    def _pid(self, name: str) -> Path:
        return self.directory / "run" / f"{name}.pid"

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def _environ(self) -> Mapping[str, str]:
        given = self._context.environ
        return {name: given[name] for name in _PASSED_ON if name in given}

    def _tell(self, message: str) -> None:
        self._context.progress(Progress("sandbox", message))
