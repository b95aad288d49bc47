"""What the tritonserver of this machine cannot serve is said before it is started."""

from pathlib import Path

import attrs
import pytest

from tarn.domain import ClusterSpec
from tarn.domain.spec import ModelsSpec
from tarn.interfaces import Finding
from tarn.triton import fitting
from tarn.triton.binary import check, find_wheel

PYTHON = fitting.Backends("Triton of the wheel", frozenset({"python"}))


def spec(place: Path, **models: object) -> ClusterSpec:
    return attrs.evolve(
        ClusterSpec(name="c", models=ModelsSpec(str(place))),
        models=attrs.evolve(ModelsSpec(str(place)), **models),
    )


def model(place: Path, name: str, backend: str, *files: str) -> Path:
    for file in files:
        (place / name / file).parent.mkdir(parents=True, exist_ok=True)
        (place / name / file).write_bytes(b"")
    (place / name / "config.pbtxt").write_text(f'backend: "{backend}"\n')
    return place


def misfits(place: Path, **models: object) -> list[Finding]:
    return list(fitting.misfits(str(place), spec(place, **models), PYTHON))


def test_a_missing_back_end_is_told_with_what_is_there_and_the_ways_out(tmp_path: Path) -> None:
    """One finding for each back end."""
    (found,) = misfits(model(tmp_path, "net", "onnxruntime", "1/model.onnx"))
    assert (found.code, found.fatal) == ("TARN-3115", True)
    assert found.found == (
        "model 'net' needs the back end 'onnxruntime', but Triton of the wheel has only: python"
    )
    for way in ("triton.binary", "image", "onnxruntime in a Python model"):
        assert way in found.next_step


def test_what_can_be_served_is_served_unless_all_are_required(tmp_path: Path) -> None:
    """As at run time: ``models.require``, and only what ``models.serve`` names."""
    model(tmp_path, "net", "onnxruntime", "1/model.onnx")
    model(tmp_path, "echo", "python", "1/model.py")
    assert [one.fatal for one in misfits(tmp_path)] == [False]
    assert [one.fatal for one in misfits(tmp_path, require="all")] == [True]
    assert misfits(tmp_path, serve=("echo",)) == []
    assert [one.fatal for one in misfits(tmp_path, serve=("net",))] == [True]


def test_a_back_end_that_the_model_brings_is_there(tmp_path: Path) -> None:
    """Triton looks into the version and the model before its own folder."""
    model(tmp_path, "one", "acme", "1/libtriton_acme.so")
    model(tmp_path, "two", "acme", "libtriton_acme.so")
    assert misfits(tmp_path) == []


def test_an_ensemble_and_an_unreadable_configuration_are_not_judged(tmp_path: Path) -> None:
    """The first is Triton's own; the second is for lint to tell."""
    model(tmp_path, "broken", "python", "1/model.py")
    (tmp_path / "broken" / "config.pbtxt").write_text("{")
    (tmp_path / "both" / "1").mkdir(parents=True)
    (tmp_path / "both" / "config.pbtxt").write_text('platform: "ensemble"')
    assert misfits(tmp_path) == []


@pytest.mark.parametrize("folder", ["josé", "with space", "it's", "a$b", "a;b", "a(b)", "a\\b"])
def test_a_path_that_the_python_back_end_cannot_load_from_is_refused(
    folder: str, tmp_path: Path
) -> None:
    """Other back ends take it, and so does a link to it without such signs."""
    place = tmp_path / folder
    model(place, "echo", "python", "1/model.py")
    (found,) = misfits(place)
    assert (found.code, found.fatal) == ("TARN-2205", True)
    assert (
        "in its path, and Triton's Python back end cannot load a model from such a path"
        in found.found
    )
    assert "ln -s" in found.next_step
    (tmp_path / "link").symlink_to(place)
    assert misfits(tmp_path / "link") == []
    other = tmp_path / "other" / folder
    model(other, "net", "acme", "1/libtriton_acme.so")
    assert misfits(other) == []


def test_the_back_ends_of_a_tritonserver_lie_beside_it(tmp_path: Path) -> None:
    """Or where triton.args says; nothing is claimed of a server whose folder is not found."""
    server = tmp_path / "bin" / "tritonserver"
    server.parent.mkdir()
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    assert fitting.backends_of(str(server), {}, {}) is None
    for name in ("python", "onnxruntime"):
        (tmp_path / "backends" / name).mkdir(parents=True)
    found = fitting.backends_of(str(server), {}, {})
    assert found is not None
    assert found.names == {"python", "onnxruntime"}
    (tmp_path / "mine" / "acme").mkdir(parents=True)
    found = fitting.backends_of(str(server), {"backend_directory": str(tmp_path / "mine")}, {})
    assert found is not None
    assert found.names == {"acme"}
    assert fitting.backends_of(str(server), {"backend_directory": True}, {}) is None  # no folder


@pytest.mark.skipif(find_wheel() is None, reason="needs the wheel nvidia-pytriton")
def test_a_cache_that_the_wheels_back_end_cannot_be_loaded_from_is_told(tmp_path: Path) -> None:
    """A user called josé has it below her home; another tritonserver brings its own back end."""
    wrong = [one for one in check(None, {}, tmp_path / "josé") if one.code == "TARN-2205"]
    assert len(wrong) == 1
    assert "XDG_CACHE_HOME" in wrong[0].next_step
    assert not [one for one in check(None, {}, tmp_path) if one.code == "TARN-2205"]
    server = tmp_path / "tritonserver"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    assert list(check(str(server), {}, tmp_path / "josé")) == []
