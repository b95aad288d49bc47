"""A real YARN: the sandbox of the session, houses whose clusters run in it, and its fixtures."""

import contextlib
import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import attrs
import pytest
from house import House, kill

from servers.maven import one_maven
from tarn import config
from tarn.clock import SystemClock
from tarn.errors import RefusedError
from tarn.interfaces import ClientContext
from tarn.java import hadoop_classpath, java_home
from tarn.java import start as start_jvm
from tarn.process_table import environment_of
from tarn_plugins.cli.sandbox import jars, options
from tarn_plugins.cli.sandbox.configuration import EXCLUDED, SandboxSite, files
from tarn_plugins.cli.sandbox.daemons import check_free, containers, daemons
from tarn_plugins.cli.sandbox.kerberos import with_sbin
from tarn_plugins.cli.sandbox.options import SandboxOptions
from tarn_plugins.cli.sandbox.rest import ask
from tarn_plugins.cli.sandbox.sandbox import Sandbox

ALIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
SHARED = "TARN_TEST_SANDBOX"
"""Names the directory of a running sandbox: it is used, and left running."""
CHOSEN = {"hadoop": "TARN_TEST_HADOOP", "repository": "TARN_TEST_REPOSITORY"}
"""Option of a sandbox -> the variable in which `nox -s yarn -- --hadoop VERSION` names it."""
T = TypeVar("T")
EXPIRY_S = 15.0
"""After which YARN believes a silent node lost."""
MASTER_EXPIRY_S = 30.0
"""The same of a master. On a busy machine many need more than fifteen seconds until they register:
YARN then gave up one attempt after the other, each of which had nearly come up."""
KERBEROS_LIFE_S = 60.0
"""Of a delegation token: long enough to bring a fleet up and to scale it on a busy machine."""
MASTER_EXPIRY = "yarn.am.liveness-monitor.expiry-interval-ms"
NETWORKS = range(78, 98)
JVM_HEAP_MIB = 96
SMALL = {"vcores": 1, "memory": "768MiB"}


