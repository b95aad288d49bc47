"""A URI is copied once by content; whatever fails leaves the copies that were there."""

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs
import fsspec
import pytest

from tarn.errors import RepositoryError, StorageError
from tarn.interfaces import ClientContext, Paths, Progress
from tarn_plugins.storage.copy import tarn_storages
from tarn_plugins.storage.copy.store import CopyStorage, redact, without_secrets

REPOSITORY = {
    "ocr/config.pbtxt": b'backend: "python"',
    "ocr/1/model.py": b"pass",
    "echo/1/model.onnx": bytes(range(256)) * 8,
}
JUNK = {".ipynb_checkpoints/x.py": b"1", "ocr/__pycache__/m.pyc": b"2", "ocr/1/.w.bin.crc": b"3"}
_numbers = itertools.count()


@attrs.frozen
class Stopped:
    """A clock for code that must not look at it."""

    def now_s(self) -> float:
        raise AssertionError("no storage needs the time")

    at = now_s


@pytest.fixture
def heard() -> list[Progress]:
    return []


@pytest.fixture
def context(tmp_path: Path, heard: list[Progress]) -> ClientContext:
    return ClientContext(Stopped(), {}, Paths(tmp_path / "h", tmp_path / "cache"), heard.append)


@pytest.fixture
def memory() -> Iterator[str]:
    """The URI of a repository in this process's memory; each test has its own."""
    top = f"/storage-{os.getpid()}-{next(_numbers)}"
    filesystem = fsspec.filesystem("memory")
    for path, content in (REPOSITORY | JUNK).items():
        filesystem.pipe(f"{top}/{path}", content)
    yield f"memory:/{top}"
    filesystem.rm(top, recursive=True)


def tree(top: Path) -> dict[str, bytes]:
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def shelf(context: ClientContext) -> list[str]:
    """The copies, and whatever a failure left beside them."""
    models = context.paths.cache / "models"
    return sorted({path.name for path in models.iterdir()} - {".lock", "seen"})


def test_copies_a_repository_and_keeps_its_layout(memory: str, context: ClientContext) -> None:
    """The copy has the files as they are, less what tools leave behind."""
    staged = CopyStorage().resolve(memory, context)
    assert tree(Path(staged.location)) == REPOSITORY
    assert (staged.kind, staged.bytes) == ("local", sum(map(len, REPOSITORY.values())))
    assert staged.location.endswith(f"/models/{staged.digest}")


def test_copies_a_single_model_as_it_is(memory: str, context: ClientContext) -> None:
    """No level is added or taken away: whether it is a repository is not asked here."""
    staged = CopyStorage().resolve(f"{memory}/ocr/", context)
    assert sorted(tree(Path(staged.location))) == ["1/model.py", "config.pbtxt"]


def test_a_second_run_copies_nothing(
    memory: str, context: ClientContext, heard: list[Progress]
) -> None:
    """An unchanged source costs a listing."""
    first = CopyStorage().resolve(memory, context)
    heard.clear()
    assert CopyStorage(create_file=_refuse).resolve(memory, context) == first
    assert heard == []


def _refuse(path: Path) -> BinaryIO:
    raise AssertionError(f"{path} must not be written")


def test_another_content_goes_to_another_place(memory: str, context: ClientContext) -> None:
    """The old copy stays as it was: an instance may be serving it."""
    old = CopyStorage().resolve(memory, context)
    fsspec.filesystem("memory").pipe(memory.removeprefix("memory:/") + "/ocr/1/model.py", b"new!")
    new = CopyStorage().resolve(memory, context)
    assert old.location != new.location
    assert tree(Path(old.location)) == REPOSITORY
    assert tree(Path(new.location))["ocr/1/model.py"] == b"new!"


def test_the_same_content_elsewhere_is_the_same_copy(
    memory: str, context: ClientContext, tmp_path: Path
) -> None:
    """The place is named by the content, not by the URI."""
    for path, content in REPOSITORY.items():
        (tmp_path / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / path).write_bytes(content)
    first = CopyStorage().resolve(memory, context)
    marker = Path(first.location).stat().st_ino
    assert CopyStorage().resolve(f"file://{tmp_path}/src", context) == first
    assert Path(first.location).stat().st_ino == marker
    assert shelf(context) == [first.digest]


