"""Start, stop and inspect a sandbox."""

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
from tarn_plugins.cli.sandbox import jars, layout, rest
from tarn_plugins.cli.sandbox.configuration import SandboxSite, files
from tarn_plugins.cli.sandbox.daemons import Crew, Daemon, check_free
from tarn_plugins.cli.sandbox.kerberos import Realm, with_sbin
from tarn_plugins.cli.sandbox.layout import is_formatted, lay_out, remove, shims, written
from tarn_plugins.cli.sandbox.options import (
    PORTS,
    SandboxOptions,
    addresses,
    host,
    nodes,
    resource_managers,
)
from tarn_plugins.cli.sandbox.rest import HdfsAdmin, ProgramHdfs, ResourceManagers, WebHdfs, ask

__all__ = ["Sandbox"]

_BOOT_S = 180.0
_LOOK_S = 0.2
# The variables of the caller that daemons, and so containers, get.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER")


@attrs.frozen
class DaemonStatus:
    """The state of one daemon."""

    name: str
    host: str
    pid: int | None
    """None if it does not run."""
    log: str


class Sandbox:
    """A YARN and an HDFS in one directory. For one thread; the daemons outlive it.

    ::

        <directory>/sandbox.json      the options it was made with
                    bin/              hadoop, hdfs, yarn; HADOOP_HOME is the directory above
                    etc/hadoop/       HADOOP_CONF_DIR
                    etc/<daemon>/     files that differ for one daemon
                    lib/              links to the jars
                    run/<daemon>.pid  its pid, and its start in clock ticks
                    logs/<daemon>.log
                    data/             removed by `down`

    Args:
        directory: Absolute, or below the working directory.
        context: The client's.
        options: None means the options with which the sandbox was made.

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
        """The environment variables that a client of this Hadoop needs."""
        return {**self._hadoop, **(self._realm.client if self._realm else {})}

    @property
    def rest(self) -> ResourceManagers:
        """The ResourceManager's REST API."""
        names = [host(name, self.options) for name in resource_managers(self.options)]
        return ResourceManagers(names, PORTS["rm"]["http"], self._user)

    def daemons(self) -> tuple[DaemonStatus, ...]:
        """Return the state of every daemon."""
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
        """Start or continue every daemon, and wait until every node runs.

        Raises:
            RefusedError: It runs with other options, or its addresses are taken.
            ProviderError: A prerequisite is missing, or a daemon ended.
            TimedOutError: It did not come up in time; the started daemons are ended.
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
        """End every daemon and container; remove the sandbox unless *keep*. Idempotent.

        With *keep*, the next `up` uses the present data.
        """
        self._crew.end()
        if not keep:
            remove(self.directory)

    def kill(self, daemon: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to *daemon*; for SIGKILL and SIGTERM, wait for its end.

        Raises:
            NotFoundError: There is no such daemon, or it does not run.
            TimedOutError: It does not end.
        """
        self._crew.kill(daemon, number)

    def start(self, daemon: str) -> None:
        """Start *daemon* unless it runs, without waiting for it."""
        one = self._crew.daemon(daemon)
        if self._crew.process(daemon) is None:
            self._start(one)

    def wait_nodes(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until exactly *count* nodes are RUNNING and answer.

        Raises:
            TimedOutError: Another number of nodes runs after *timeout_s*.
        """
        end_s = self._context.clock.now_s() + timeout_s
        self._until(lambda: self._serving_nodes() == count, end_s, f"{count} nodes RUNNING")

    # -- looking

    def apps(self, **query: str) -> list[dict[str, Any]]:
        """Return the applications, filtered as the RM's ``/apps`` does (``states="RUNNING"``)."""
        found = self.rest.get("apps", **query)["apps"] or {}
        return list(found.get("app", []))

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes in any state, as the RM's ``/nodes`` shows them."""
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
        """Make a directory of HDFS with its parents; *permission* is octal."""
        self._hdfs.make({path: permission})

    def hdfs_remove(self, path: str) -> None:
        """Remove a file, or a directory with its content, from HDFS."""
        self._hdfs.remove(path)

    def kill_application(self, application_id: str) -> None:
        """Kill an application, without waiting for its end."""
        self.rest.put(f"apps/{application_id}/state", {"state": "KILLED"})

    def label(self, node: str, label: str) -> None:
        """Put *node* (``nm2``) into the partition *label*, created if new; ``""`` for none.

        Raises:
            ProviderError: YARN refused.
        """
        if label:
            self.run("yarn", "rmadmin", "-addToClusterNodeLabels", f"{label}(exclusive=true)")
        named = host(node, self.options)
        self.run("yarn", "rmadmin", "-replaceLabelsOnNode", f"{named}={label}" if label else named)

    def run(self, program: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run a program of ``bin`` as a client; return its output.

        Raises:
            ProviderError: It failed.
        """
        return self._run(program, arguments, self.environ, timeout_s)

    def log_in(self) -> None:
        """Get a new Kerberos ticket for the user, if the sandbox has a realm.

        Raises:
            ProviderError: The KDC refused.
        """
        if self._realm:
            self._realm.log_in()

    def _run(
        self, program: str, arguments: Sequence[str], environ: Mapping[str, str], timeout_s: float
    ) -> str:
        environ = {**self._environ(), **environ}
        return rest.run_program(self.directory / "bin" / program, arguments, environ, timeout_s)

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
        layout.ensure_hosts(addresses(self.options))
        check_free((one for one in self._crew.all if one.name not in running), self.options)

    def _lay_out(self) -> None:
        options, home = self.options, jars.find_java(self._context.environ)
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
        """Start the daemons; those of HDFS last while it is being formatted."""
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
        """Start the KDC, wait for it, and return the other daemons."""
        if self._realm is None:
            return absent
        # The other daemons log in when they start, so the KDC must answer first.
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

        def make_directories() -> bool:
            directories = {"/tmp": "1777", "/tmp/logs": "1777", f"/user/{self._user}": "755"}  # noqa: S108
            self._hdfs.make(directories)  # idempotent, so a repetition after an error is harmless
            return True

        self._until(make_directories, end_s, "HDFS's first directories", watched=True)
        self._until(
            lambda: self._serving_nodes() == wanted, end_s, f"{wanted} nodes RUNNING", watched=True
        )
        self._tell("up")

    def _hdfs_is_up(self) -> bool:
        query = "qry=Hadoop:service=NameNode,name=FSNamesystem*"
        beans = ask(host("nn", self.options), PORTS["nn"]["http"], f"/jmx?{query}")["beans"]
        seen = {key: value for bean in beans for key, value in bean.items()}
        return seen.get("NumLiveDataNodes") == 1 and seen.get("FSState") == "Operational"

    @property
    def _hdfs(self) -> HdfsAdmin:
        if self._realm is None:
            return WebHdfs(host("nn", self.options), PORTS["nn"]["http"], self._user)
        environ = {**self._hadoop, **self._realm.administrator}
        return ProgramHdfs(lambda *words: self._run("hadoop", words, environ, 60.0), self._user)

    def _serving_nodes(self) -> int:
        # YARN calls a killed node RUNNING until it expires; such a node does not answer.
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
        """Wait until *true* returns True; a server that does not answer counts as False."""
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
            "JAVA_HOME": str(jars.find_java(self._context.environ)),
        }

    @property
    def _java(self) -> str:
        return str(jars.find_java(self._context.environ) / "bin" / "java")

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
