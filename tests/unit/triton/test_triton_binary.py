"""tritonserver is found, and the wheel's Python backend is assembled once and whole."""

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tarn.errors import LaunchError
from tarn.triton import binary
from tarn.triton.binary import TritonProgram, Wheel, check, locate, prepare

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with the layout of nvidia-pytriton, made of small files."""
    package = tmp_path / "site-packages" / "pytriton"
    server = package / "tritonserver" / "bin" / "tritonserver"
    stub = (
        package / "tritonserver" / "python_backend_stubs" / VERSION / "triton_python_backend_stub"
    )
    backend = package / "tritonserver" / "backends" / "python"
    for path in (server, stub, backend / "libtriton_python.so"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\0libpython3-0123abcd.13.so.1.0\0")
        path.chmod(0o700)
    (backend / "triton_python_backend_utils.py").write_text(
        "import marker\nANSWER = marker.VALUE\n"
    )
    made = Wheel(package, "0.7.0")
    monkeypatch.setattr(binary, "find_wheel", lambda: made)
    return made


def program(folder: Path, name: str = "tritonserver") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


def test_the_setting_comes_first_then_the_path_then_the_wheel(tmp_path, wheel):
    """A tritonserver of the system brings its own backends."""
    on_path = program(tmp_path / "bin")
    mine = program(tmp_path / "mine", "my-triton")
    environ = {"PATH": str(on_path.parent)}
    assert locate(str(mine), environ) == str(mine)
    assert locate(None, environ) == str(on_path)
    assert locate(None, {"PATH": ""}) == wheel
    assert prepare(str(mine), environ, tmp_path / "cache") == TritonProgram(str(mine))


def test_a_setting_that_does_not_exist_is_never_replaced_by_another(tmp_path, wheel):
    """What a person names is meant."""
    with pytest.raises(LaunchError) as raised:
        locate("/nowhere/tritonserver", {"PATH": str(program(tmp_path / "bin").parent)})
    assert raised.value.code == "TARN-3101"
    assert raised.value.where == "triton.binary"


def test_nothing_at_all_says_what_to_install(monkeypatch):
    """One line, with the command."""
    monkeypatch.setattr(binary, "find_wheel", lambda: None)
    (finding,) = check(None, {"PATH": ""})
    assert finding.code == "TARN-3101"
    assert "pip install" in finding.next_step


def test_an_old_c_library_is_one_clear_line(wheel, monkeypatch):
    """Both versions are named; nothing is assembled."""
    monkeypatch.setattr(binary.os, "confstr", lambda _name: "glibc 2.31")
    (finding,) = check(None, {"PATH": ""})
    assert finding.code == "TARN-3102"
    assert "glibc 2.31" in finding.found
    assert "2.35" in finding.found
    with pytest.raises(LaunchError):
        prepare(None, {"PATH": ""}, Path("/nowhere"))


def test_a_missing_libpython_is_one_clear_line(wheel):
    """With its file name and the package that brings it."""
    wheel.stub.write_bytes(b"\0libpython3.99.so.1.0\0")
    (finding,) = check(None, {"PATH": ""})
    assert finding.code == "TARN-3104"
    assert "libpython3.99.so.1.0" in finding.found
    assert "Debian: libpython" in finding.next_step


def test_a_python_without_a_stub_is_one_clear_line(wheel):
    """A Python newer than the wheel."""
    wheel.stub.unlink()
    (finding,) = check(None, {"PATH": ""})
    assert finding.code == "TARN-3104"
    assert VERSION in finding.found


def test_the_backend_is_assembled_once_and_whole(wheel, tmp_path):
    """Three files in a folder of its own; the second time it is the same one, untouched."""
    cache = tmp_path / "cache"
    first = prepare(None, {"PATH": ""}, cache)
    folder = Path(first.backend_directory) / "python"
    assert sorted(p.name for p in folder.iterdir()) == [
        "libtriton_python.so",
        "triton_python_backend_stub",
        "triton_python_backend_utils.py",
    ]
    assert os.access(folder / "triton_python_backend_stub", os.X_OK)
    assert first.library_path == (str(wheel.libraries),)
    stamp = folder.stat().st_mtime_ns
    assert prepare(None, {"PATH": ""}, cache) == first
    assert folder.stat().st_mtime_ns == stamp
    assert [p.name for p in (cache / "backends").iterdir()] == [folder.parent.name]


def test_another_version_of_the_wheel_gets_a_backend_of_its_own(wheel, tmp_path, monkeypatch):
    """An upgrade never meets old files."""
    first = prepare(None, {"PATH": ""}, tmp_path / "cache")
    monkeypatch.setattr(binary, "find_wheel", lambda: attrs.evolve(wheel, version="0.7.1"))
    second = prepare(None, {"PATH": ""}, tmp_path / "cache")
    assert first.backend_directory != second.backend_directory


def test_the_stub_s_module_opens_the_environment_s_packages(wheel, tmp_path):
    """Run by a Python that knows nothing of the environment, it finds them all the same."""
    (wheel.package.parent / "marker.py").write_text("VALUE = 'found'\n")
    made = prepare(None, {"PATH": ""}, tmp_path / "cache")
    folder = Path(made.backend_directory) / "python"
    code = "import triton_python_backend_utils as u; print(u.ANSWER)"
    result = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert result.stdout == "found\n"


def test_a_cache_that_cannot_be_written_is_said(wheel, tmp_path):
    """Where, and why; nothing half-made stays."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "backends").write_text("a file")
    with pytest.raises(LaunchError) as raised:
        prepare(None, {"PATH": ""}, tmp_path / "cache")
    assert "backends" in str(raised.value)
