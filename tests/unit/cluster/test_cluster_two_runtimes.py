"""A name under which a cluster runs in one runtime is not taken by `up` in another."""

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from fake_fleet import FakeFleet, FakePlugin, NoSettings, never

from tarn import plugins
from tarn.cluster import Cluster, ClusterEnvironment
from tarn.errors import LaunchError, TarnError, UnreachableError
from tarn.hookspecs import RuntimeFactory, hookimpl

SPEC = {"name": "demo", "models": "models"}


@attrs.frozen
class Other:
    """Offers the runtime ``other``, which is another fleet."""

    fleet: FakeFleet

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {
            "other": RuntimeFactory(
                NoSettings,
                lambda _settings, _context: self.fleet,
                never,
                never,
                never,
                self.fleet.capabilities,
                "another runtime in memory",
            )
        }


@pytest.fixture
def other(fleet: FakeFleet) -> FakeFleet:
    return FakeFleet(fleet.home)


@pytest.fixture
def around(fleet: FakeFleet, other: FakeFleet) -> ClusterEnvironment:
    """Surroundings with both runtimes, and a cluster that runs in the first."""
    both = [FakePlugin(fleet), Other(other)]
    around = attrs.evolve(fleet.environment, plugins=lambda: plugins.load(both, points=()))
    Cluster({**SPEC, "runtime": {"use": "fake"}}, environment=around).up()
    return around


def up(around: ClusterEnvironment) -> Cluster:
    return Cluster({**SPEC, "runtime": {"use": "other"}}, environment=around).up()


def kept(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_runs_elsewhere_is_not_lost(
    fleet: FakeFleet, other: FakeFleet, around: ClusterEnvironment
) -> None:
    """The difference is shown, and nothing is overwritten."""
    before = kept(fleet.directory)
    with pytest.raises(TarnError, match=r"runtime\.use: 'fake' -> 'other'") as caught:
        up(around)
    assert caught.value.code == "TARN-2102"
    assert kept(fleet.directory) == before
    assert other.verbs() == []


def test_what_ran_elsewhere_is_no_hindrance(
    fleet: FakeFleet, other: FakeFleet, around: ClusterEnvironment
) -> None:
    """Its reference is all that is left of it."""
    fleet.ref = None
    assert up(around).started_here
    assert "submit" in other.verbs()


def test_who_cannot_be_asked_is_no_proof(
    fleet: FakeFleet, other: FakeFleet, around: ClusterEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is overwritten either."""

    def find(_self: FakeFleet, _name: str) -> None:
        raise LaunchError("fake", "no answer", code="TARN-3130")

    before = kept(fleet.directory)
    monkeypatch.setattr(FakeFleet, "find", find)
    with pytest.raises(UnreachableError, match="runtime 'fake', and the runtime did not say"):
        up(around)
    assert kept(fleet.directory) == before
    assert other.verbs() == []
