"""A container's log stays below its bound, is found by its instance, and loses its keeper."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from house import until

from tarn_plugins.runtime.yarn.launch.launch_file import (
    LAUNCH,
    LOOK_EVERY_S,
    MARK,
    RUN,
    SCRIPT,
    LogFiles,
    encode,
)

SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}
SOON = RUN.replace(b"sleep %d;" % LOOK_EVERY_S, b"sleep 0.1;")
WRITES = """
import os, sys
print("begun", flush=True)
for line in sys.stdin:
    os.write(2, line.encode() * 100)
    print("written", flush=True)
"""


@pytest.fixture(params=sorted(SHELLS))
def shell(request) -> list[str]:
    found = shutil.which(SHELLS[request.param][0])
    if found is None:
        pytest.skip(f"no {SHELLS[request.param][0]} on this machine: apt-get install it")
    return [found, *SHELLS[request.param][1:]]


def container(folder: Path, logs: LogFiles | None, environ=()) -> None:
    (folder / ".tarn").mkdir()
    (folder / "logs").mkdir()
    (folder / SCRIPT).write_bytes(SOON)
    program = [sys.executable, "-I", "-S", "-c", WRITES]
    (folder / LAUNCH).write_bytes(encode(program, dict(environ), logs=logs))


def start(shell: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start it as YARN does, in a session of its own, with its standard input for orders."""
    with (folder / "logs/triton.stderr").open("ab") as log:
        return subprocess.Popen(
            # its output is for the test; the keeper of logs sees a pipe there, and leaves it alone
            [*shell, SCRIPT],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )


def write(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"written\n"


def end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)


def test_a_log_beyond_its_bound_is_moved_aside(shell, tmp_path: Path) -> None:
    """Two are kept; the program goes on writing at the start of an empty one."""
    assert SOON != RUN
    container(tmp_path, LogFiles(500, f"{MARK}ocr-0001"))
    log = tmp_path / "logs/triton.stderr"
    process = start(shell, tmp_path)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        write(process, "first")
        moved = log.with_name("triton.stderr.1")
        until(lambda: moved.exists() and log.stat().st_size == 0, 10, "a moved log")
        assert moved.read_bytes() == b"first\n" * 100
        write(process, "second")
        until(lambda: moved.read_bytes().startswith(b"second"), 10, "the next one")
        until(lambda: log.stat().st_size == 0, 10, "an empty log")
        os.truncate(log, 0)
        assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
            "instance-ocr-0001",
            "triton.stderr",
            "triton.stderr.1",
        ]
        assert (tmp_path / "logs/instance-ocr-0001").read_text() == "instance-ocr-0001\n"
    finally:
        end(process)


def test_a_log_below_its_bound_and_one_without_are_left_alone(shell, tmp_path: Path) -> None:
    """Nothing is beside it, and without a bound no process is."""
    for name, logs in (("bound", LogFiles(10_000)), ("none", None)):
        folder = tmp_path / name
        folder.mkdir()
        container(folder, logs)
        process = start(shell, folder)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            write(process, "first")
            beside = psutil.Process(process.pid).children()
            assert len(beside) == (1 if logs else 0)
            assert not list((folder / "logs").glob("*.1"))
        finally:
            end(process)


def test_an_image_without_its_programs_starts_all_the_same(shell, tmp_path: Path) -> None:
    """Then its logs grow, and nobody is told by which file they are found."""
    container(tmp_path, LogFiles(500, f"{MARK}ocr-0001"))
    bare = tmp_path / "bare"
    bare.mkdir()
    for program in ("cp", "mkdir"):
        (bare / program).symlink_to(str(shutil.which(program)))
    done = subprocess.run(
        [*shell, SCRIPT],
        cwd=tmp_path,
        input=b"",
        capture_output=True,
        env={"PATH": str(bare), "USER": "x", "LOGNAME": "x"},
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"begun\n", b"")


def test_the_keeper_of_logs_knows_no_value_and_ends_with_its_program(shell, tmp_path: Path) -> None:
    """A secret stands in the program's environment only; TERM ends the group, a crash the rest."""
    container(tmp_path, LogFiles(500), {"SECRET": "hunter2"})
    process = start(shell, tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    (keeper,) = psutil.Process(process.pid).children()
    try:
        assert b"hunter2" in Path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"hunter2" not in Path(f"/proc/{keeper.pid}/environ").read_bytes()
        assert b"hunter2" not in _memory(keeper.pid)
        held = [Path(f"/proc/{keeper.pid}/fd/{descriptor}") for descriptor in (0, 1, 2)]
        # it is a copy of its shell until it has begun
        until(lambda: {str(each.readlink()) for each in held} == {"/dev/null"}, 10, "its start")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        until(lambda: not keeper.is_running(), 10, "the end of who kept the logs")
    finally:
        process.communicate(timeout=10)


def _memory(pid: int) -> bytes:
    """Return what a process can write to: heap and stack, where a shell has its variables."""
    found = b""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            if "w" in rights and "r" in rights:
                begin, last = (int(part, 16) for part in span.split("-"))
                memory.seek(begin)
                found += memory.read(last - begin)
    return found
