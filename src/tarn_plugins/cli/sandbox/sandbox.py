"""The sandbox itself."""

import contextlib
import getpass
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import NotFoundError, RefusedError, TimedOutError, UnreachableError
from tarn.interfaces import ClientContext, Progress
from tarn_plugins.cli.sandbox import hosts, jars, java, programs
from tarn_plugins.cli.sandbox.configuration import SandboxSite, files
from tarn_plugins.cli.sandbox.crew import Crew
from tarn_plugins.cli.sandbox.daemons import Daemon
from tarn_plugins.cli.sandbox.hdfs import HdfsAdmin, ProgramHdfs, WebHdfs
from tarn_plugins.cli.sandbox.kerberos import Realm, with_sbin
from tarn_plugins.cli.sandbox.layout import is_formatted, lay_out, remove, written
from tarn_plugins.cli.sandbox.network import PORTS, addresses, host, nodes, resource_managers
from tarn_plugins.cli.sandbox.options import SandboxOptions
from tarn_plugins.cli.sandbox.rest import ResourceManagers, ask
from tarn_plugins.cli.sandbox.shims import shims
from tarn_plugins.cli.sandbox.sockets import check_free

__all__ = ["DaemonStatus", "Sandbox"]

_BOOT_S = 180.0
_LOOK_S = 0.2
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER")
"""What daemons, and so containers, see of the environment of whoever starts them."""


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
        self, directory: Path, context: ClientContext, options: SandboxOptions | None = None
    ) -> None:
        self.directory = directory.absolute()
        self._context = context
        self.options = options or self._written()
        self._crew = Crew(self.directory, self.options, context.clock)
        self._user = getpass.getuser()
        self._realm: Realm | None = None
        if self.options.kerberos:
            self._realm = Realm(self.directory, self.options, self._user, self._environ())

    # -- what it is

    @property
    def environ(self) -> dict[str, str]:
        """What a client of this Hadoop needs in its environment."""
        return {**self._hadoop, **(self._realm.client if self._realm else {})}

    @property
    def rest(self) -> ResourceManagers:
        """The ResourceManager's REST API."""
        names = [host(name, self.options) for name in resource_managers(self.options)]
        return ResourceManagers(names, PORTS["rm"]["http"], self._user)

    def daemons(self) -> tuple[DaemonStatus, ...]:
        """Return every daemon, and whether it runs."""
        found = []
        for one in self._crew.all:
            process = self._crew.process(one.name)
            found.append(
                DaemonStatus(
                    one.name,
                    host(one.name, self.options),
                    process.pid if process else None,
                    str(self._crew.log(one.name)),
                )
            )
        return tuple(found)

    # -- life

    def up(self, timeout_s: float = _BOOT_S) -> None:
        """Start what does not run, let go on what was stopped, and wait until every node runs.

        Raises:
            RefusedError: It runs with other options, or its addresses are taken.
            ProviderError: Something lacks, or a daemon ended.
            TimedOutError: It did not come up in time; what was started is ended.
        """
        running = self._crew.running()
        self._check(running)
        for one in running:
            self._crew.kill(one, signal.SIGCONT)
        if not running:
            self._lay_out()
        end_s = self._context.clock.now_s() + timeout_s
        try:
            self._start_all(running)
            self._wait_up(end_s)
        except BaseException:
            if not running:
                self._crew.end()
            raise

    def down(self, *, keep: bool = False) -> None:
        """End every daemon and every container of this sandbox; remove it unless *keep*.

        With *keep* the data stays, and the next `up` goes on from it. Idempotent.
        """
        self._crew.end()
        if not keep:
            remove(self.directory)

    def kill(self, daemon: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to *daemon*; after SIGKILL and SIGTERM wait for its end.

        Raises:
            NotFoundError: There is no such daemon, or it does not run.
            TimedOutError: It does not end.
        """
        self._crew.kill(daemon, number)

    def start(self, daemon: str) -> None:
        """Start *daemon* again; nothing happens when it runs. It is not waited for."""
        one = self._crew.daemon(daemon)
        if self._crew.process(daemon) is None:
            self._start(one)

    def wait_nodes(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until exactly *count* nodes are RUNNING for the active RM, and answer.

        Raises:
            TimedOutError: It has not, in time.
        """
        end_s = self._context.clock.now_s() + timeout_s
        self._until(lambda: self._serving_nodes() == count, end_s, f"{count} nodes RUNNING")

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
        return self._hdfs.listing(path)

    # -- acting

    def hdfs_make(self, path: str, permission: str = "755") -> None:
        """Make a directory of HDFS, and those above it; *permission* in octal."""
        self._hdfs.make({path: permission})

    def hdfs_remove(self, path: str) -> None:
        """Remove a file or a directory of HDFS, with all that is in it."""
        self._hdfs.remove(path)

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
        return self._run(program, arguments, self.environ, timeout_s)

    def log_in(self) -> None:
        """Get a new Kerberos ticket for the user; nothing happens where there is no Kerberos.

        Raises:
            ProviderError: The KDC gives none.
        """
        if self._realm:
            self._realm.log_in()

    def _run(
        self, program: str, arguments: Sequence[str], environ: Mapping[str, str], timeout_s: float
    ) -> str:
        environ = {**self._environ(), **environ}
        return programs.run(self.directory / "bin" / program, arguments, environ, timeout_s)

    # -- parts of `up`

    def _check(self, running: set[str]) -> None:
        before = written(self.directory)
        if running and before != self.options:
            raise RefusedError(
                f"this sandbox runs with other options: {_differing(before, self.options)}",
                where=str(self.directory),
                next_step="End it first: `tarn sandbox down`.",
            )
        if before is None and self.directory.is_dir() and any(self.directory.iterdir()):
            raise RefusedError(
                "the directory holds something that is not a sandbox",
                where=str(self.directory),
                next_step="Name another one with --directory.",
            )
        if self._realm:
            self._realm.check()
        hosts.ensure(addresses(self.options))
        check_free((one for one in self._crew.all if one.name not in running), self.options)

    def _lay_out(self) -> None:
        options, home = self.options, java.find(self._context.environ)
        found = (
            jars.installed(Path(options.hadoop_home))
            if options.hadoop_home
            else jars.fetched(options.hadoop, self._context, options.repository)
        )
        directory = str(self.directory)
        lay_out(
            self.directory,
            options,
            files(options, SandboxSite(directory, self._user)),
            shims(str(home / "bin" / "java"), directory),
            found,
        )

    def _start_all(self, running: set[str]) -> None:
        """Start the daemons; those of HDFS last, for they wait until it is formatted."""
        absent = [one for one in self._crew.all if one.name not in running]
        absent = self._begin_realm(absent)
        formatting = None
        if not is_formatted(self.directory):
            self._tell("formatting HDFS")
            formatting = self._crew.format(self._java, self._environ())
            absent.sort(key=lambda one: one.kind in ("nn", "dn"))
        for one in absent:
            if formatting and one.kind == "nn":
                if not formatting.wait(_BOOT_S) or not is_formatted(self.directory):
                    raise self._crew.ended("format", "HDFS could not be formatted")
                formatting = None
            self._start(one)

    def _begin_realm(self, absent: list[Daemon]) -> list[Daemon]:
        """Start the KDC and wait for it: all others log in when they start. Return the others."""
        if self._realm is None:
            return absent
        self._realm.make()
        for one in absent:
            if one.kind == "kdc":
                self._start(one)
        end_s = self._context.clock.now_s() + _BOOT_S
        self._until(lambda: self._crew.listens("kdc", self.options), end_s, "the KDC")
        self._realm.log_in()
        return [one for one in absent if one.kind != "kdc"]

    def _start(self, daemon: Daemon) -> None:
        self._tell(f"starting {daemon.name}")
        environ = {**self._environ(), **self._hadoop}
        if self._realm:
            environ = {**with_sbin(environ), **self._realm.daemon}
        self._crew.start(daemon, self._java, environ)

    def _wait_up(self, end_s: float) -> None:
        wanted = len(nodes(self.options))
        self._until(self._hdfs_is_up, end_s, "HDFS up", watched=True)
        self._until(self._make_directories, end_s, "HDFS's first directories", watched=True)
        self._until(
            lambda: self._serving_nodes() == wanted, end_s, f"{wanted} nodes RUNNING", watched=True
        )
        self._tell("up")

    def _hdfs_is_up(self) -> bool:
        query = "qry=Hadoop:service=NameNode,name=FSNamesystem*"
        beans = ask(host("nn", self.options), PORTS["nn"]["http"], f"/jmx?{query}")["beans"]
        seen = {key: value for bean in beans for key, value in bean.items()}
        return seen.get("NumLiveDataNodes") == 1 and seen.get("FSState") == "Operational"

    def _make_directories(self) -> bool:
        """Make them; again and again is as good as once."""
        wanted = {"/tmp": "1777", "/tmp/logs": "1777", f"/user/{self._user}": "755"}  # noqa: S108
        self._hdfs.make(wanted)
        return True

    @property
    def _hdfs(self) -> HdfsAdmin:
        if self._realm is None:
            return WebHdfs(host("nn", self.options), PORTS["nn"]["http"], self._user)
        environ = {**self._hadoop, **self._realm.administrator}
        return ProgramHdfs(lambda *words: self._run("hadoop", words, environ, 60.0), self._user)

    def _serving_nodes(self) -> int:
        """Count them; one that was killed is RUNNING for YARN until it expires, and is silent."""
        count = 0
        for node in self.nodes():
            if node["state"] == "RUNNING":
                with contextlib.suppress(UnreachableError):
                    ask(node["nodeHostName"], PORTS["nm"]["http"], "/ws/v1/node/info")
                    count += 1
        return count

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
                self._crew.check()
            if self._context.clock.now_s() > end_s:
                raise TimedOutError(f"timed out: {what}", where=f"sandbox {self.directory}")
            pause.wait(_LOOK_S)

    # -- where things are

    @property
    def _hadoop(self) -> dict[str, str]:
        return {
            "HADOOP_HOME": str(self.directory),
            "HADOOP_CONF_DIR": str(self.directory / "etc" / "hadoop"),
            "JAVA_HOME": str(java.find(self._context.environ)),
        }

    @property
    def _java(self) -> str:
        return str(java.find(self._context.environ) / "bin" / "java")

    def _environ(self) -> Mapping[str, str]:
        given = self._context.environ
        return {name: given[name] for name in _PASSED_ON if name in given}

    def _written(self) -> SandboxOptions:
        found = written(self.directory)
        if found is None:
            raise NotFoundError(
                "there is no sandbox here",
                where=str(self.directory),
                next_step="`tarn sandbox up` makes one.",
            )
        return found

    def _tell(self, message: str) -> None:
        self._context.progress(Progress("sandbox", message))


def _differing(before: SandboxOptions | None, after: SandboxOptions) -> str:
    old, new = attrs.asdict(before or SandboxOptions()), attrs.asdict(after)
    return ", ".join(f"{key} = {old[key]}, not {new[key]}" for key in new if old[key] != new[key])
