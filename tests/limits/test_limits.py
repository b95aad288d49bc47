"""A machine runs out of something: nothing healthy is stopped, it is said, and it ends with it."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from house import until
from scene import CALM_S, NAME, WITHIN_S, Poor, Shim, allow_files, files_of, steady_files_of

HARD = 256
NONE = 3
"""The standard streams have the numbers below it."""


@pytest.fixture
def poor(tmp_path: Path) -> Iterator[Poor]:
    one = Poor(tmp_path)
    yield one
    one.end()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 8 MiB at *folder*."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tarn-limits", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def calm(poor: Poor, before: dict[str, str], for_s: float = CALM_S) -> None:
    """The same instances serve all the time, longer than a silent one would be left in peace."""
    pause = threading.Event()
    for _ in range(4):
        pause.wait(for_s / 4)
        # one answer that is late says nothing about the instances
        now = until(poor.pids, WITHIN_S, poor.said)
        assert before.items() <= now.items(), poor.said()


def test_few_descriptors_are_told_beforehand(poor: Poor) -> None:
    """With 64 the cause is named, not a time-out; nothing was started."""
    done = subprocess.run(
        ["sh", "-c", f'ulimit -n 64 && exec "{poor.python}" -m tarn up -f "{poor.spec(NAME)}"'],
        check=False,
        capture_output=True,
        text=True,
        env=poor.environ,
        timeout=60,
    )
    assert done.returncode != 0
    assert "TARN-3111" in done.stderr
    assert "may open 64 files" in done.stderr
    assert poor.processes(NAME) == {}


def test_a_master_of_256_descriptors(poor: Poor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of silent connections, then no descriptor at all, then a death meanwhile."""
    program = poor.python
    few = poor.root / "python"
    few.write_text(f'#!/bin/sh\nulimit -n {HARD}\nexec "{program}" "$@"\n')
    few.chmod(0o700)
    poor.python = str(few)
    poor.up()
    before = poor.pids()
    master = poor.master
    calm_files = len(files_of(master))
    with contextlib.ExitStack() as held:  # far more than it may have open
        where = urlsplit(poor.url)
        for _ in range(2 * HARD):
            held.enter_context(socket.create_connection((where.hostname, where.port), timeout=5))
        calm(poor, before)
        assert poor.log().count("idle connections are closed") < 5
    # one more for what asks now and then; a file of the flood that is closed later would be free
    until(lambda: len(files_of(master)) <= calm_files + 1, WITHIN_S, "the end of the flood")
    starve(poor, master)
    calm(poor, before)
    assert "TARN-1106" not in poor.codes()
    dead, pid = min(before.items())
    os.kill(int(pid), signal.SIGKILL)
    until(lambda: dead not in poor.ready(), 20, poor.said)
    allow_files(master, HARD)
    poor.reach(2)
    until(lambda: "TARN-1021" not in poor.said(), 20, poor.said)
    other = max(before)
    assert poor.pids()[other] == before[other]


def starve(poor: Poor, master: int) -> None:
    """Leave *master* just so many files that it can say that they are too few."""
    kept = steady_files_of(master)
    free = next(number for number in itertools.count() if number not in kept)
    # To answer, it frees one that it keeps in reserve: copies of its listener. Where the flood has
    # put them all beyond what is left, it gets one number more in their place.
    named = Counter(kept.values())
    reserve = [number for number in kept if named[kept[number]] > 1]
    enough = free if min(reserve, default=free) < free else free + 1
    pause = threading.Event()

    def told() -> bool:
        # Whoever asks makes it free one, with which it may look. So first it gets none, and is
        # asked nothing, until its connections to the instances have ended.
        allow_files(master, NONE)
        pause.wait(CALM_S)
        allow_files(master, enough)
        said = poor.said()
        return "TARN-1021" in said and "files open" in said

    until(told, WITHIN_S, lambda: f"{poor.said()} (files {kept})")


def test_a_full_disk(poor: Poor) -> None:
    """State and a new instance wait for space; a master that is killed meanwhile comes back."""
    with small_disk(poor.home):
        poor.up()
        before = poor.pids()
        big = poor.home / "big"
        with contextlib.suppress(OSError), big.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        poor.ask("/api/v1/scale", replicas=3)
        poor.says("TARN-1005", "no space is left on the disk")
        calm(poor, before)
        assert "TARN-1112" not in poor.codes()
        big.unlink()
        poor.reach(3)
        assert before.items() <= poor.pids().items()
        until(lambda: "TARN-1005" not in poor.said(), 20, poor.said)
        os.kill(poor.master, signal.SIGKILL)
        poor.restarted()
        poor.reach(3)
        assert before.items() <= poor.pids().items()
        assert poor.seen()["manual"] == 3
        poor.end()


def test_no_thread_and_no_process(poor: Poor, tmp_path: Path) -> None:
    """A new instance waits, and so does the next master; then both come to be."""
    shim = Shim(tmp_path)
    poor.environ |= shim.environ
    poor.up()
    before = poor.pids()
    shim.say(refuse=True)
    poor.ask("/api/v1/scale", replicas=3)
    poor.says("may not start another process or thread")
    calm(poor, before)
    assert "TARN-1112" not in poor.codes()
    os.kill(poor.master, signal.SIGKILL)
    until(lambda: "the keeper cannot start a master" in poor.log(), 20, poor.log)
    shim.say(refuse=False)
    poor.restarted()
    poor.reach(3)
    assert before.items() <= poor.pids().items()
    assert poor.seen()["manual"] == 3


def test_a_wall_clock_that_jumps(poor: Poor, tmp_path: Path) -> None:
    """An hour forward, an hour back, and a master that starts in between."""
    shim = Shim(tmp_path)
    poor.environ |= shim.environ
    poor.up()
    before = poor.pids()
    poor.ask("/api/v1/scale", replicas=2)
    for ahead_s, way in ((3600, "forward"), (0, "back"), (-3600, "back")):
        shim.say(ahead_s=ahead_s)
        until(partial(poor.happened, f"jumped {way} by 36"), 20, poor.said)
        calm(poor, before, 2.0)
    os.kill(poor.master, signal.SIGKILL)
    poor.restarted()
    poor.reach(2)
    assert poor.pids() == before
    assert poor.seen()["manual"] == 2
    assert "TARN-1108" not in poor.codes()
