"""The secret from which Triton's keys are derived: brought, kept, and never done without."""

import json
from pathlib import Path

import attrs
import pytest

from tarn.cluster.start.launch import triton_secret
from tarn.config import dump
from tarn.config.document import text_of
from tarn.control.editions import Edition, Editions, edition_files
from tarn.control.policy import Scaling
from tarn.control.scrape import Families
from tarn.domain import ClusterSpec, Secret
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import SignalSelection
from tarn.errors import ConfigError, LaunchError
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakePolicy


def made(directory: Path, spec: ClusterSpec) -> Edition:
    """Return the edition of *spec* that a master makes which has its files in *directory*."""
    files = {"spec.yaml": text_of(dump(spec)), "staged.json": json.dumps({"location": "/models"})}
    policy = Scaling(FakePolicy(), PluginSignals(), SignalSelection(), Families())
    return Editions(directory, lambda _spec: policy).of(edition_files(files))


def test_a_master_has_what_the_client_brought(tmp_path: Path) -> None:
    """And shows it to nobody."""
    (tmp_path / "triton.secret").write_bytes(b"open-sesame\n")
    launch = made(tmp_path, cluster_spec()).launch
    assert launch.keys == Secret("open-sesame")
    assert "sesame" not in repr(launch)


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_without_it_nothing_is_started(tmp_path: Path, content: bytes | None) -> None:
    """Better no instance than one that anybody may empty."""
    if content is not None:
        (tmp_path / "triton.secret").write_bytes(content)
    with pytest.raises(LaunchError) as caught:
        made(tmp_path, cluster_spec())
    assert caught.value.code == "TARN-3780"
    assert str(tmp_path / "triton.secret") in str(caught.value)


def test_where_nothing_is_restricted_it_is_not_asked_for(tmp_path: Path) -> None:
    """A user who opens everything needs no keys."""
    spec = cluster_spec()
    spec = attrs.evolve(spec, triton=attrs.evolve(spec.triton, restricted=()))
    assert made(tmp_path, spec).launch.keys is None


def test_a_client_makes_it_once(tmp_path: Path) -> None:
    """Who takes over instances whose master was lost needs the one that they were started with."""
    kept = tmp_path / "triton.secret"
    first = triton_secret(kept)
    assert len(first) >= 43
    assert triton_secret(kept) != first
    kept.write_bytes(first)
    assert triton_secret(kept) == first
    kept.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not ASCII text"):
        triton_secret(kept)
