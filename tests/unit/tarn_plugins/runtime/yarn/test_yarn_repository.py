"""Which files of a repository on a Hadoop file system a container gets."""

import pytest
from hadoop_files import MemoryFiles
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.launch.repository import (
    collect,
    findings,
    resources,
    without_password,
)
from tarn_plugins.runtime.yarn.messages import FileEntry

URI = "hdfs://nn/models"
MODEL = ("echo/config.pbtxt", "echo/1/model.py")


def entry(path: str, *, public: bool = True) -> FileEntry:
    return FileEntry(path, f"{URI}/{path}", 3, 7, public)


def names(*paths: str) -> list[str]:
    return [file.name for file in resources([entry(path) for path in paths], URI).files]


def test_every_file_keeps_its_place():
    """Deeply nested ones too; Triton sees the tree that lies on the file system."""
    paths = (*MODEL, "echo/1/deep/er/weights.bin")
    assert names(*paths) == [f"models/{path}" for path in paths]


def test_what_tools_leave_is_left_out():
    """As by every other storage: hidden, checksums, markers, uploads that are not done."""
    junk = ("_SUCCESS", ".hidden", "echo/.config.pbtxt.crc", "echo/1/__pycache__/m.pyc",
            "echo/1/big.onnx._COPYING_", ".git/config", "_temporary/0/x")  # fmt: skip
    assert names(*MODEL, *junk) == [f"models/{path}" for path in MODEL]


def test_one_private_file_makes_all_of_them_private():
    """Public ones are fetched without the owner's token; half of a model helps nobody."""
    mixed = [entry(MODEL[0]), entry(MODEL[1], public=False)]
    assert [file.public for file in resources(mixed, URI).files] == [False, False]
    assert [file.public for file in resources(list(map(entry, MODEL)), URI).files] == [True, True]


def test_a_private_leftover_keeps_nobody_from_sharing():
    """Only what is brought counts."""
    found = resources([*map(entry, MODEL), entry("echo/.x.crc", public=False)], URI)
    assert all(file.public for file in found.files)


def test_the_empty_version_of_an_ensemble_is_made():
    """No file shows it, and Triton loads no model without a version."""
    found = resources([*map(entry, MODEL), entry("pipe/config.pbtxt")], URI)
    assert found.directories == ("models/pipe/1",)


@pytest.mark.parametrize("name", ["m.tar.gz", "m.tgz", "m.zip", "M.ZIP"])
def test_an_archive_is_unpacked_by_the_node(name):
    """One file, one directory; only that file is looked for."""
    files = MemoryFiles()
    files.write(f"{URI}/{name}", b"123", mode=0o644)
    files.write(f"{URI}/other", b"1")
    (file,) = collect(files, f"{URI}/{name}").files
    assert (file.name, file.archive, file.public, file.bytes) == ("models", True, True, 3)
    assert file.uri == f"{URI}/{name}"


def test_an_archive_that_is_not_there_is_said():
    """Like a directory."""
    with pytest.raises(LaunchError) as raised:
        collect(MemoryFiles(), f"{URI}/m.zip")
    assert (raised.value.code, raised.value.retry_after_s) == ("TARN-2200", None)


@pytest.mark.parametrize("name", ["a$(touch p)", 'a"b', "a`b`", "a\\b", "a\nb", "a*"])
def test_a_name_that_yarn_s_script_would_misread_is_refused(name):
    """YARN links each file by a line of shell, between double quotes."""
    (found,) = findings([*map(entry, MODEL), entry(f"echo/1/{name}")], URI)
    assert found.code == "TARN-2331"
    assert found.fatal


def test_a_repository_of_too_many_files_names_the_way_out():
    """Each would be a line in every start."""
    many = [entry(f"echo/1/{number}") for number in range(10_001)]
    (found,) = findings([*map(entry, MODEL), *many], URI)
    assert "10,003" in found.found
    assert "archive" in found.next_step


def test_no_password_is_shown():
    """But a container of Azure's is no password."""
    assert without_password("s3a://key:secret@bucket/m") == "s3a://***@bucket/m"
    assert without_password("abfs://data@account.dfs.core.windows.net/m").startswith("abfs://data@")
    (found,) = findings(None, "s3a://key:secret@bucket/m")
    assert "secret" not in found.where


parts = st.sampled_from(
    ["echo", "1", "2", "config.pbtxt", "model.py", ".x", "_SUCCESS", "a.crc", "ü"]
)


@given(paths=st.sets(st.lists(parts, min_size=1, max_size=4).map("/".join), max_size=8))
def test_whatever_is_listed_is_brought_or_explained(paths):
    """A name is brought once, inside ``models/``; a repository without a model is refused."""
    entries = [entry(path) for path in sorted(paths)]
    found = resources(entries, URI)
    brought = [file.name for file in found.files]
    assert len(set(brought)) == len(brought)
    assert all(name.startswith("models/") and "/." not in name for name in brought)
    assert {name.removeprefix("models/") for name in brought} <= paths
    if not findings(entries, URI):
        assert brought
