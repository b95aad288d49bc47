"""A YARN in memory that outlives masters: late, double, rejecting, losing, restarting on demand.

It is played through the doors of `messages`: `FakeYarn.doors` gives those of one attempt. What must
never happen is noted in `FakeYarn.violations` when it happens.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping

import attrs

from tarn.domain import Launch
from tarn.errors import LaunchError, NotFoundError, ProviderError, RefusedError, Superseded
from tarn_plugins.runtime.yarn.hadoop.web import NodeLogs, PageMissingError
from tarn_plugins.runtime.yarn.master.recovery import file_name, record_of
from tarn_plugins.runtime.yarn.master.runtime import YarnServices
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Ask,
    Completed,
    ContainerLaunch,
    ContainerRecord,
    Exchange,
    FileEntry,
    Registered,
    Rejected,
    Shape,
)

APPLICATION_ID = "application_1700000000000_0001"
STAGING = "hdfs://fake/tarn/fleet"
PRIVATE = f"{STAGING}/private"
LAUNCHES = f"{PRIVATE}/launches"
LOST_NODE = "Container released on a *lost* node"
CRASH = 'E1127 23:52:37.2 2510 main.cc:345] "no such GPU"'


@attrs.define(eq=False)
class Node:
    """One NodeManager."""

    name: str
    memory_mib: int
    vcores: int
    accelerators: dict[str, int]
    label: str = ""
    alive: bool = True
    reachable: bool = True
    """It takes calls; its containers live on without."""
    breaks: bool = False
    """What starts here ends at once."""


@attrs.define(eq=False)
class Container:
    """One container, from its grant to its end."""

    grant: AllocatedContainer
    shape: Shape
    attempt: int
    record: ContainerRecord | None = None
    """None until it is started."""
    dying: Completed | None = None
    """Ends with the next exchange."""

    @property
    def id(self) -> str:
        return self.grant.container_id


class FakeYarn:
    """The cluster. Any thread.

    Args:
        nodes: How many NodeManagers.
        memory_mib: Of each.
        gpus: ``yarn.io/gpu`` of each.
        plain: It takes no constraints, only a blacklist.
        chance: For the faults in `odds`.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        memory_mib: int = 16_384,
        gpus: int = 0,
        plain: bool = False,
        chance: random.Random | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.nodes = {
            f"nm-{i}": Node(f"nm-{i}", memory_mib, 16, {"yarn.io/gpu": gpus} if gpus else {})
            for i in range(1, nodes + 1)
        }
        self.plain = plain
        self.chance = chance or random.Random(1)
        self.odds: dict[str, float] = {}
        """Fault to probability; nothing goes wrong without."""
        self.faults: Counter[str] = Counter()
        self.attempt = 0
        self.registered = 0
        self.finished = False
        self.broken: set[str] = set()
        """Spec hashes whose processes end at once."""
        self.answering = threading.Event()
        """Cleared: the ResourceManager is away, and calls to it block."""
        self.answering.set()
        self.files = FakeFiles()
        self.servers: dict[tuple[str, int], str] = {}
        """(host, HTTP port) to the id that a Triton tells there."""
        self.containers: dict[str, Container] = {}
        self.asks: dict[int, Ask] = {}
        self.avoided: set[str] = set()
        self.rejecting: dict[int, str] = {}
        self.invalid: set[int] = set()
        """Asks that are refused with the whole heartbeat, and so with every later one."""
        self.hold_grants = False
        self.started: list[tuple[str, str]] = []
        """(instance id, container id) of each start."""
        self.stopped: list[str] = []
        self.released: list[str] = []
        self.exchanges: list[Exchange] = []
        self.violations: list[str] = []
        self._next = 1
        self._granted: list[tuple[int, AllocatedContainer]] = []
        """(exchanges to wait, grant)."""
        self._completed: list[Completed] = []
        self._rejected: list[Rejected] = []
        self._late: list[AllocatedContainer] = []
        self.leaving: dict[str, str] = {}

    # What a test does.

    def claim(self) -> int:
        """Return the number of a new attempt."""
        with self.lock:
            self.attempt += 1
            return self.attempt

    def services(self, attempt: int, spec_hash: str = "") -> YarnServices:
        """Return the doors of one attempt."""
        return YarnServices(
            FakeRM(self, attempt),
            FakeNMs(self, attempt),
            self.files,
            FakeLauncher(self.files, self.play),
            spec_hash,
            APPLICATION_ID,
            logs=NodeLogs(self.page).tail,
            server_id=lambda endpoint: self.servers.get((endpoint.host, endpoint.http_port), ""),
        )

    def page(self, url: str) -> bytes:
        """Return what the web server of a NodeManager prints: two lines of each start."""
        container_id = url.partition("/containers/")[2].partition("/")[0]
        with self.lock:
            whose = {id_: instance_id for instance_id, id_ in self.started}
            if container_id not in whose or "/triton.stderr?" not in url:
                raise PageMissingError("yarn", "the server answered HTTP 404", where=url)
            text = f"started for {whose[container_id]}\nE {CRASH}\n".encode()
        head = f"LogType:triton.stderr\nLogLength:{len(text)}\nLogContents:\n".encode()
        return head + text + b"\nEnd of LogType:triton.stderr\n"

    def running(self) -> dict[str, str]:
        """Return instance id to container id of every process."""
        with self.lock:
            return {c.record.instance_id: c.id for c in self.containers.values() if c.record}

    def surplus(self) -> list[str]:
        """Return the containers that exist and were never started."""
        with self.lock:
            return [c.id for c in self.containers.values() if c.record is None]

    def end(self, container_id: str, code: int = 1, diagnostics: str = "") -> None:
        """Let a container end by itself; its completion may get lost."""
        with self.lock:
            if self.containers.pop(container_id, None) is None:
                return
            self.leaving.pop(container_id, None)
            if not self.play("completion lost"):
                self._completed.append(Completed(container_id, code, diagnostics))

    def say_completed(self, *completed: Completed) -> None:
        """Tell of ends, whatever is true."""
        with self.lock:
            self._completed += completed

    def say_granted(self, *grants: AllocatedContainer) -> None:
        """Tell of grants, whatever is true."""
        with self.lock:
            self._granted += [(0, grant) for grant in grants]

    def grant_again(self, number: int, shape: Shape) -> AllocatedContainer:
        """Grant one container that nobody asked for."""
        with self.lock:
            grant = self._allocate(Ask(number, shape), tag=False)
            assert grant is not None
            self._granted.append((0, grant))
            return grant

    def kill_node(self, name: str) -> None:
        """Lose a node and everything on it."""
        with self.lock:
            self.nodes[name].alive = False
            for container in list(self.containers.values()):
                if container.grant.node == name:
                    self.end(container.id, -100, LOST_NODE)

    def revive(self) -> None:
        """Bring every node back, sound."""
        with self.lock:
            for node in self.nodes.values():
                node.alive = node.reachable = True
                node.breaks = False

    def play(self, fault: str) -> bool:
        """Say whether *fault* strikes now."""
        if self.chance.random() < self.odds.get(fault, 0.0):
            self.faults[fault] += 1
            return True
        return False

    # What the doors do, under the lock.

    def check(self, attempt: int) -> None:
        """Raise for an attempt that is not the registered one."""
        if attempt != self.registered:
            raise Superseded(f"1-{attempt}", f"1-{max(self.registered, self.attempt)}")

    def register(self, attempt: int) -> Registered:
        """Begin an attempt: what its predecessor asked for, or never started, is gone."""
        if attempt < self.registered:
            raise Superseded(f"1-{attempt}", f"1-{self.registered}")
        self.registered, self.finished = attempt, False
        self.asks.clear()  # but not what it avoids: YARN keeps that over attempts
        self._granted.clear()
        self._rejected.clear()
        self._late.clear()
        for container in list(self.containers.values()):
            if container.record is None:
                self.end(container.id, -100, "Container of a completed application")
        found = [c.grant for c in self.containers.values()]
        self._late = [grant for grant in found if self.play("recovered late")]
        most = next(iter(self.nodes.values()))
        maximum = {"memory-mb": most.memory_mib, "vcores": most.vcores, **most.accelerators}
        return Registered(tuple(g for g in found if g not in self._late), maximum)

    def exchange(self, said: Exchange) -> AllocateResponse:
        """Take in *said*, schedule, and answer."""
        self.exchanges.append(said)
        for ask in said.asks:
            self._check_ask(ask)
            self.asks[ask.number] = ask
        for ask in said.cancels:
            self.asks.pop(ask.number, None)
        for container_id in said.releases:
            self.released.append(container_id)
            self.end(container_id, -100, "Container released by application")
        self.avoided |= set(said.avoid)
        self.avoided -= set(said.welcome)
        self._let_die()
        if not self.hold_grants:
            self._schedule()
        return self._answer()

    def start(self, attempt: int, grant: AllocatedContainer, launch: ContainerLaunch) -> None:
        """Start a process."""
        container = self.containers.get(grant.container_id)
        record = record_of(launch.environ["RECORD"])
        assert record is not None
        if attempt != self.registered:
            self.violations.append(f"attempt {attempt} started {record.instance_id}")
        if container is None:
            raise LaunchError("yarn", "no such container", retry_after_s=1.0)
        if container.record is not None:
            self.violations.append(f"{container.id} was started twice")
        if record.instance_id in self.running():
            self.violations.append(f"{record.instance_id} runs twice")
        self._check_alone(container)
        container.record = record
        self.started.append((record.instance_id, container.id))
        if record.spec_hash in self.broken or self.nodes[grant.node].breaks:
            container.dying = Completed(container.id, 1, CRASH)

    def stop(self, attempt: int, grant: AllocatedContainer) -> None:
        """Stop a process, soon."""
        if attempt != self.registered:
            self.violations.append(f"attempt {attempt} stopped {grant.container_id}")
        container = self.containers.get(grant.container_id)
        self.stopped.append(grant.container_id)
        if container is not None and not self.play("stop ignored"):
            container.dying = Completed(container.id, -105, "Container killed by the AM")

    # Scheduling.

    def _check_ask(self, ask: Ask) -> None:
        old = self.asks.get(ask.number)
        if old is not None and old != ask:
            self.violations.append(f"ask {ask.number} was said with two contents")
        for name, count in ask.shape.accelerators:
            if all(node.accelerators.get(name, 0) < count for node in self.nodes.values()):
                self.violations.append(f"ask {ask.number} can never be met")

    def _check_alone(self, container: Container) -> None:
        """Note a node that holds two; of one that it was not told of, no master can know."""
        untold = {grant.container_id for grant in self._late}
        for other in (c for c in self.containers.values() if c.id not in untold):
            shared = other.grant.node == container.grant.node and other is not container
            if shared and other.record is not None and container.shape.scope != "none":
                self.violations.append(f"{container.id} and {other.id} share a node")

    def _let_die(self) -> None:
        for container in list(self.containers.values()):
            if container.dying is not None and not self.play("death late"):
                dying = container.dying
                self.end(container.id, dying.exit_code, dying.diagnostics)

    def _schedule(self) -> None:
        for ask in sorted(self.asks.values(), key=lambda a: a.number):
            reason = self.rejecting.get(ask.number, "")
            if reason or self.play("rejected"):
                del self.asks[ask.number]
                self._rejected.append(Rejected(ask.number, reason or "COULD_NOT_PLACE_ON_NODE"))
                continue
            if self.play("grant later"):
                continue
            grant = self._allocate(ask, tag=not self.plain)
            if grant is None:
                continue
            del self.asks[ask.number]
            self._granted.append((self.chance.randrange(4) if self.play("late") else 0, grant))
            if self.play("told twice"):
                self._granted.append((self.chance.randrange(3), grant))
            if self.play("doubled"):
                second = self._allocate(ask, tag=False)
                self._granted += [(self.chance.randrange(2), second)] if second else []

    def _allocate(self, ask: Ask, *, tag: bool) -> AllocatedContainer | None:
        fitting = [n for n in self.nodes.values() if self._fits(n, ask.shape, tag=tag)]
        if not fitting:
            return None
        node = self.chance.choice(fitting)
        container_id = f"container_e01_1700000000000_0001_{self.registered:02d}_{self._next:06d}"
        self._next += 1
        grant = AllocatedContainer(container_id, ask.number, node.name, 45454, f"{node.name}:8042")
        self.containers[container_id] = Container(grant, ask.shape, self.registered)
        return grant

    def _fits(self, node: Node, shape: Shape, *, tag: bool) -> bool:
        here = [c for c in self.containers.values() if c.grant.node == node.name]
        if not node.alive or node.name in self.avoided or node.label != shape.node_label:
            return False
        if tag and shape.scope != "none" and any(c.shape.tag == shape.tag for c in here):
            return False
        free = node.memory_mib - sum(c.shape.memory_mib for c in here)
        cores = node.vcores - sum(c.shape.vcores for c in here)
        return (
            free >= shape.memory_mib
            and cores >= shape.vcores
            and all(
                node.accelerators.get(name, 0)
                - sum(dict(c.shape.accelerators).get(name, 0) for c in here)
                >= count
                for name, count in shape.accelerators
            )
        )

    def _answer(self) -> AllocateResponse:
        granted = tuple(grant for wait, grant in self._granted if wait <= 0)
        self._granted = [(wait - 1, grant) for wait, grant in self._granted if wait > 0]
        completed, self._completed = tuple(self._completed), []
        rejected, self._rejected = tuple(self._rejected), []
        recovered: tuple[AllocatedContainer, ...] = ()
        if self._late and not self.play("recovered later still"):
            recovered = tuple(g for g in self._late if g.container_id in self.containers)
            self._late = []
        alive = [node for node in self.nodes.values() if node.alive]
        used = sum(c.shape.memory_mib for c in self.containers.values())
        free = sum(node.memory_mib for node in alive) - used
        return AllocateResponse(
            granted, completed, rejected, recovered, dict(self.leaving), len(alive), max(0, free)
        )