class Hadoop(Sandbox):
    """A sandbox with what tests ask of it; a daemon goes by its name (``nm2``)."""

    def app(self, application_id: str) -> dict[str, Any]:
        """Return one application as the RM shows it."""
        return dict(self.rest.get(f"apps/{application_id}")["app"])

    def attempts(self, application_id: str) -> list[dict[str, Any]]:
        """Return its attempts, the first one first."""
        found = self.rest.get(f"apps/{application_id}/appattempts")["appAttempts"]["appAttempt"]
        return sorted(found, key=lambda one: one["id"])

    def said_of(self, application_id: str) -> str:
        """Return the states that the daemons logged last of an application and its containers."""
        mark = application_id.removeprefix("application_")
        logs = (self.directory / "logs").glob("*.log")
        lines = (line for log in logs for line in log.read_text("utf-8", "replace").splitlines())
        states = (line for line in lines if " from " in line and f"_{mark}" in line)
        return "\n".join(sorted(line[:200] for line in states)[-40:])

    def host(self, daemon: str) -> str:
        """Return the host name of a daemon."""
        return options.host(daemon, self.options)

    def daemon_at(self, host: str) -> str:
        """Return the NodeManager on *host*."""
        return next(name for name in options.nodes(self.options) if self.host(name) == host)

    def node_of(self, container_id: str) -> str:
        """Return the NodeManager that runs a container."""
        for one in contained():
            if one.container_id == container_id:
                return self.daemon_at(one.environ["NM_HOST"])
        raise LookupError(f"no process of {container_id}")

    def place_by(self, handler: str) -> None:
        """Have *handler* decide over placement constraints: the RM starts again with it.

        What clients read stays as it was: on a real cluster theirs need not be the RM's either.
        """
        changed = attrs.evolve(self.options, placement=handler)
        path = "etc/rm/yarn-site.xml"
        wanted = files(changed, SandboxSite(str(self.directory), getpass.getuser()))[path]
        if (self.directory / path).read_text() == wanted:
            return
        (self.directory / path).write_text(wanted)
        self.kill("rm")
        self.start("rm")
        self.wait_nodes(self.options.nodes)

    def configure(self, manager: Mapping[str, str], **nodes: Mapping[str, str]) -> None:
        """Set Hadoop's properties over those that it was made with; none: it is as it was.

        The ResourceManager gets those of *manager*, and each of *nodes* its own (``nm3={...}``);
        whose files change starts again. What clients read stays as it was: on a real cluster
        theirs need not be the ResourceManager's either.
        """
        queues, types = (f"etc/hadoop/{n}.xml" for n in ("capacity-scheduler", "resource-types"))
        read = {"rm": (manager, ("etc/rm/yarn-site.xml", queues, types))}
        read |= {name: (own, (f"etc/{name}/yarn-site.xml",)) for name, own in nodes.items()}
        again = [name for name, (own, paths) in read.items() if self._rewritten(own, paths)]
        for daemon in again:
            self.kill(daemon)
        for daemon in again:
            self.start(daemon)
        if again:
            self.wait_nodes(self.options.nodes, 120)

    def _rewritten(self, properties: Mapping[str, str], paths: Sequence[str]) -> bool:
        """Write those of *paths* that *properties* change; say whether they do any."""
        properties = {**self.options.properties, **properties}
        options = attrs.evolve(self.options, properties=properties)
        wanted = files(options, SandboxSite(str(self.directory), getpass.getuser()))
        differ = [path for path in paths if (self.directory / path).read_text() != wanted[path]]
        for path in differ:
            (self.directory / path).write_text(wanted[path])
        return bool(differ)

    def hdfs_set(self, path: str, operation: str, **query: str | int) -> None:
        """Have HDFS do *operation* to *path*, by WebHDFS: ``SETQUOTA``, ``SETPERMISSION``."""
        words = urlencode({"op": operation, "user.name": getpass.getuser(), **query})
        port = options.PORTS["nn"]["http"]
        ask(self.host("nn"), port, f"/webhdfs/v1{path}?{words}", method="PUT")

    def put_out_of_service(self, *daemons: str, within_s: int = 60) -> None:
        """Let these nodes leave gracefully: whatever still runs there then is killed."""
        text = "".join(f"{self.host(one)}\n" for one in daemons)
        (self.directory / EXCLUDED).write_text(text)
        self.run("yarn", "rmadmin", "-refreshNodes", "-g", str(within_s), "-server")

    def state_of(self, daemon: str) -> str:
        """Return a node's state, as the RM shows it."""
        host = self.host(daemon)
        return next(str(one["state"]) for one in self.nodes() if one["nodeHostName"] == host)

    def left_in(self, staging: str) -> list[str]:
        """Return what is in *staging*, but for the archive of classes that later starts use."""
        archives = f"{staging}/.classes/"
        return [path for path in self.hdfs_listing(staging) if not path.startswith(archives)]

    def kill_node(self, daemon: str) -> None:
        """Kill a NodeManager and all its containers at once, as the loss of a machine does."""
        self.kill(daemon)
        for one in containers(self.directory / "data" / daemon):
            one.send(signal.SIGKILL)


@contextlib.contextmanager
def sandbox(directory: Path, **options: Any) -> Iterator[Hadoop]:
    """Run a sandbox of its own, on a network that nobody uses; jars come from the user's cache."""
    with free_network() as number:
        usual = {"network": number, "expiry_s": EXPIRY_S, **chosen(), **options}
        master_s = max(MASTER_EXPIRY_S, usual["expiry_s"])
        patient = {MASTER_EXPIRY: str(round(1000 * master_s))}
        usual["properties"] = {**patient, **usual.get("properties", {})}
        shape = SandboxOptions(**usual)
        with one_maven():
            jars.fetched(shape.hadoop, context(), shape.repository)
        one = Hadoop(directory, context(), shape)
        try:
            one.up()
            yield one
        finally:
            one.down()


def chosen() -> dict[str, str]:
    """Return the options of every sandbox that this session was told."""
    environ = context().environ
    return {option: environ[name] for option, name in CHOSEN.items() if environ.get(name)}


@contextlib.contextmanager
def free_network() -> Iterator[int]:
    """Hold one where no sandbox runs: the user's own, and other sessions', are left alone.

    Two workers look at the same moment: who has bound its name has the network. Such a name
    is not a file, lives as long as the socket, and is seen as far as the addresses are.
    """
    for number in NETWORKS:
        options = SandboxOptions(network=number, ha=True)
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                claim.bind(f"\0tarn-test-network-{number}")
                check_free(daemons(options, ""), options)
            except (OSError, RefusedError):
                continue
            yield number
            return
    raise LookupError("sandboxes of other sessions use every network for tests; end them")


