"""A keystore's file on this machine: whole for whoever reads it, and for its owner alone."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tarn.errors import ConfigError, ProviderError

__all__ = ["change", "open_to_others", "read"]


def read(path: Path) -> bytes:
    """Return the keystore.

    Raises:
        ConfigError: TARN-3740: it is missing, or this user may not read it.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            "there is no such file",
            code="TARN-3740",
            where=str(path),
            next_step="`tarn secrets put NAME` creates it; or correct options.path.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", code="TARN-3740", where=str(path)
        ) from error


def open_to_others(path: Path) -> bool:
    """Say whether others than its owner may read it."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def change(path: Path, edit: Callable[[bytes], bytes]) -> None:
    """Replace the content of *path*, made where it is missing, by what *edit* makes of it.

    Readers see the old keystore or the new one, whenever the power goes, and two changes at once
    come one after the other. The mode is 0600 then, whatever it was; a link stays one.

    Raises:
        ProviderError: TARN-3745; the old keystore stays.
    """
    target = Path(os.path.realpath(path))
    try:
        with _alone(target.parent):
            old = target.read_bytes() if target.exists() else b""
            _replace(target, edit(old))
    except OSError as error:
        raise ProviderError(
            "jceks",
            f"cannot be written ({error.strerror}); it is as it was",
            code="TARN-3745",
            where=str(path),
        ) from error


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Be the only writer of this kind: the directory itself is the lock, so no file is left."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    # mkstemp makes it 0600: nobody else ever reads a part of it
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
