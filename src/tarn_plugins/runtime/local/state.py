"""The epoch of a cluster's master, which fences off older ones, and its saved state; on a disk.

The file ``epoch`` in a cluster's directory holds the newest epoch, a number that only grows. A
master holds the file's ``flock`` while it claims, spawns, kills or saves, so an old master that
wakes up late finds a higher epoch and does nothing. ``<home>/epochs/<name>`` outlives the
directory, so that a later `up` never has a lower incarnation.

The state is saved in numbered files, of which the two newest are kept.
"""

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.descriptors import shortage
from tarn.domain import Epoch, SavedState
from tarn.errors import ProviderError, Superseded, TimedOutError
from tarn.plain.master_files import StateFile, newest, written
from tarn.triton.folders import private_folder

__all__ = ["Fence", "FileStateStore", "begin_epoch", "claim_epoch", "forget_epoch", "replace_file"]

# The lock is held for milliseconds; after this long its holder hangs.
LOCK_TIMEOUT_S = 5.0
# One write of constant length replaces the content, so no part of an old epoch remains.
_WIDTH = 63
_ENDED = "the end of the cluster"

_KEPT = 2
_NAME = re.compile(r"state-(\d+)\.json")


def replace_file(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    guard: contextlib.AbstractContextManager[None] | None = None,
) -> None:
    """Replace the content of *path* by *data*, atomically and fsynced.

    An ``OSError``, such as for a full disk, or an error of *guard* leaves the old content.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # Only the rename happens under the lock, not the slow writing.
        with guard or contextlib.nullcontext():
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # The directory, too: otherwise a power failure may undo the renaming.
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@attrs.frozen
class Fence:
    """Lets the master of one epoch act until a newer one claims the cluster."""

    directory: Path
    epoch: Epoch

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for one spawn, kill or save.

        Raises:
            Superseded: A newer master claimed the cluster, or it was ended.
            TimedOutError: Another process holds the lock for more than five seconds.
        """
        try:
            with _locked(self.directory / "epoch", os.O_RDWR) as descriptor:
                newest = _read_epoch(descriptor)
                if newest is None or newest > self.epoch:
                    raise Superseded(str(self.epoch), str(newest))
                yield
        except _GoneError:
            raise Superseded(str(self.epoch), _ENDED) from None

    def check(self) -> None:
        """Raise ``Superseded`` if a newer master has claimed the cluster."""
        with self.held():
            pass


def claim_epoch(_settings: Any, directory: Path, _environ: Mapping[str, str]) -> Epoch:
    """Claim and return the epoch of a starting master: the next attempt."""
    with _locked(directory / "epoch", os.O_RDWR | os.O_CREAT) as descriptor:
        last = _read_epoch(descriptor) or Epoch(_next_incarnation(directory, None), 0)
        epoch = Epoch(last.incarnation, last.attempt + 1)
        _write_epoch(descriptor, epoch)
    return epoch


def begin_epoch(directory: Path) -> Epoch:
    """Begin a new incarnation (attempt 0), which supersedes masters of older ones."""
    with _locked(directory / "epoch", os.O_RDWR | os.O_CREAT) as descriptor:
        epoch = Epoch(_next_incarnation(directory, _read_epoch(descriptor)), 0)
        _write_epoch(descriptor, epoch)
    return epoch


def forget_epoch(directory: Path) -> None:
    """Remove the cluster's epoch, which supersedes all its masters. Idempotent."""
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
        # Removed between `open` and the lock, so another process would lock another file.
        if os.fstat(descriptor).st_nlink == 0:
            raise _GoneError
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    # In a loop, since `flock` itself has no time-out.
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


def _read_epoch(descriptor: int) -> Epoch | None:
    text = os.pread(descriptor, _WIDTH + 1, 0).decode(errors="replace").strip()
    try:
        return Epoch.parse(text)
    except ValueError:
        return None