@contextlib.contextmanager
def session_sandbox(directory: Path) -> Iterator[Hadoop]:
    """Run the sandbox that all suites of a session share, or take the one that is named."""
    shared = context().environ.get(SHARED)
    if shared:
        one = Hadoop(Path(shared), context())
        wanted = attrs.evolve(one.options, **chosen())
        assert wanted == one.options, f"{SHARED} is of Hadoop {one.options.hadoop}"
        one.up()
        yield one
    else:
        with sandbox(directory) as one:
            yield one


def context() -> ClientContext:
    environ = config.environ()
    return ClientContext(SystemClock(), environ, config.paths(environ))


class YarnHouse(House):
    """One TARN_HOME whose clusters run in the sandbox; nothing of them is left after `clear`."""

    def __init__(self, root: Path, hadoop: Hadoop) -> None:
        super().__init__(root)
        self.hadoop = hadoop
        self.environ |= hadoop.environ
        self.staging = f"/tmp/tarn-test-{secrets.token_hex(4)}"
        """On HDFS, this house's alone; readable by the nodes, as the master's files must be."""
        hadoop.hdfs_make(self.staging)
        self._names: list[str] = []
        self._before = {app["id"] for app in hadoop.apps()}

    def spec(self, name: str, *, options: Mapping[str, Any] | None = None, **keys: Any) -> str:
        """Write a ``tarn.yaml`` for the echo model; *options* are the runtime's."""
        self._names.append(name)
        plain: dict[str, Any] = {
            "runtime": {
                "use": "yarn",
                "options": {"docker": None, "staging": self.staging, **(options or {})},
            },
            "instance": {"resources": dict(SMALL)},
            **keys,
        }
        return super().spec(name, **plain)

    # -- what YARN says

    def applications(self, name: str, states: tuple[str, ...] = ALIVE) -> list[dict[str, Any]]:
        """Return this house's applications of the cluster *name*, the newest first."""
        tag = f"tarn-{getpass.getuser()}-{name}"
        found = self.hadoop.apps(applicationTags=tag, states=",".join(states))
        mine = [app for app in found if app["id"] not in self._before]
        return sorted(mine, key=lambda app: app["startedTime"], reverse=True)

    def application(self, name: str) -> dict[str, Any]:
        """Return the one that runs."""
        (one,) = self.applications(name)
        return one

    def processes(self, name: str) -> dict[int, list[str]]:
        """Return what runs on the nodes for *name*, masters included: pid to argv."""
        return {
            pid: argv for members in self.containers(name).values() for pid, argv in members.items()
        }

    def containers(self, name: str) -> dict[str, dict[int, list[str]]]:
        """Return container id -> its processes (pid to argv), of every application of *name*."""
        ids = [
            app["id"] for app in self.applications(name, (*ALIVE, "FINISHED", "FAILED", "KILLED"))
        ]
        marks = tuple(one.removeprefix("application_") for one in ids)
        found: dict[str, dict[int, list[str]]] = {}
        for one in contained():
            of = re.sub(r"^container_(e\d+_)?", "", one.container_id)
            if of.startswith(tuple(f"{mark}_" for mark in marks)):
                found.setdefault(one.container_id, {})[one.pid] = one.argv
        return found

    def masters(self, name: str) -> dict[str, dict[int, list[str]]]:
        """Return the containers of masters: the first one of each attempt."""
        return {c: p for c, p in self.containers(name).items() if c.endswith("_000001")}

    def instances(self, name: str) -> dict[str, dict[int, list[str]]]:
        """Return the containers of instances."""
        return {c: p for c, p in self.containers(name).items() if not c.endswith("_000001")}

    # -- the end

    def clear(self) -> None:
        """End every cluster; what `tarn down` leaves in YARN is killed, and is a failure."""
        for name in self._names:
            for pid in self.processes(name):
                _send(pid, signal.SIGCONT)
            if self.applications(name):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.tarn("down", "-c", name, "--timeout", "60s")
        applications = {name: self._left(name) for name in self._names}
        for ids in applications.values():
            for one in ids:
                self.hadoop.kill_application(one)
        processes = {name: self._still(name) for name in self._names}
        for members in processes.values():
            for pid in members:
                _send(pid, signal.SIGKILL)
        self.hadoop.hdfs_remove(self.staging)
        assert not any(applications.values()), f"left in YARN: {applications}"
        assert not any(processes.values()), f"left running: {processes}"

    def _left(self, name: str) -> list[str]:
        """Return the applications that still run; YARN may take a moment to end one."""
        return [app["id"] for app in _last(lambda: self.applications(name), 10)]

    def _still(self, name: str) -> dict[int, list[str]]:
        return _last(lambda: self.processes(name), 20)


