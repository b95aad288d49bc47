"""The secret from which Triton's keys are derived: brought, kept, and never done without."""

import json
from pathlib import Path

import attrs
import pytest

from tarn.cluster.start.launch import triton_secret
from tarn.control.launching import launch_in
from tarn.domain import Secret
from tarn.errors import ConfigError, LaunchError
from tarn.testing.context import cluster_spec


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "staged.json").write_text(json.dumps({"location": "/models"}))
    return tmp_path


def test_a_master_has_what_the_client_brought(directory: Path) -> None:
    """And shows it to nobody."""
    (directory / "triton.secret").write_bytes(b"open-sesame\n")
    launch = launch_in(directory, cluster_spec())
    assert launch.keys == Secret("open-sesame")
    assert "sesame" not in repr(launch)


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_without_it_nothing_is_started(directory: Path, content: bytes | None) -> None:
    """Better no instance than one that anybody may empty."""
    if content is not None:
        (directory / "triton.secret").write_bytes(content)
    with pytest.raises(LaunchError) as caught:
        launch_in(directory, cluster_spec())
    assert caught.value.code == "TARN-3780"
    assert str(directory / "triton.secret") in str(caught.value)


def test_where_nothing_is_restricted_it_is_not_asked_for(directory: Path) -> None:
    """A user who opens everything needs no keys."""
    spec = cluster_spec()
    spec = attrs.evolve(spec, triton=attrs.evolve(spec.triton, restricted=()))
    assert launch_in(directory, spec).keys is None


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
