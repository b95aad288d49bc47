"""What is said of processes while they change."""

import os
import subprocess
import sys
import time

import pytest

from tarn import process_table
from tarn.process_table import age_s, environment_of, pids_of

BECOMES_ITSELF = """
import os, sys
left = int(sys.argv[1])
if left:
    argv = [sys.executable, "-ISc", sys.argv[2], str(left - 1), sys.argv[2]]
    os.execve(sys.executable, argv, os.environ)
"""


def test_a_process_that_becomes_another_program_keeps_its_environment() -> None:
    """The kernel shows none for a moment; whoever is found by it must not be missed then."""
    argv = [sys.executable, "-ISc", BECOMES_ITSELF, "40", BECOMES_ITSELF]
    process = subprocess.Popen(argv, env={"TARN_MARK": "1"})
    looks, missed = 0, False
    while process.poll() is None:
        try:
            found = environment_of(process.pid)
        except OSError:
            continue
        if b"TARN_MARK=1" in found:
            assert not missed, f"look {looks} found nothing"
            looks += 1
        else:  # right only at its end, when its environment goes a moment before itself
            missed = True
    assert process.returncode == 0
    assert looks


def test_none_of_its_own_is_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was given no variable is told from one in the middle of exec, at once."""
    monkeypatch.setattr(process_table, "_EXEC_TAKES_S", 60.0)
    process = subprocess.Popen(["/bin/sleep", "60"], env={})
    try:
        began_s = time.monotonic()
        assert environment_of(process.pid) == ()
        assert time.monotonic() - began_s < 30
    finally:
        process.kill()
        process.wait()


def test_processes_are_told_by_user_and_age() -> None:
    """This process is its user's, and began before now and after the machine did."""
    assert os.getpid() in set(pids_of(os.getuid()))
    assert os.getpid() not in set(pids_of(os.getuid() + 1))
    assert 0 <= age_s(os.getpid()) < time.clock_gettime(time.CLOCK_BOOTTIME)