def _last(ask: Callable[[], T], within_s: float) -> T:
    """Ask until the answer is empty, or time is over; return the last one."""
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while (found := ask()) and time.monotonic() < end_s:
        pause.wait(0.1)
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        kill(pid, number)


@attrs.frozen
class ContainerProcess:
    """A process that a NodeManager started, or a child of one."""

    pid: int
    environ: dict[str, str]
    argv: list[str]

    @property
    def container_id(self) -> str:
        return self.environ["CONTAINER_ID"]


def contained() -> Iterator[ContainerProcess]:
    """Yield every process in a container, of whatever sandbox."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            pairs = map(os.fsdecode, environment_of(int(entry.name)))
            argv = os.fsdecode((entry / "cmdline").read_bytes()).split("\0")
        except OSError:
            continue
        environ = dict(pair.partition("=")[::2] for pair in pairs)
        if "CONTAINER_ID" in environ:
            yield ContainerProcess(int(entry.name), environ, [a for a in argv if a])


def java(hadoop: Mapping[str, str]) -> None:
    """Start the JVM once in this process; *hadoop* is the sandbox's part of the environment."""
    every = {**config.environ(), **hadoop}
    start_jvm(hadoop_classpath(every), JVM_HEAP_MIB, java_home(every))


@pytest.fixture(scope="session")
def shared_hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with session_sandbox(tmp_path_factory.mktemp("hadoop") / "sandbox") as one:
        yield one


@pytest.fixture
def hadoop(shared_hadoop: Hadoop) -> Hadoop:
    """The session's YARN, every daemon of it at work."""
    shared_hadoop.up()
    return shared_hadoop


@pytest.fixture
def yarn_house(tmp_path: Path, hadoop: Hadoop) -> Iterator[YarnHouse]:
    one = YarnHouse(tmp_path, hadoop)
    yield one
    hadoop.up()
    one.clear()


@pytest.fixture(scope="session")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """A YARN of three nodes with a realm of its own, whose tokens live for `KERBEROS_LIFE_S`.

    Only the files that tests/conftest.py keeps together for it use it: tests that kill its daemons
    need not be the last.
    """
    if shutil.which("krb5kdc", path=with_sbin({})["PATH"]) is None:
        pytest.skip("needs MIT Kerberos: apt install krb5-kdc krb5-admin-server krb5-user")
    given = context().environ.get(SHARED)
    if given and Hadoop(Path(given), context()).options.kerberos:
        with session_sandbox(Path(given)) as one:
            one.log_in()
            yield one
        return
    directory = tmp_path_factory.mktemp("kerberos") / "sandbox"
    with sandbox(directory, kerberos=True, token_life_s=KERBEROS_LIFE_S) as one:
        yield one


@pytest.fixture
def kerberos_house(tmp_path: Path, kerberized: Hadoop) -> Iterator[YarnHouse]:
    """Return a home whose clusters run in `kerberized`, with a fresh ticket."""
    kerberized.log_in()
    one = YarnHouse(tmp_path, kerberized)
    yield one
    kerberized.up()
    kerberized.log_in()
    one.clear()


@pytest.fixture(scope="module")
def shared_hadoop_ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with sandbox(tmp_path_factory.mktemp("ha") / "sandbox", ha=True, nodes=1) as one:
        yield one


@pytest.fixture
def hadoop_ha(shared_hadoop_ha: Hadoop) -> Hadoop:
    """Another YARN, of two ResourceManagers and one node; for `YarnHouse(tmp_path, hadoop_ha)`."""
    shared_hadoop_ha.up()
    return shared_hadoop_ha