def test_local_links_and_empty_versions_arrive(context: ClientContext, tmp_path: Path) -> None:
    """A linked model is copied as files; an ensemble's empty version directory is one."""
    (tmp_path / "src" / "ens" / "1").mkdir(parents=True)
    (tmp_path / "src" / "ens" / "config.pbtxt").write_bytes(b"x")
    (tmp_path / "elsewhere" / "1").mkdir(parents=True)
    (tmp_path / "elsewhere" / "1" / "model.py").write_bytes(b"pass")
    (tmp_path / "elsewhere" / "1" / "run").symlink_to("model.py")
    (tmp_path / "src" / "ocr").symlink_to(tmp_path / "elsewhere")
    staged = Path(CopyStorage().resolve(f"file://{tmp_path}/src", context).location)
    assert sorted(tree(staged)) == ["ens/config.pbtxt", "ocr/1/model.py", "ocr/1/run"]
    assert (staged / "ens" / "1").is_dir()
    assert not any(path.is_symlink() for path in staged.rglob("*"))


def test_an_executable_stays_one(context: ClientContext, tmp_path: Path) -> None:
    """A model's own stub must start; everybody may read."""
    stub = tmp_path / "src" / "ocr" / "1" / "triton_python_backend_stub"
    stub.parent.mkdir(parents=True)
    stub.write_bytes(b"")
    stub.chmod(0o700)
    staged = Path(CopyStorage().resolve(f"file://{tmp_path}/src", context).location)
    assert (staged / "ocr/1" / stub.name).stat().st_mode & 0o777 == 0o755
    assert staged.stat().st_mode & 0o777 == 0o755


def test_a_damaged_copy_is_made_again(memory: str, context: ClientContext) -> None:
    """A cache may be cleared at any time, in part too."""
    staged = CopyStorage().resolve(memory, context)
    (Path(staged.location) / "ocr" / "1" / "model.py").unlink()
    assert CopyStorage().resolve(memory, context) == staged
    assert tree(Path(staged.location)) == REPOSITORY


def test_reports_bytes_done_of_all(
    memory: str, context: ClientContext, heard: list[Progress]
) -> None:
    """Progress only grows, and ends at the whole."""
    staged = CopyStorage().resolve(memory, context)
    done = [progress.done for progress in heard]
    assert done == sorted(done, key=lambda value: value or 0)
    assert (heard[-1].phase, heard[-1].done, heard[-1].of) == (
        "staging",
        staged.bytes,
        staged.bytes,
    )


def test_looks_for_space_before_it_copies(memory: str, context: ClientContext) -> None:
    """The message has the bytes needed, the bytes free, and the bytes to free."""
    with pytest.raises(StorageError) as caught:
        CopyStorage(free_bytes=lambda _path: 1000, create_file=_refuse).resolve(memory, context)
    assert caught.value.code == "TARN-3201"
    assert "needs 2,069 bytes" in caught.value.found
    assert "1,000 are free" in caught.value.found
    assert "Free 1,069 bytes" in caught.value.next_step
    assert shelf(context) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_while_copying_leaves_the_old_copy(
    number: int, memory: str, context: ClientContext
) -> None:
    """What was begun is removed; what was there serves on."""
    old = CopyStorage().resolve(memory, context)
    fsspec.filesystem("memory").pipe(memory.removeprefix("memory:/") + "/ocr/1/model.py", b"new!")

    def full(path: Path) -> BinaryIO:
        if path.name == "model.py":
            raise OSError(number, os.strerror(number))
        return path.open("xb")

    with pytest.raises(StorageError) as caught:
        CopyStorage(create_file=full).resolve(memory, context)
    assert caught.value.code == "TARN-3201"
    assert shelf(context) == [old.digest]
    assert tree(Path(old.location)) == REPOSITORY


def test_a_copy_that_reads_back_differently_is_refused(memory: str, context: ClientContext) -> None:
    """The content is verified on the disk, not only on its way there."""

    def forgetful(path: Path) -> BinaryIO:
        return Path(os.devnull).open("wb") if _lost(path) else path.open("xb")

    def _lost(path: Path) -> bool:
        if path.name == "model.onnx":
            path.write_bytes(bytes(2048))
            return True
        return False

    with pytest.raises(StorageError, match=r"the copy of echo/1/model\.onnx differs"):
        CopyStorage(create_file=forgetful).resolve(memory, context)
    assert shelf(context) == []


