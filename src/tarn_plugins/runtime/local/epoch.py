"""Which master may act: a number that only grows, compared under a lock before every act.

The file ``epoch`` of a cluster's directory holds the newest epoch. Everybody who claims, spawns,
kills or saves holds its ``flock`` for that one act, so an old master that wakes up late finds a
higher number and does nothing. ``<home>/epochs/<name>`` outlives the directory: a later `up` never
has a lower incarnation.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import Epoch
from tarn.errors import Superseded, TimedOutError
from tarn.triton.folders import private_folder
from tarn_plugins.runtime.local.atomic import replace_file

__all__ = ["Fence", "begin", "claim", "forget"]

LOCK_TIMEOUT_S = 5.0
"""An act under the lock takes milliseconds; longer means its holder hangs."""
_WIDTH = 63
"""The file is rewritten in place by one write of constant length, so it is never half old."""
_ENDED = "the end of the cluster"


@attrs.frozen
class Fence:
    """Lets the master of one epoch act, until a newer one has claimed the cluster."""

    directory: Path
    epoch: Epoch

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for one act: a spawn, a kill, a save.

        Raises:
            Superseded: A newer master claimed the cluster, or it was ended.
            TimedOutError: Somebody holds the lock for more than five seconds.
        """
        try:
            with _locked(self.directory / "epoch", os.O_RDWR) as descriptor:
                newest = _read(descriptor)
                if newest is None or newest > self.epoch:
                    raise Superseded(str(self.epoch), str(newest))
                yield
        except _GoneError:
            raise Superseded(str(self.epoch), _ENDED) from None

    def check(self) -> None:
        """Raise ``Superseded`` when a newer master is at work."""
        with self.held():
            pass


def claim(_settings: Any, directory: Path, _environ: Mapping[str, str]) -> Epoch:
    """Return the epoch of a starting master: one attempt above the last one."""
    with _locked(directory / "epoch", os.O_RDWR | os.O_CREAT) as descriptor:
        last = _read(descriptor) or Epoch(_next_incarnation(directory, None), 0)
        epoch = Epoch(last.incarnation, last.attempt + 1)
        _write(descriptor, epoch)
    return epoch


def begin(directory: Path) -> Epoch:
    """Begin a new incarnation (attempt 0) for an `up`; masters of older ones are superseded."""
    with _locked(directory / "epoch", os.O_RDWR | os.O_CREAT) as descriptor:
        epoch = Epoch(_next_incarnation(directory, _read(descriptor)), 0)
        _write(descriptor, epoch)
    return epoch


def forget(directory: Path) -> None:
    """Remove the cluster's epoch; every master of it is superseded. Idempotent."""
    with contextlib.suppress(FileNotFoundError):
        (directory / "epoch").unlink()


class _GoneError(Exception):
    """The file was removed."""


@contextlib.contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise _GoneError from None
    try:
        _lock(descriptor, path)
        if os.fstat(descriptor).st_nlink == 0:
            raise _GoneError
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    pause = threading.Event()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                raise TimedOutError(
                    f"another process has held this lock for {LOCK_TIMEOUT_S:g} s",
                    where=str(path),
                    next_step=f"`fuser {path}` shows which",
                ) from None
            pause.wait(0.01)
        else:
            return


def _read(descriptor: int) -> Epoch | None:
    text = os.pread(descriptor, _WIDTH + 1, 0).decode(errors="replace").strip()
    try:
        return Epoch.parse(text)
    except ValueError:
        return None


def _write(descriptor: int, epoch: Epoch) -> None:
    data, done = f"{epoch!s:<{_WIDTH}}\n".encode(), 0
    while done < len(data):  # a disk that fills up takes a part first, and refuses the rest
        done += os.pwrite(descriptor, data[done:], done)
    os.fsync(descriptor)


def _next_incarnation(directory: Path, last: Epoch | None) -> int:
    ledger = directory.parent.parent / "epochs" / directory.name
    try:
        kept = int(ledger.read_text())
    except (FileNotFoundError, ValueError):
        kept = 0
    floor = max(kept, last.incarnation if last else 0)
    incarnation = max(int(time.time() * 1000), floor + 1)
    private_folder(ledger.parent)
    replace_file(ledger, str(incarnation).encode())
    return incarnation
