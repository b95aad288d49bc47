"""Fakes around a runtime: deployer, uploader, state store, user directory; and a factory."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import ClusterSpec, Epoch, SavedState
from tarn.domain.state import SCHEMA
from tarn.errors import (
    LaunchError,
    NotFoundError,
    ProviderError,
    RefusedError,
    Superseded,
    TarnError,
)
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import (
    ClientContext,
    ClusterRef,
    Ending,
    Finding,
    LaunchPlan,
    MasterContext,
    RuntimeCapabilities,
    Staged,
)
from tarn.testing.fakes.runtime import FakeRuntime, FakeWorld

__all__ = [
    "FakeClusters",
    "FakeDeployer",
    "FakeRuntimeSettings",
    "FakeShelf",
    "FakeStateStore",
    "FakeUploader",
    "FakeUserDirectory",
    "fake_runtime_factory",
]

_KEEP = 2


@attrs.frozen
class _Kept:
    epoch: Epoch
    state: SavedState
    schema: int = SCHEMA
    damaged: bool = False


class FakeShelf:
    """The memory behind state stores: the last two states, and the highest epoch that saved."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: list[_Kept] = []
        self.highest: Epoch | None = None
        self.things: dict[str, tuple[Epoch, bytes]] = {}
        """Name to the data of `FakeStateStore.keep`, and the epoch that kept it."""
        self.saves = 0
        """The number of saves."""
        self.broken = ""
        """While set, saving raises ``OSError`` with this text."""

    def damage_newest(self) -> None:
        """Make the newest sound state unreadable, as a bad disk would."""
        with self.lock:
            for index in reversed(range(len(self.kept))):
                if not self.kept[index].damaged:
                    self.kept[index] = attrs.evolve(self.kept[index], damaged=True)
                    return

    def make_newer(self) -> None:
        """Give the newest state the schema of a later TARN."""
        with self.lock:
            self.kept[-1] = attrs.evolve(self.kept[-1], schema=SCHEMA + 1)


class FakeStateStore:
    """Keeps states on a `FakeShelf`."""

    def __init__(self, shelf: FakeShelf | None = None) -> None:
        self.shelf = shelf or FakeShelf()

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest sound state, and a line for each damaged one."""
        alerts = []
        with self.shelf.lock:
            for kept in reversed(self.shelf.kept):
                if kept.damaged:
                    alerts.append(f"the state of epoch {kept.epoch} cannot be read")
                elif kept.schema > SCHEMA:
                    found = f"the state has schema {kept.schema}, this TARN knows {SCHEMA}"
                    raise TarnError(found, code="TARN-1007", next_step="Use the newer TARN.")
                else:
                    return kept.state, tuple(alerts)
        return None, tuple(alerts)

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Keep *state*, and the one before it."""
        with self.shelf.lock:
            if self.shelf.broken:
                raise OSError(self.shelf.broken)
            highest = self.shelf.highest
            if highest is not None and epoch < highest:
                raise Superseded(str(epoch), str(highest))
            self.shelf.highest = epoch
            self.shelf.kept = [*self.shelf.kept, _Kept(epoch, state)][-_KEEP:]
            self.shelf.saves += 1

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Keep *data* in place of what was kept as *name*."""
        with self.shelf.lock:
            if self.shelf.broken:
                raise OSError(self.shelf.broken)
            kept = self.shelf.things.get(name)
            if kept is not None and epoch < kept[0]:
                raise Superseded(str(epoch), str(kept[0]))
            self.shelf.things[name] = (epoch, data)

    def kept(self, name: str) -> bytes | None:
        """Return what was kept last as *name*."""
        with self.shelf.lock:
            kept = self.shelf.things.get(name)
        return None if kept is None else kept[1]


class FakeClusters:
    """The memory behind deployers: the running clusters, and their logs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[str, ClusterRef] = {}
        self.findings: dict[str, tuple[Finding, ...]] = {}
        """Cluster name to the findings of a check."""
        self.doomed: dict[str, str] = {}
        """Cluster name to why its master fails to start."""
        self.log_lines: dict[tuple[str, str], list[str]] = {}
        """(cluster name, instance id or '') to its log."""
        self.files: dict[str, dict[str, bytes]] = {}
        """Cluster name to the files that were submitted with it."""
        self.endings: dict[str, Ending] = {}
        """Cluster name to its last ending."""
        self.incarnation = 0

    def finish(self, name: str, state: str, reason: str) -> None:
        """End a running cluster."""
        with self.lock:
            ref = self.running.pop(name)
            self.endings[name] = Ending(name, state, reason, at=1.7e9, ref=ref)


