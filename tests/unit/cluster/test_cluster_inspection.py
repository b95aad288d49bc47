"""What tools of plugins get of a cluster."""

from pathlib import Path
from typing import Any

import pytest
from fake_fleet import URL, FakeFleet

from tarn.cluster import Cluster
from tarn.cluster.connecting import inspect
from tarn.cluster.inspection import Inspection
from tarn.errors import ConfigError, NotFoundError, ProviderMissingError
from tarn.hookspecs import hookimpl
from tarn.interfaces import ClusterInspection


class Bundler:
    """A plugin that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @hookimpl
    def tarn_support_bundle(
        self, subject: ClusterInspection, path: Path | None, log_mib: float, with_names: bool
    ) -> Path:
        self.asked.append((subject.name, subject.status()["name"], path, log_mib, with_names))
        return Path("there")


def looked(fleet: FakeFleet, name: str | None = None, file: Path | None = None) -> Inspection:
    return inspect(name, file, fleet.environment, lambda _progress: None, lambda: None)


def test_a_plugin_makes_the_support_bundle(cluster: Cluster, fleet: FakeFleet) -> None:
    """It gets the cluster, and says where the file is."""
    bundler = Bundler()
    fleet.plugins.append(bundler)
    assert cluster.support_bundle("x.tar.gz", with_names=True) == Path("there")
    assert bundler.asked == [("demo", "demo", Path("x.tar.gz"), 2.0, True)]


def test_without_such_a_plugin_there_is_none(cluster: Cluster) -> None:
    """The error says what is missing."""
    with pytest.raises(ProviderMissingError, match=r"cli_support_bundle.*switched off"):
        cluster.support_bundle()


def test_a_cluster_that_runs_answers(cluster: Cluster, fleet: FakeFleet) -> None:
    """By its name, or as the one that is meant here."""
    one = looked(fleet, "demo")
    assert one.asks
    assert one.spec == cluster.spec
    assert one.why(one.status()).startswith("demo: 2 of 2 ready")
    assert "tarn_asked" in one.text("/metrics")
    assert {"kind": "runtime", "name": "fake", "plugin": "FakePlugin (extra 0)"} in one.providers()
    assert one.doctor()[0]
    one.close()
    assert looked(fleet).name == "demo"
    assert "models" not in repr(one)


def test_what_nobody_knows_is_an_error_or_this_machine_alone(fleet: FakeFleet) -> None:
    """A name that was given must mean something; without one there is still the machine."""
    with pytest.raises(NotFoundError):
        looked(fleet, "nope")
    alone = looked(fleet)
    assert (alone.name, alone.asks, alone.spec, alone.directory) == ("", False, None, None)
    with pytest.raises(NotFoundError, match="there is no cluster to ask"):
        alone.status()


def test_a_spec_of_another_cluster_is_refused(cluster: Cluster, fleet: FakeFleet) -> None:
    """What it hides would not be searched for."""
    Path("other.yaml").write_text("name: other\nmodels: models\nruntime: {use: fake}\n")
    with pytest.raises(ConfigError, match="is the spec of 'other'"):
        looked(fleet, "demo", Path("other.yaml"))
    assert cluster.url == URL
