"""Small files on a real HDFS: whole or not at all, one winner, public only when all of it is."""

import secrets
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.yarn import java

from tarn.errors import NotFoundError, ProviderError, RefusedError
from tarn.java import load
from tarn_plugins.cli.sandbox.sandbox import Sandbox
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles

pytestmark = pytest.mark.yarn


@pytest.fixture(scope="module")
def files(shared_hadoop: Sandbox) -> HadoopFiles:
    java(shared_hadoop.environ)
    return HadoopFiles(configuration())


@pytest.fixture
def root(files: HadoopFiles) -> Iterator[str]:
    """A directory of our own, which the first write makes."""
    uri = files.qualified(f"/tmp/tarn-test-{secrets.token_hex(4)}")
    yield uri
    files.remove(uri)


def mode(files: HadoopFiles, uri: str) -> int:
    path = load("org.apache.hadoop.fs.Path")(uri)
    return int(path.getFileSystem(files.conf).getFileStatus(path).getPermission().toShort())


def test_every_byte_comes_back(files: HadoopFiles, root: str) -> None:
    """All 256 values, nothing, and a mebibyte."""
    for name, data in {"all": bytes(range(256)), "none": b"", "big": b"\xff\x00" * 2**19}.items():
        files.write(f"{root}/{name}", data)
        assert files.read(f"{root}/{name}") == data
        assert files.entry(f"{root}/{name}").bytes == len(data)
    assert files.entry(f"{root}/all").path == "all"


def test_a_file_and_its_directories_are_private_unless_asked(files: HadoopFiles, root: str) -> None:
    """0600 in 0700; 0644 in 0755; what exists keeps its mode."""
    files.write(f"{root}/private/deep/secret", b"s")
    files.write(f"{root}/public/deep/code", b"c", mode=0o644)
    assert stat.S_IMODE(mode(files, f"{root}/private/deep/secret")) == 0o600
    assert mode(files, f"{root}/private/deep") == mode(files, f"{root}/private") == 0o700
    assert mode(files, f"{root}/public/deep/code") == 0o644
    assert mode(files, f"{root}/public/deep") == mode(files, f"{root}/public") == 0o755
    assert mode(files, root) == 0o700


def test_a_directory_is_made_as_open_as_asked(files: HadoopFiles, root: str) -> None:
    """With what lacks above it; what a private file adds below is private, and changes nothing."""
    files.directory(f"{root}/shelf", 0o755)
    files.directory(f"{root}/shelf", 0o700)
    files.write(f"{root}/shelf/models/secret", b"s")
    assert mode(files, root) == mode(files, f"{root}/shelf") == 0o755
    assert mode(files, f"{root}/shelf/models") == 0o700


def test_public_needs_every_directory_above(files: HadoopFiles, root: str) -> None:
    """One private parent is enough to keep everybody out."""
    files.write(f"{root}/code", b"c", mode=0o644)
    assert files.entry(f"{root}/code").public
    files.write(f"{root}/private/code", b"c")
    files.write(f"{root}/private/open", b"c", mode=0o644)
    assert {each.path: each.public for each in files.listing(root, deep=True)} == {
        "code": True,
        "private/code": False,
        "private/open": False,
    }


def test_a_listing_is_sorted_and_relative(files: HadoopFiles, root: str) -> None:
    """Deep or not; hidden names are the caller's business; directories are not files."""
    for name in ("b", "a/1/model.py", ".hidden", "a/config.pbtxt", "odd name+%41#é"):
        files.write(f"{root}/{name}", name.encode())
    assert [each.path for each in files.listing(root)] == [".hidden", "b", "odd name+%41#é"]
    deep = files.listing(f"{root}/", deep=True)
    assert [each.path for each in deep] == [
        ".hidden", "a/1/model.py", "a/config.pbtxt", "b", "odd name+%41#é",
    ]  # fmt: skip
    for each in deep:
        assert files.read(each.uri) == each.path.encode()
        assert each.modified_ms == files.entry(each.uri).modified_ms


def test_of_two_writers_one_wins(files: HadoopFiles, root: str) -> None:
    """Exclusive creation is what makes one `up` of two the owner."""
    outcomes: list[str] = []
    together = threading.Barrier(4)

    def claim(name: str) -> None:
        together.wait(timeout=10)
        try:
            files.write(f"{root}/owner", name.encode())
            outcomes.append(name)
        except RefusedError:
            outcomes.append("")

    threads = [threading.Thread(target=claim, args=(f"app-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(outcomes) == 4
    winner = "".join(outcomes)
    assert files.read(f"{root}/owner") == winner.encode()
    assert [each.path for each in files.listing(root)] == ["owner"]


def test_replacing_and_renaming_leave_one_whole_file(files: HadoopFiles, root: str) -> None:
    """A reader finds the old content or the new, never none."""
    files.write(f"{root}/state", b"old")
    with pytest.raises(RefusedError, match="already exists"):
        files.write(f"{root}/state", b"new")
    assert files.read(f"{root}/state") == b"old"
    files.write(f"{root}/state", b"new", replace=True)
    assert files.read(f"{root}/state") == b"new"
    files.write(f"{root}/next", b"newer")
    files.rename(f"{root}/next", f"{root}/state")
    assert files.read(f"{root}/state") == b"newer"
    assert [each.path for each in files.listing(root)] == ["state"]


def test_what_is_missing_is_said_to_be_missing(files: HadoopFiles, root: str) -> None:
    """Read, list, look, rename; removing it is not an error."""
    for ask in (files.read, files.listing, files.entry):
        with pytest.raises(NotFoundError, match="no such file"):
            ask(f"{root}/nope")
    with pytest.raises(NotFoundError):
        files.rename(f"{root}/nope", f"{root}/other")
    files.remove(f"{root}/nope")


def test_an_upload_keeps_its_bytes_and_its_mode(
    files: HadoopFiles, root: str, tmp_path: Path
) -> None:
    """The bytes go by Hadoop's own copy; the name is there once they all are."""
    local = tmp_path / "model with % and é.onnx"
    local.write_bytes(secrets.token_bytes(3_000_000))
    entry = files.upload(local, f"{root}/m/1/model.onnx", mode=0o644)
    assert (entry.path, entry.bytes, entry.public) == ("model.onnx", 3_000_000, True)
    assert files.read(entry.uri) == local.read_bytes()
    files.upload(tmp_path / local.name, entry.uri)
    assert mode(files, entry.uri) == 0o600
    assert [each.path for each in files.listing(root, deep=True)] == ["m/1/model.onnx"]


def test_an_upload_of_nothing_is_refused(files: HadoopFiles, root: str, tmp_path: Path) -> None:
    """A local file that is not there leaves nothing behind, not even a directory."""
    with pytest.raises(NotFoundError, match="nope: it cannot be read: No such file"):
        files.upload(tmp_path / "nope", f"{root}/m")
    with pytest.raises(NotFoundError):
        files.listing(root)


def test_an_unknown_scheme_or_server_is_an_error_in_words(files: HadoopFiles) -> None:
    """No Java class name is needed to understand it."""
    with pytest.raises(ProviderError, match=r"nosuch://x/y: could not read it: .*nosuch"):
        files.read("nosuch://x/y")
    with pytest.raises(ProviderError, match="could not parse it"):
        files.read("")


def test_the_home_directory_is_a_uri(files: HadoopFiles) -> None:
    """It is where staging goes when nothing else is named."""
    assert files.home().startswith(files.qualified("/"))