@attrs.define(eq=False, slots=False)
class FakeRM:
    """`ResourceManager` of one attempt."""

    yarn: FakeYarn
    attempt: int
    address: tuple[str, int, str] = ("", 0, "")
    closed: bool = False
    _asked: set[int] = attrs.field(factory=set)
    """Numbers that were ever said: AMRMClient says an invalid one again and again."""

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        self.address = (host, port, tracking_url)
        with self.yarn.lock:
            return self.yarn.register(self.attempt)

    def exchange(self, said: Exchange) -> AllocateResponse:
        assert self.yarn.answering.wait(60.0)
        with self.yarn.lock:
            self.yarn.check(self.attempt)
            if self.yarn.play("exchange lost"):
                raise ProviderError("yarn", "connection refused", retry_after_s=1.0)
            self._asked |= {ask.number for ask in said.asks}
            if self._asked & self.yarn.invalid:
                raise ProviderError(
                    "yarn", "it rejected a request as invalid", next_step="Fix YARN"
                )
            answer = self.yarn.exchange(said)
            if self.yarn.play("answer late"):
                # The client asks again with the same number, and gets the same answer.
                self.yarn.say_completed(*answer.completed)
                self.yarn.say_granted(*answer.granted)
                self.yarn._rejected += answer.rejected
                self.yarn._late += answer.recovered
                raise ProviderError("yarn", "connection reset", retry_after_s=1.0)
            return answer

    def unregister(self, diagnostics: str) -> None:
        with self.yarn.lock:
            self.yarn.check(self.attempt)
            self.yarn.finished = True
            self.yarn.containers.clear()

    def close(self) -> None:
        self.closed = True


