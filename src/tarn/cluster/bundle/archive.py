"""The file itself: written whole or not at all, and for its owner only."""

import contextlib
import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from tarn.errors import RefusedError, TarnError

__all__ = ["write"]

_MODE = 0o600


def write(path: Path, folder: str, files: Mapping[str, str], at: float) -> int:
    """Write *files* as ``<folder>/<name>`` into a .tar.gz at *path*; return its bytes.

    Nobody but the owner can read it, no name of a user or machine stands in its headers, and a
    failure leaves nothing behind.

    Args:
        path: Must not exist.
        folder: The one folder in it.
        files: Name to text.
        at: Time of every member, Unix seconds.

    Raises:
        RefusedError: There is a file already (TARN-3842).
        TarnError: It cannot be written (TARN-3841).
    """
    if path.exists() or path.is_symlink():
        raise _there(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _private(part) as file:
            _fill(file, folder, files, at)
        os.link(part, path)  # unlike a rename, it never replaces what came there meanwhile
        return path.stat().st_size
    except FileExistsError as error:
        raise _there(path) from error
    except OSError as error:
        raise TarnError(
            f"cannot be written ({error.strerror})",
            code="TARN-3841",
            where=str(path),
            next_step="With -o, name a file in a folder that you may write to, on a disk with free "
            "space",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _there(path: Path) -> RefusedError:
    return RefusedError(
        "the file already exists, and a bundle does not replace a file",
        code="TARN-3842",
        where=str(path),
        next_step="Name another one with -o",
    )


@contextlib.contextmanager
def _private(path: Path) -> Iterator[IO[bytes]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, _MODE), "wb") as file:
        yield file


def _fill(file: IO[bytes], folder: str, files: Mapping[str, str], at: float) -> None:
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=int(at)) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, text in files.items():
            data = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(data), int(at), _MODE
            tar.addfile(member, io.BytesIO(data))
