"""A full disk, a quota, `ulimit -f`: a code and a sentence, and nothing half made."""

import contextlib
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import MODELS, SystemClock

from tarn import cli
from tarn.domain import ClusterSpec
from tarn.domain.spec import ModelsSpec
from tarn.errors import LaunchError
from tarn.interfaces import ClientContext, Paths, Staged
from tarn.triton.folders import no_room
from tarn_plugins.runtime.local.deployer import LocalDeployer


@contextlib.contextmanager
def files_of_at_most(bytes_: int) -> Iterator[None]:
    """Let no file of this process grow beyond; bytecode that is cut would break every import."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = writes


def test_up_where_no_file_may_grow_is_one_sentence(tmp_path: Path) -> None:
    """The first thing that `up` writes tells, before anything else is made."""
    (tmp_path / "tarn.yaml").write_text(f"models: {MODELS}\nruntime: local\n")
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 1; exec "$0" -B -m tarn up', sys.executable],
        env={**os.environ, "TARN_HOME": str(tmp_path / "home")},  # noqa: TID251
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    where = f"{tmp_path}/home/clusters"
    assert f"tarn: [TARN-2114] {where}: cannot be written: this process may not" in done.stderr
    assert "ulimit -f unlimited" in done.stderr
    assert "Traceback" not in done.stderr
    assert [one.name for one in (tmp_path / "home").rglob("*")] == ["clusters"]


@pytest.mark.parametrize("room", [0, 10, 40])
def test_a_submit_that_cannot_write_leaves_nothing(tmp_path: Path, room: int) -> None:
    """Whichever file it is that does not fit; what was there before stays."""
    paths = Paths(tmp_path / "home", tmp_path / "cache")
    context = ClientContext(SystemClock(), {}, paths)
    spec = ClusterSpec("echo", ModelsSpec(str(MODELS)))
    files = {"api_token": b"x" * 20, "spec.yaml": b"x" * 30}
    deployer = LocalDeployer(context, (sys.executable, "-c", ""))
    with files_of_at_most(room), pytest.raises(LaunchError) as refused:
        deployer.submit(spec, Staged(str(MODELS), "local"), files)
    assert refused.value.code == "TARN-2114"
    assert refused.value.where == str(paths.cluster("echo"))
    assert not paths.cluster("echo").exists()
    paths.cluster("echo").mkdir()
    (paths.cluster("echo") / "mine").touch()
    with files_of_at_most(room), pytest.raises(LaunchError):
        deployer.submit(spec, Staged(str(MODELS), "local"), files)
    assert (paths.cluster("echo") / "mine").exists()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space is left on the disk, "),
        (errno.EDQUOT, "this user's disk quota is used up"),
        (errno.EFBIG, "this process may not write a longer file ("),
        (errno.EROFS, "the file system is read-only"),
    ],
)
def test_every_verb_says_what_it_lacks(
    number: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """What no verb translates by itself has no traceback either."""

    class Root:
        def main(self, *_arguments: object, **_options: object) -> None:
            raise OSError(number, os.strerror(number), str(tmp_path / "deep" / "file"))

    monkeypatch.setattr(cli, "root", Root())
    assert cli.run(["secrets", "put"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"tarn: [TARN-2114] {tmp_path}/deep/file: cannot be written: {words}")


def test_other_errors_are_bugs_and_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a person can help is translated."""
    assert no_room(OSError(errno.EIO, "Input/output error")) is None
    assert no_room(OSError(errno.ENOSPC, "full")) is not None