@attrs.define(eq=False, slots=False)
class FakeNMs:
    """`NodeManagers` of one attempt."""

    yarn: FakeYarn
    attempt: int

    def start(self, grant: AllocatedContainer, launch: ContainerLaunch) -> None:
        with self.yarn.lock:
            self._reach(grant)
            if self.yarn.play("start failed"):
                raise LaunchError("yarn", "the node is full", retry_after_s=1.0)
            self.yarn.start(self.attempt, grant, launch)
            if self.yarn.play("start unheard"):
                raise LaunchError("yarn", "no answer in 10 s", retry_after_s=1.0)

    def stop(self, grant: AllocatedContainer) -> None:
        with self.yarn.lock:
            self._reach(grant)
            self.yarn.stop(self.attempt, grant)

    def close(self) -> None:
        pass

    def _reach(self, grant: AllocatedContainer) -> None:
        node = self.yarn.nodes[grant.node]
        if not node.alive or not node.reachable or self.yarn.play("unreachable"):
            raise LaunchError("yarn", f"{grant.node} does not answer", retry_after_s=1.0)


@attrs.define(eq=False)
class FakeLauncher:
    """`Launcher`: one file whose name is the record."""

    files: "FakeFiles"
    play: Callable[[str], bool] = lambda _: False
    hopeless: set[str] = attrs.field(factory=set)
    """Spec hashes that can never be launched."""

    def prepare(self, record: ContainerRecord, launch: Launch) -> ContainerLaunch:
        if launch.spec_hash in self.hopeless:
            raise LaunchError("yarn", "model repository is gone")
        name = file_name(record)
        self.files.write(f"{LAUNCHES}/{name}", b"secret")
        if self.play("unprepared"):
            raise LaunchError("yarn", "the NameNode is in safe mode", retry_after_s=1.0)
        return ContainerLaunch("sh .tarn/run", {"RECORD": name})

    def note_diagnostics(self, diagnostics: str) -> None:
        """Nothing is remembered here."""


