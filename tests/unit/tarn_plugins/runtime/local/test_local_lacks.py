"""This process lacks a descriptor: nobody is taken for gone, and nothing for damaged."""

import errno
import os
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from tarn.clock import SystemClock
from tarn.errors import ProviderError
from tarn.triton import stubs
from tarn_plugins.runtime.local.files import Records, read_keeper, read_ref
from tarn_plugins.runtime.local.keeper import start_ticks
from tarn_plugins.runtime.local.processes import Watcher
from tarn_plugins.runtime.local.state import FileStateStore


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_more: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)


@pytest.mark.usefixtures("lacking")
def test_no_file_counts_as_missing_or_damaged(tmp_path: Path) -> None:
    """Else a master would end instances without a record, and a client start a second master."""
    os.close(os.open(tmp_path / "a-0001.json", os.O_CREAT | os.O_WRONLY, 0o600))
    os.close(os.open(tmp_path / "state-1.json", os.O_CREAT | os.O_WRONLY, 0o600))
    with pytest.raises(OSError, match="Too many open files"):
        Records(tmp_path).read()
    for read in (read_ref, read_keeper):
        with pytest.raises(OSError, match="Too many open files"):
            read(tmp_path)
    with pytest.raises(ProviderError, match="files open") as caught:
        FileStateStore(tmp_path).load()
    assert caught.value.retry_after_s


@pytest.mark.usefixtures("lacking")
def test_a_process_that_cannot_be_looked_at_is_not_gone() -> None:
    """Its files would be cleared, and its processes ended."""
    with pytest.raises(OSError, match="Too many open files"):
        start_ticks(os.getpid())


def test_the_watcher_outlives_what_it_calls() -> None:
    """Without its thread no end of an instance would be noticed any more."""
    watcher, called = Watcher(SystemClock()), threading.Event()

    def fail() -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    watcher.at(0.0, fail)
    watcher.at(0.0, called.set)
    assert called.wait(10.0)
    watcher.close()


def test_no_process_of_a_model_counts_as_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that could not be made says nothing, and the next one reads everything."""
    children, ours = stubs.ChildProcesses(), os.getppid()

    def refuse(*_arguments: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(stubs, "_text", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            children.look({ours})
    assert os.getpid() in {child.pid for child in children.look({ours})[ours]}