def _write_epoch(descriptor: int, epoch: Epoch) -> None:
    data, done = f"{epoch!s:<{_WIDTH}}\n".encode(), 0
    while done < len(data):  # a disk that fills up accepts a part of the data first
        done += os.pwrite(descriptor, data[done:], done)
    os.fsync(descriptor)


def _next_incarnation(directory: Path, last: Epoch | None) -> int:
    ledger = directory.parent.parent / "epochs" / directory.name
    try:
        kept = int(ledger.read_text())
    except (FileNotFoundError, ValueError):
        kept = 0
    floor = max(kept, last.incarnation if last else 0)
    # The time, so that it grows even if the ledger is lost; the floor, if the clock was set back.
    incarnation = max(int(time.time() * 1000), floor + 1)
    private_folder(ledger.parent)
    replace_file(ledger, str(incarnation).encode())
    return incarnation


@attrs.frozen
class FileStateStore:
    """Keeps ``state-<n>.json`` in a cluster's directory. Only the state thread uses it."""

    directory: Path

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest readable state, and an alert for each newer, unreadable one.

        Raises:
            ProviderError: This process lacks a resource, such as descriptors, for reading.
        """
        files = reversed(self._files())
        return newest(
            StateFile(path.name, str(path), functools.partial(_read_state, path)) for path in files
        )

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Write *state* as the newest, and remove all but two.

        Raises:
            Superseded: A newer master claimed the cluster, or the cluster ended.
            ProviderError: It could not be written (code TARN-1005); the old copy stays.
        """
        data = written(state, epoch)
        files = self._files()
        number = _number(files[-1]) + 1 if files else 1
        guard = Fence(self.directory, epoch).held()
        try:
            replace_file(self.directory / f"state-{number}.json", data, guard=guard)
            # One more is removed than *files* suggests, since the new file is not among them.
            for old in files[: len(files) + 1 - _KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise _not_saved(self.directory, len(data), error) from error

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Write *data* to ``kept-<name>``.

        Raises:
            Superseded: A newer master claimed the cluster, or the cluster ended.
            ProviderError: It could not be written (code TARN-3831); the old copy stays.
        """
        guard = Fence(self.directory, epoch).held()
        try:
            replace_file(self._kept(name), data, guard=guard)
        except OSError as error:
            raise ProviderError(
                "local",
                f"{name} was not kept: {error.strerror}; the older copy stays",
                retry_after_s=60.0,
                code="TARN-3831",
                where=str(self.directory),
                next_step="Free disk space, or fix the permissions of this directory",
            ) from error

    def kept(self, name: str) -> bytes | None:
        """Return the data last kept as *name*; None if there is none.

        Raises:
            ProviderError: It cannot be read (code TARN-3831).
        """
        path = self._kept(name)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ProviderError(
                "local",
                f"{name} cannot be read: {error.strerror}",
                code="TARN-3831",
                where=str(path),
                next_step="Fix its permissions",
            ) from error

    def _kept(self, name: str) -> Path:
        return self.directory / f"kept-{name}"

    def _files(self) -> list[Path]:
        found = (p for p in self.directory.glob("state-*.json") if _NAME.fullmatch(p.name))
        return sorted(found, key=_number)


def _read_state(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        lack = shortage(error)
        if not lack:
            raise
        raise ProviderError(
            "local", f"the saved state cannot be read: {lack}", retry_after_s=1.0, where=str(path)
        ) from error


def _number(path: Path) -> int:
    matched = _NAME.fullmatch(path.name)
    return int(matched[1]) if matched else 0


def _not_saved(directory: Path, needed: int, error: OSError) -> ProviderError:
    free = shutil.disk_usage(directory).free
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    found = f"{needed} bytes needed, {free} free" if full else str(error.strerror)
    return ProviderError(
        "local",
        f"the state was not saved: {found}; the older copy stays",
        retry_after_s=5.0,
        code="TARN-1005",
        where=str(directory),
        next_step="Free disk space, or fix the permissions of this directory",
    )
