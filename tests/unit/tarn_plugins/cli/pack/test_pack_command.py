"""`tarn pack` as somebody types it, with a uv that only pretends."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from house import until

from tarn.cli import run
from tarn.cluster import ClusterEnvironment
from tarn.config import environ
from tarn.errors import ProviderError
from tarn_plugins.cli.pack import commands, recipe, tree, uv


@pytest.fixture
def around(tmp_path, monkeypatch):
    """This process's plugins, a home of its own, and an empty directory to work in."""
    monkeypatch.chdir(tmp_path)
    own = {"TARN_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    return ClusterEnvironment({**environ(), **own})


@pytest.fixture
def made(monkeypatch):
    """What is packed is a few bytes, without uv, and the orders are kept."""
    orders = []

    def make(order, _uv, work, say):
        orders.append(order)
        say("packing nothing")
        path = work / "made.tar.gz"
        (work / "tree").mkdir()
        about = {"tarn": "1.0", "python": "3.11.9", "glibc": "2.28", "glibc_needed": "2.17",
                 "machine": "x86_64", "java": None, "packages": {"a": "1"}}  # fmt: skip
        written = tree.write(work / "tree", ("about", b"{}"), path)
        return recipe.PackResult(
            path, "tarn-1.0.tar.gz", about, written, {"a": "1"}, ("libssl.so.3",)
        )

    monkeypatch.setattr(recipe, "make", make)
    monkeypatch.setattr(uv, "found", lambda _: "/bin/false")
    return orders


def test_an_archive_is_put_into_a_directory_once(around, made, tmp_path, capsys):
    """A second time it is there; the line for tarn.yaml names it."""
    assert run(["pack"], around) == 0
    target = tmp_path / "tarn-1.0.tar.gz"
    said = capsys.readouterr().out
    assert said.startswith(f"{target}\n")
    assert "the nodes must have: libssl.so.3" in said
    assert said.endswith(f"runtime:\n  options:\n    python: {target}\n")
    assert run(["pack", "-o", "json"], around) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["already_there"] is True
    assert told["bytes"] == target.stat().st_size
    assert {path.name for path in tmp_path.iterdir()} == {"home", target.name}
    assert not list((tmp_path / "home").rglob("pack-*")), "nothing is left in the cache"


def test_another_file_is_never_replaced(around, made, tmp_path, capsys):
    """Somebody may be starting a cluster with it."""
    (tmp_path / "mine.tar.gz").write_bytes(b"x")
    assert run(["pack", "mine.tar.gz"], around) == 2
    assert "TARN-3198" in capsys.readouterr().err
    assert (tmp_path / "mine.tar.gz").read_bytes() == b"x"
    assert run(["pack", "new.tgz"], around) == 0
    assert (tmp_path / "new.tgz").is_file()


def test_a_spec_says_which_extras_are_needed(around, made, tmp_path):
    """Those of its providers; a local runtime's Triton is not for the nodes."""
    (tmp_path / "tarn.yaml").write_text(
        "models: /m\nruntime: local\ndiscovery: [{use: zookeeper, options: {ensemble: 'a:1'}}]\n"
    )
    assert run(["pack", "--extra", "schedule"], around) == 0
    assert made[-1].extras == ("schedule", "yarn", "zookeeper")


def test_a_dry_run_does_nothing(around, tmp_path, capsys):
    """It says what would be done."""
    assert run(["pack", "--dry-run", "--with", "my-plugin==1", "-o", "yaml"], around) == 0
    said = capsys.readouterr().out
    assert "- my-plugin==1" in said
    assert "manylinux_2_28" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/nowhere/at/all"], 1, "TARN-3198"),
        (["/nowhere/a.tar.gz"], 1, "no such directory"),
        (["--glibc", "two"], 2, "ldd --version"),
        (["--python", "2.7"], 2, "3.11 to 3.13"),
        (["--python", "/nowhere/python"], 2, "no bin/python3.N"),
        (["--java", "/usr"], 2, "is not a Java"),
        (["-f", "gone.yaml"], 2, "gone.yaml"),
        (["s3://bucket/x", "-f", "local.yaml"], 1, "does not copy anything"),
    ],
)
def test_a_wrong_word_is_told_and_leaves_nothing(  # noqa: PLR0917 (fixtures, and a row)
    around, tmp_path, monkeypatch, capsys, arguments, code, said
):
    """What was wrong, and what would be right."""
    monkeypatch.setattr(uv, "found", lambda _: "/bin/false")
    (tmp_path / "local.yaml").write_text("models: /m\nruntime: local\n")
    assert run(["pack", *arguments], around) == code
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.gz"))


def test_no_uv_is_told(around, monkeypatch, capsys):
    """With what brings it."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    around = attrs.evolve(around, environ={**around.environ, "PATH": "/nowhere"})
    assert run(["pack"], around) == 6
    assert "pip install 'tarn-orchestrator[pack]'" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_is_told_in_words(number):
    """Whichever step met it."""
    with pytest.raises(ProviderError) as caught, commands._disk("/cache"):
        raise OSError(number, os.strerror(number), "/cache/x")
    assert caught.value.code == "TARN-3198"
    assert os.strerror(number) in str(caught.value)


def test_half_an_archive_is_never_seen(tmp_path):
    """A disk that is full in the middle of the copy leaves nothing of it."""
    made = tmp_path / "made"
    made.write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="File too large"):
        subprocess_limited(made, tmp_path / "out.tar.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def subprocess_limited(made: Path, target: Path) -> None:
    """Copy as the command does, where files may have 10 bytes."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tarn_plugins.cli.pack.commands import _moved\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "_moved(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, made, target], capture_output=True, check=False
    )
    assert done.returncode == 1
    raise OSError(done.stderr.decode())


def test_an_interrupt_leaves_nothing(tmp_path):
    """Ctrl-C while uv works: uv ends, the workplace is gone, exit code 130."""
    slow = tmp_path / "uv"
    slow.write_text('#!/bin/sh\necho $$ > "$(dirname $0)/pid"\nexec sleep 60\n')
    slow.chmod(0o755)
    code = (
        "import sys; from tarn_plugins.cli.pack import uv; from tarn.cli import main\n"
        f"uv.found = lambda _: {str(slow)!r}\n"
        "sys.argv = ['tarn', 'pack']; main()\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    own = {
        **environ(),
        "TARN_HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=work, env=own, stderr=subprocess.PIPE, text=True
    )
    pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 30))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert said.endswith("interrupted\n")
    until(lambda: not Path(f"/proc/{pid}").exists(), 10, "the end of uv")
    assert not list(tmp_path.rglob("pack-*"))
    assert not list(work.iterdir())
