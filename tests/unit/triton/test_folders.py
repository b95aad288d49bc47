"""Folders of TARN's own are nobody else's, whatever the umask, and others' are refused."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarn import config
from tarn.cluster import ClusterEnvironment
from tarn.errors import LaunchError, RefusedError
from tarn.triton import binary
from tarn.triton.folders import private_folder, refuse_shared

OTHER = 65001
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_every_parent_that_is_made_is_ones_own(tmp_path: Path, umask: int) -> None:
    """Mode 0700; what is there already is taken."""
    made = private_folder(tmp_path / "home" / "clusters" / "one")
    assert {mode(one) for one in (made, *made.parents[:2])} == {0o700}
    assert private_folder(made) == made


@as_root
@pytest.mark.parametrize("wrong", [0o777, 0o757, 0o722])
def test_a_folder_that_others_may_write_is_refused_with_what_to_do(
    tmp_path: Path, wrong: int
) -> None:
    """Also where it is a folder above, or what a link leads to."""
    open_to_all = tmp_path / "open"
    (open_to_all / "mine").mkdir(parents=True, mode=0o700)
    os.chown(open_to_all, -1, 65002)  # of a group that is not the user's own
    open_to_all.chmod(wrong)
    (tmp_path / "link").symlink_to(open_to_all / "mine")
    for path in (open_to_all, open_to_all / "mine" / "deep", tmp_path / "link"):
        with pytest.raises(RefusedError, match=f"mode 0{wrong:o}") as refused:
            refuse_shared(path)
        assert refused.value.code == "TARN-2104"
        assert refused.value.where == str(open_to_all)
        assert f"chmod go-w {open_to_all}" in refused.value.next_step
    refuse_shared(open_to_all / "mine", home=open_to_all / "mine")
    with pytest.raises(RefusedError):
        private_folder(open_to_all)


@as_root
def test_a_folder_of_somebody_else_is_refused_by_name(tmp_path: Path) -> None:
    """Also where it is only a folder above."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    with pytest.raises(RefusedError, match=f"belongs to the user {OTHER}"):
        private_folder(theirs)
    with pytest.raises(RefusedError, match=f"belongs to the user {OTHER}"):
        refuse_shared(theirs / "clusters")


def test_a_sticky_folder_above_is_fine(tmp_path: Path) -> None:
    """As /tmp is."""
    tmp_path.chmod(0o1777)
    (tmp_path / "mine").mkdir()
    refuse_shared(tmp_path / "mine")


@as_root
@pytest.mark.parametrize("variable", ["TARN_HOME", "XDG_CACHE_HOME"])
def test_a_foreign_home_is_refused_before_anything_is_read(tmp_path: Path, variable: str) -> None:
    """What lies there names programs that would run, and where the token is sent."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    environ = {"HOME": str(tmp_path), "TARN_HOME": str(tmp_path / "mine"), variable: str(theirs)}
    around = ClusterEnvironment(environ)
    with pytest.raises(RefusedError) as refused:
        _ = around.paths
    assert refused.value.where == str(theirs)
    assert variable in refused.value.next_step


def test_nobody_else_may_write_to_the_assembled_back_end(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stub is a program that runs as the owner; one that others may write to is not used."""
    package = tmp_path / "site" / "pytriton"
    wheel = binary.Wheel(package, "0.7")
    for folder in (wheel.backend, wheel.stub.parent, wheel.libraries):
        folder.mkdir(parents=True)
    (wheel.backend / "libtriton_python.so").touch()
    (wheel.backend / "triton_python_backend_utils.py").touch()
    wheel.stub.touch()
    monkeypatch.setattr(binary, "_check_wheel", lambda _wheel: None)
    monkeypatch.setattr(binary, "find_wheel", lambda: wheel)
    cache = config.paths({"HOME": str(tmp_path)}).cache
    made = binary.prepare(None, {}, cache)
    folder = Path(made.backend_directory or "")
    below = [cache, cache / "backends", folder, *folder.rglob("*")]
    assert not [one for one in below if one.is_dir() and mode(one) & 0o077]
    folder.chmod(0o777)
    with pytest.raises(LaunchError) as refused:
        binary.prepare(None, {}, cache)
    assert refused.value.code == "TARN-2104"
    shutil.rmtree(folder)
    assert binary.prepare(None, {}, cache) == made