class FakeDeployer:
    """Starts clusters by adding them to its `FakeClusters`."""

    def __init__(self, land: FakeClusters | None = None) -> None:
        self.land = land or FakeClusters()

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Return the programmed findings for *spec*."""
        return self.land.findings.get(spec.name, ())

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Return a command with the models, the environment of the spec, and two places."""
        command = ("tritonserver", f"--model-repository={staged.location}")
        places = {"models": staged.location, "cluster": f"the land/{spec.name}"}
        return LaunchPlan((command,), dict(spec.triton.env), places)

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Add the cluster to the running ones."""
        with self.land.lock:
            if spec.name in self.land.running:
                raise RefusedError(f"'{spec.name}' runs already", where=spec.name)
            if spec.name in self.land.doomed:
                raise LaunchError("fake", self.land.doomed[spec.name], where=spec.name)
            self.land.incarnation += 1
            epoch = Epoch(self.land.incarnation, 1)
            ref = ClusterRef(spec.name, "fake", epoch, url="http://127.0.0.1:1")
            self.land.running[spec.name] = ref
            lines = [f"started from {staged.location}", "listens"]
            self.land.log_lines[spec.name, ""] = lines
            self.land.files[spec.name] = dict(files)
        return ref

    def find(self, name: str) -> ClusterRef | None:
        """Return the cluster if it runs."""
        with self.land.lock:
            return self.land.running.get(name)

    def ended(self, name: str) -> Ending | None:
        """Return its last ending."""
        with self.land.lock:
            return self.land.endings.get(name)

    def end(self, ref: ClusterRef) -> None:
        """End it, unless a later one of the same name runs."""
        with self.land.lock:
            present = self.land.running.get(ref.name)
            if present is None or present.epoch != ref.epoch:
                return
        self.land.finish(ref.name, "stopped", "ended by force")

    def move(self, ref: ClusterRef, url: str) -> ClusterRef:
        """Move the master of *ref* to *url*; return its new ref."""
        moved = attrs.evolve(ref, url=url)
        with self.land.lock:
            self.land.running[ref.name] = moved
        return moved

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        """Yield the lines of the log."""
        lines = self.land.log_lines.get((ref.name, instance_id))
        if lines is None:
            raise NotFoundError(f"there is no log of '{instance_id}'", where=ref.name)
        yield from lines if tail is None else lines[max(0, len(lines) - tail) :]

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids of the instances that have a log."""
        held = self.land.log_lines
        return tuple(sorted(id_ for name, id_ in held if name == ref.name and id_))


@attrs.frozen
class FakeRuntimeSettings:
    """The settings of the fake runtime."""

    broken: tuple[str, ...] = ()
    """Spec hashes whose launches end at once."""
    doomed: tuple[str, ...] = ()
    """Names of clusters whose masters fail to start."""


class _Memory:
    """Worlds, shelves and clusters by directory, so that providers of one directory share them."""

    def __init__(self) -> None:
        self.worlds: dict[Path, FakeWorld] = {}
        self.shelves: dict[Path, FakeShelf] = {}
        self.lands: dict[Path, FakeClusters] = {}


def fake_runtime_factory(
    runtime: Callable[[FakeWorld, Any, Epoch], FakeRuntime] = FakeRuntime,
    deployer: Callable[[FakeClusters], FakeDeployer] = FakeDeployer,
    state_store: Callable[[FakeShelf], FakeStateStore] = FakeStateStore,
) -> RuntimeFactory:
    """Return a factory with its own memory; providers of one directory share a world.

    Args:
        runtime: Makes the runtime from world, clock and epoch; another class tests a suite.
        deployer: Makes the deployer from its clusters.
        state_store: Makes the state store from its shelf.
    """
    memory = _Memory()

    def world(settings: FakeRuntimeSettings, directory: Path) -> FakeWorld:
        found = memory.worlds.setdefault(directory, FakeWorld())
        for spec_hash in settings.broken:
            found.fail(spec_hash)
        return found

    def make_runtime(settings: FakeRuntimeSettings, context: MasterContext) -> FakeRuntime:
        return runtime(world(settings, context.directory), context.clock, context.epoch)

    def make_deployer(settings: FakeRuntimeSettings, context: ClientContext) -> FakeDeployer:
        land = memory.lands.setdefault(context.paths.home, FakeClusters())
        land.doomed.update(dict.fromkeys(settings.doomed, "its master ended with code 1"))
        return deployer(land)

    def make_store(_settings: FakeRuntimeSettings, context: MasterContext) -> FakeStateStore:
        return state_store(memory.shelves.setdefault(context.directory, FakeShelf()))

    def claim(settings: FakeRuntimeSettings, directory: Path, _environ: Mapping[str, str]) -> Epoch:
        return world(settings, directory).claim()

    return RuntimeFactory(
        FakeRuntimeSettings,
        make_deployer,
        make_runtime,
        make_store,
        claim,
        RuntimeCapabilities(),
        "instances in memory, for tests",
    )


class FakeUploader:
    """Keeps files in `there`, URI to content; accepts only the scheme ``fake``."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        """Keep the file's content, unless there is already a file of its size."""
        if not uri.startswith("fake://"):
            raise ProviderError("fake", "nothing can be written there", where=uri)
        content = local.read_bytes()
        held = self.there.get(uri)
        if held is None:
            self.there[uri] = content
            return uri, False
        if len(held) != len(content):
            raise RefusedError("there is another file of this name", where=uri)
        return uri, True


class FakeUserDirectory:
    """Knows the users of one realm, and their groups; usable from any thread.

    Args:
        users: User to groups.
    """

    realm = "FAKE.EXAMPLE"

    def __init__(self, users: Mapping[str, frozenset[str]] | None = None) -> None:
        self.users = dict(users or {"alice": frozenset({"analysts"}), "bob": frozenset()})

    def short(self, principal: str) -> str:
        """Return the name of a user of its realm; '' for any other principal."""
        user, at, realm = principal.partition("@")
        return user if at and realm == self.realm and user in self.users else ""

    def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*."""
        return self.users.get(user, frozenset())
