"""How much memory the processes of an instance hold, measured on real ones."""

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tarn_plugins.runtime.local.machine import rss_mib

STEP_MIB = 128
PARENT = """
import mmap, os, subprocess, sys, threading

MIB = 1 << 20
def wait():
    print("done", flush=True)
    sys.stdin.readline()

wait()
own = b"x" * (128 * MIB)
wait()
shared = mmap.mmap(-1, 128 * MIB)  # as Triton's stubs share memory with it
shared.write(b"x" * (128 * MIB))
wait()
read, write = os.pipe()
def start():  # a child of a thread: it holds as much of its own, and shares all the rest
    if os.fork() == 0:
        more = b"y" * (128 * MIB)
        sum(shared[::4096])
        os.write(write, b".")
        os.read(0, 1)
        os._exit(0)
    os.read(read, 1)
    wait()
threading.Thread(target=start).start()
"""


@contextlib.contextmanager
def growing() -> Iterator["subprocess.Popen[str]"]:
    """Yield a process that holds more after each line that it reads."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def grown(process: "subprocess.Popen[str]") -> int:
    """Let it grow once more, and return what it holds then."""
    assert process.stdin is not None
    assert process.stdout is not None
    if process.poll() is None and process.stdout.readline() == "done\n":
        held = rss_mib(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert held is not None
        return held
    raise AssertionError("it ended")


def test_a_process_and_its_descendants_are_counted_and_what_they_share_once() -> None:
    """Rounded to 16 MiB, so that it does not change with every look."""
    with growing() as process:
        held = [grown(process) for _ in range(4)]
    assert all(mib % 16 == 0 for mib in held)
    assert 0 < held[0] < STEP_MIB
    steps = [after - before for before, after in itertools.pairwise(held)]
    assert steps == pytest.approx([STEP_MIB] * 3, abs=32)
    assert rss_mib(process.pid) is None