class FakeFiles:
    """`Files` in memory."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.refuses = ""
        """Why every call fails; empty: none does."""
        self.code = ""

    def read(self, uri: str) -> bytes:
        self._check(uri)
        if uri not in self.content:
            raise NotFoundError(f"{uri} is not there")
        return self.content[uri]

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        self._check(uri)
        if uri in self.content and not replace:
            raise RefusedError(f"{uri} exists")
        self.content[uri] = data

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        self._check(uri)
        below = {
            u: u.removeprefix(f"{uri}/") for u in list(self.content) if u.startswith(f"{uri}/")
        }
        if not below:
            raise NotFoundError(f"{uri} is not there")
        return tuple(
            FileEntry(path, u, len(self.content[u]), 0, public=False)
            for u, path in sorted(below.items())
            if deep or "/" not in path
        )

    def entry(self, uri: str) -> FileEntry:
        return FileEntry(uri.rpartition("/")[2], uri, len(self.read(uri)), 0, public=False)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        if source not in self.content:
            raise NotFoundError(f"{source} is not there")
        self.content[target] = self.content.pop(source)

    def remove(self, uri: str) -> None:
        self._check(uri)
        for found in list(self.content):
            if found == uri or found.startswith(f"{uri}/"):
                self.content.pop(found, None)

    def prune(self, uri: str) -> None:
        """A directory is only a part of a name here."""

    def _check(self, uri: str) -> None:
        if self.refuses:
            raise ProviderError("yarn", self.refuses, retry_after_s=1.0, where=uri, code=self.code)


def names(files: FakeFiles) -> Mapping[str, bytes]:
    """Return the launch files by name."""
    start = f"{LAUNCHES}/"
    return {u.removeprefix(start): d for u, d in files.content.items() if u.startswith(start)}
