"""A copy of the client becomes one of the nodes, once."""

import pytest
from hadoop_files import MemoryFiles

from tarn.errors import ProviderError, StorageError
from tarn.interfaces import Staged
from tarn_plugins.runtime.yarn.client.submission import upload
from tarn_plugins.runtime.yarn.launch.repository import collect

STAGING = "hdfs://nn/user/a/.tarn"
TARGET = f"{STAGING}/.models/d1"
ECHO = {"echo/config.pbtxt": b"name: 'echo'", "echo/1/model.py": b"x = 1"}


@pytest.fixture
def copy(tmp_path):
    for path, data in {**ECHO, "pipe/config.pbtxt": b"p", "echo/.x.crc": b"x"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    (tmp_path / "pipe/1").mkdir()
    return Staged(str(tmp_path), "local", digest="d1", bytes=99)


def test_every_file_lies_where_the_nodes_bring_it_from(copy):
    """Private, without leftovers; and what was put there is a repository."""
    files = MemoryFiles()
    made = upload(copy, STAGING, files)
    assert (made.location, made.kind, made.digest) == (TARGET, "localize", "d1")
    assert made.bytes == sum(len(data) for data, _, _ in files.found.values())
    assert all(mode == 0o600 for _, _, mode in files.found.values())
    brought = collect(files, made.location)
    assert [f.name for f in brought.files] == [
        "models/echo/1/model.py", "models/echo/config.pbtxt", "models/pipe/config.pbtxt",
    ]  # fmt: skip
    assert not any(f.public for f in brought.files)
    assert brought.directories == ("models/pipe/1",)


def test_the_first_upload_leaves_the_staging_directory_passable(copy):
    """Else no cluster's own files would be public; what was copied is private nevertheless."""
    files = MemoryFiles()
    upload(copy, STAGING, files)
    assert files.directories[STAGING] == 0o755
    below = {uri: mode for uri, mode in files.directories.items() if uri.startswith(f"{STAGING}/")}
    assert set(below.values()) == {0o700}
    assert f"{STAGING}/.models" in below


def test_the_same_content_is_put_there_once(copy):
    """By the next cluster too: nothing that a container may be using changes its time."""
    files = MemoryFiles()
    upload(copy, STAGING, files)
    before, count = dict(files.found), len(files.uploaded)
    upload(copy, STAGING, files)
    assert (files.found, len(files.uploaded)) == (before, count)


def test_an_upload_that_was_cut_short_goes_on(copy):
    """Only what is missing, or of another size, is copied."""
    files = MemoryFiles()
    files.write(f"{TARGET}/echo/config.pbtxt", ECHO["echo/config.pbtxt"])
    files.write(f"{TARGET}/echo/1/model.py", b"x")
    upload(copy, STAGING, files)
    assert files.uploaded == [f"{TARGET}/echo/1/model.py", f"{TARGET}/pipe/config.pbtxt"]
    assert files.read(f"{TARGET}/echo/1/model.py") == ECHO["echo/1/model.py"]


def test_a_copy_that_was_cleared_is_said(tmp_path):
    """A cache may be deleted at any time."""
    gone = Staged(str(tmp_path / "gone"), "local", digest="d1")
    with pytest.raises(StorageError, match="gone"):
        upload(gone, STAGING, MemoryFiles())


def test_without_a_digest_nothing_is_put_anywhere(copy):
    """It could never be found again, and its name might mean two contents."""
    files = MemoryFiles()
    with pytest.raises(StorageError, match="digest"):
        upload(Staged(copy.location, "local"), STAGING, files)
    assert not files.found


def test_a_file_system_that_is_down_is_said(copy):
    """By whoever is asked."""
    with pytest.raises(ProviderError, match="NameNode"):
        upload(copy, STAGING, MemoryFiles(down=True))
