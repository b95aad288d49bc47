"""How many files may be open, and whose fault an error is."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from tarn import descriptors

PROGRAM = """
import resource, subprocess, sys
from tarn import descriptors
before = resource.getrlimit(resource.RLIMIT_NOFILE)
raised = descriptors.raise_limit()
child = subprocess.Popen(["sleep", "30"])
descriptors.from_before(child.pid)
print(before[0], raised, *resource.prlimit(child.pid, resource.RLIMIT_NOFILE))
child.kill()
"""


def test_a_process_raises_its_limit_and_its_children_have_the_old_one() -> None:
    """Soft becomes hard; whoever is started keeps what the user chose."""

    def low() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], preexec_fn=low, capture_output=True, check=True, text=True
    )
    assert done.stdout.split() == ["128", "512", "128", "512"]


def test_a_limit_that_cannot_be_raised_keeps_no_master_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where ``fs.nr_open`` was lowered below a hard limit that is older."""

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (128, 512))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert descriptors.raise_limit() == 128
    descriptors.from_before(os.getpid())  # there is nothing to give back


def test_no_limit_at_all_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes each descriptor that there may be would be busy for minutes."""
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: infinite)
    assert descriptors.limit() == descriptors.most() == descriptors.HIGHEST


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_what_we_lack_is_told_from_whatever_it_caused(number: int) -> None:
    """Libraries wrap it in errors of their own."""
    cause = OSError(number, os.strerror(number))
    error = RuntimeError("no connection")
    error.__cause__ = ExceptionGroup("all addresses", [ValueError(), cause])
    assert descriptors.shortage(error)
    assert descriptors.shortage(cause)


def test_the_limit_stands_in_the_words() -> None:
    """So that nobody has to look for it."""
    words = descriptors.shortage(OSError(errno.EMFILE, "Too many open files"))
    assert f"({descriptors.limit()}; ulimit -n)" in words


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH])
def test_what_others_do_is_no_lack_of_ours(number: int) -> None:
    """Their classes and numbers tell, never their texts."""
    assert descriptors.shortage(OSError(number, "")) == ""
    assert descriptors.shortage(ValueError("Too many open files")) == ""


def test_a_full_disk_and_too_many_processes_count_where_something_starts() -> None:
    """A connection fails by neither."""
    full, many = OSError(errno.ENOSPC, ""), RuntimeError("can't start new thread")
    assert "disk" in descriptors.shortage(full, starting=True)
    assert "thread" in descriptors.shortage(many, starting=True)
    assert descriptors.shortage(full) == descriptors.shortage(many) == ""


def test_few_says_what_a_fleet_needs() -> None:
    """A usual limit of 1024 is enough for a hundred instances, and 256 for a dozen."""
    assert descriptors.few(100, 1024) == ""
    assert descriptors.few(12, 256) == ""
    assert descriptors.few(600, 1024).startswith("may open 1024 files; a master of 600 instances")
    assert descriptors.few(1, 64) == "may open 64 files; a master of 1 instance needs 136"


def test_the_api_takes_its_part_of_what_there_is() -> None:
    """A quarter, and no more than a fleet needs."""
    assert descriptors.most_connections(64) == descriptors.FEWEST_CONNECTIONS
    assert descriptors.most_connections(1024) == 256
    assert descriptors.most_connections(1 << 20) == descriptors.MOST_CONNECTIONS
