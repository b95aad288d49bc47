"""What a master makes of the discoveries of its spec before it is announced."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from master_in_thread import Nothing, at_work, brought, running

from tarn.domain import SavedState
from tarn.domain.spec import DiscoverySpec
from tarn.errors import DiscoveryError, PluginError
from tarn.hookspecs import Factory, RuntimeFactory, hookimpl
from tarn.interfaces import Discovery, MasterContext
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeDiscovery, FakeRuntime, FakeStateStore


@attrs.frozen
class Named:
    """Who follows from elsewhere."""

    followers: tuple[str, ...] = ()


class Store(FakeStateStore):
    """One that begins with what an earlier master left."""

    left: tuple[SavedState | None, tuple[str, ...]] = (None, ())

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        return self.left


class Watched(FakeDiscovery):
    """Keeps that it was asked, and how it was closed."""

    asked = 0
    closed: list[bool]

    def reach(self, within_s: float) -> None:
        self.asked += within_s > 0
        super().reach(within_s)

    def close(self, *, withdraw: bool) -> None:
        self.closed = [*getattr(self, "closed", []), withdraw]


class World:
    """A runtime and two kinds of discovery; what was made of them."""

    def __init__(self) -> None:
        self.runtime, self.store = FakeRuntime(), Store()
        self.made: list[tuple[Watched, MasterContext]] = []
        self.broken = self.ill = ""

    def create(self, _settings: Any, context: MasterContext) -> Discovery:
        if self.ill:
            raise ValueError(self.ill)
        one = Watched()
        one.broken = self.broken
        self.made.append((one, context))
        return one

    @hookimpl
    def tarn_discoveries(self) -> Mapping[str, Factory[Discovery]]:
        return {
            "near": Factory(Nothing, self.create, "run by the master"),
            "far": Factory(Named, self.create, "run by agents"),
        }

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {"world": running(self.runtime, lambda: self.store)}


@pytest.fixture
def world() -> World:
    return World()


def run(world: World, directory: Path, *discoveries: DiscoverySpec) -> None:
    """Run a master until it has announced itself; then it leaves."""
    spec = cluster_spec()
    spec = attrs.evolve(
        spec,
        runtime=attrs.evolve(spec.runtime, use="world"),
        replicas=attrs.evolve(spec.replicas, min=0),
        discovery=discoveries,
    )
    brought(directory, spec)
    with at_work(directory, world, world.runtime):
        pass


def test_a_required_discovery_that_is_away_ends_a_first_start(world: World, tmp_path: Path) -> None:
    """Before anybody is told where the master is; what was made is closed."""
    world.broken = "no server answers"
    with pytest.raises(DiscoveryError, match=r"discovery near: .*no server answers") as said:
        run(world, tmp_path, DiscoverySpec("near", required=True), DiscoverySpec("near"))
    assert said.value.exit_code == 1
    assert world.runtime.api_url == ""
    assert [one.closed for one, _ in world.made] == [[False], [False]]


def test_one_that_is_not_required_is_not_even_asked(world: World, tmp_path: Path) -> None:
    """Its views are tried again for as long as it takes."""
    world.broken = "no server answers"
    run(world, tmp_path, DiscoverySpec("near"))
    assert world.made[0][0].asked == 0


def test_a_required_one_that_answers_lets_the_start_go_on(world: World, tmp_path: Path) -> None:
    """Asked once."""
    run(world, tmp_path, DiscoverySpec("near", required=True))
    assert world.made[0][0].asked == 1


@pytest.mark.parametrize("left", [(SavedState(2), ()), (None, ("state.1 could not be read",))])
def test_a_later_master_goes_on_without_it(
    world: World, tmp_path: Path, left: tuple[SavedState | None, tuple[str, ...]]
) -> None:
    """Its fleet serves, which is worth more."""
    world.store.left, world.broken = left, "no server answers"
    run(world, tmp_path, DiscoverySpec("near", required=True))
    assert world.made[0][0].asked == 0


def test_what_agents_elsewhere_do_is_not_made_by_the_master(world: World, tmp_path: Path) -> None:
    """Nor is it asked, required or not: an agent comes when it comes."""
    world.broken = "never asked"
    far = DiscoverySpec("far", {"followers": ["lb1"]}, required=True)
    run(world, tmp_path, far, DiscoverySpec("near"))
    assert len(world.made) == 1


def test_a_discovery_knows_where_its_master_listens(world: World, tmp_path: Path) -> None:
    """It may publish that, too."""
    run(world, tmp_path, DiscoverySpec("near"))
    assert world.made[0][1].api_url == world.runtime.api_url != ""


def test_one_that_cannot_be_made_is_named(world: World, tmp_path: Path) -> None:
    """With what it said."""
    world.ill = "odd"
    with pytest.raises(PluginError, match="discovery 'near' raised ValueError: odd"):
        run(world, tmp_path, DiscoverySpec("near"))