def test_what_a_killed_copy_left_is_swept_and_anothers_work_is_not(
    memory: str, context: ClientContext
) -> None:
    """A lock tells them apart, not an age."""
    models = context.paths.cache / "models"
    (models / ".staging-dead").mkdir(parents=True)
    (models / ".staging-busy").mkdir()
    holder = (
        "import fcntl, os, sys\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holder, str(models / ".staging-busy")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        staged = CopyStorage().resolve(memory, context)
        process.communicate(timeout=10)
    assert shelf(context) == [".staging-busy", staged.digest]


def test_a_missing_repository_exits_with_2(context: ClientContext) -> None:
    """As a path that is not there."""
    with pytest.raises(RepositoryError) as caught:
        CopyStorage().resolve("memory://nowhere-at-all", context)
    assert (caught.value.code, caught.value.exit_code) == ("TARN-2200", 2)


def test_a_file_is_no_repository(memory: str, context: ClientContext) -> None:
    """One level too deep, in another way."""
    with pytest.raises(RepositoryError, match="is a file"):
        CopyStorage().resolve(f"{memory}/ocr/config.pbtxt", context)


def test_junk_alone_is_an_empty_repository(context: ClientContext, tmp_path: Path) -> None:
    """The code is the same as for a bare path."""
    (tmp_path / "src" / ".git").mkdir(parents=True)
    with pytest.raises(RepositoryError) as caught:
        CopyStorage().resolve(f"file://{tmp_path}/src", context)
    assert caught.value.code == "TARN-2201"


def test_a_scheme_that_nobody_speaks_is_guessed(context: ClientContext) -> None:
    """A slip in the scheme is answered with the likely one."""
    with pytest.raises(
        StorageError, match=r"no storage supports 'memroy'.*Did you mean 'memory://'"
    ):
        CopyStorage().resolve("memroy://x/y", context)


def test_a_missing_package_is_named(context: ClientContext) -> None:
    """The next step can be pasted."""
    fsspec.register_implementation(
        "tarntest", "no_such_package.FileSystem", errtxt="Install it", clobber=True
    )
    with pytest.raises(StorageError) as caught:
        CopyStorage().resolve("tarntest://user:hunter2@host/x", context)
    assert caught.value.next_step == "pip install 'no_such_package'"
    assert "hunter2" not in str(caught.value)


def test_a_package_that_is_there_and_does_not_work_is_told_as_that(
    context: ClientContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pip install`` would change nothing: the reason of the import is said, however wrapped."""

    def broken(_uri: str) -> None:
        raise ImportError("pyarrow and local java libraries required") from ImportError(
            "pyarrow requires NumPy 2"
        )

    monkeypatch.setattr(fsspec.core, "url_to_fs", broken)
    with pytest.raises(StorageError, match="cannot be used here: pyarrow requires NumPy 2") as said:
        CopyStorage().resolve("hdfs://nn/models", context)
    assert "pip install" not in said.value.next_step


class _Refusing(fsspec.AbstractFileSystem):  # type: ignore[misc]
    protocol = "tarnrefusing"
    cachable = False

    def find(self, path: str, **_options: object) -> dict[str, object]:
        raise RuntimeError(f"403 for {path}: tarnrefusing://joe:hunter2@host/x?sig=s3cr3t")


def test_no_secret_is_repeated(context: ClientContext) -> None:
    """Neither from the URI, nor from what a file system says of it, nor in the cause."""
    fsspec.register_implementation("tarnrefusing", _Refusing, clobber=True)
    with pytest.raises(StorageError) as caught:
        CopyStorage().resolve("tarnrefusing://joe:hunter2@host/x?sig=s3cr3t", context)
    text = str(caught.value)
    assert "403 for" in text
    assert "hunter2" not in text
    assert "s3cr3t" not in text
    assert caught.value.__suppress_context__


def test_redaction_keeps_what_helps() -> None:
    """Scheme, host and path are no secret."""
    assert redact("s3://key:sec@bucket/a?X-Sig=1") == "s3://***@bucket/a?***"
    assert redact("s3://bucket/a@b") == "s3://bucket/a@b"
    assert without_secrets("denied:\n sec", "s3://key:sec@bucket/a") == "denied: ***"


def test_loading_the_plugin_imports_no_fsspec() -> None:
    """What is heavy waits for the first copy; its absence is a line for `tarn plugins`."""
    code = "import sys, tarn_plugins.storage.copy; print('fsspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"False\n"
    factory = tarn_storages()["copy"]
    assert factory.schemes == {"*"}
    assert (factory.requires, factory.extra) == (("fsspec",), "local")
    assert isinstance(factory.create(), CopyStorage)
