"""The fake runtime as a plugin would offer it: deployer, runtime and memory in one factory."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import Epoch
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import ClientContext, MasterContext, RuntimeCapabilities
from tarn.testing.fakes.deployer import FakeClusters, FakeDeployer
from tarn.testing.fakes.runtime import FakeRuntime
from tarn.testing.fakes.state_store import FakeShelf, FakeStateStore
from tarn.testing.fakes.world import FakeWorld

__all__ = ["FakeRuntimeSettings", "fake_runtime_factory"]


@attrs.frozen
class FakeRuntimeSettings:
    """What can be set on the fake runtime."""

    broken: tuple[str, ...] = ()
    """Spec hashes whose launches end at once."""
    doomed: tuple[str, ...] = ()
    """Names of clusters whose masters do not come up."""


class _Memory:
    """Worlds, shelves and lands by directory, so that a second provider finds the first one's."""

    def __init__(self) -> None:
        self.worlds: dict[Path, FakeWorld] = {}
        self.shelves: dict[Path, FakeShelf] = {}
        self.lands: dict[Path, FakeClusters] = {}


def fake_runtime_factory(
    runtime: Callable[[FakeWorld, Any, Epoch], FakeRuntime] = FakeRuntime,
    deployer: Callable[[FakeClusters], FakeDeployer] = FakeDeployer,
    state_store: Callable[[FakeShelf], FakeStateStore] = FakeStateStore,
) -> RuntimeFactory:
    """Return a factory with a memory of its own; equal directories share worlds.

    Args:
        runtime: Makes the runtime from world, clock and epoch: another class tests a suite.
        deployer: Makes the deployer from its land.
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
        RuntimeCapabilities(keeps_instances_on_master_loss=True, private_ports=True),
        "instances in memory, for tests",
    )
