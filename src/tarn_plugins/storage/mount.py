"""The storage `mount`: a path that every instance sees already (a local disk, NFS)."""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from tarn.errors import RepositoryError, StorageError
from tarn.hookspecs import StorageFactory, hookimpl
from tarn.interfaces import ClientContext, Staged, Storage
from tarn.plain import pasted
from tarn.triton import mounts
from tarn.triton.repository import nearest

__all__ = ["MountStorage", "tarn_storages"]


@attrs.frozen
class MountStorage:
    """Uses a directory in place. It checks the directory, and never creates one."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Return the absolute path of the directory *uri*, without resolving links.

        Raises:
            RepositoryError: There is no such directory.
            StorageError: It cannot be read by this user.
        """
        path = Path(uri).absolute()
        where = f"models.repository = '{uri}'"
        away = mounts.unanswered(path, where)
        if away is not None:
            raise StorageError(
                "mount", away.found, code=away.code, where=where, next_step=away.next_step
            )
        try:
            with os.scandir(path) as entries:
                next(entries, None)
        except FileNotFoundError as error:
            raise _absent(path, where) from error
        except NotADirectoryError as error:
            raise RepositoryError(
                "mount",
                f"{path} is a file, not a directory",
                where=where,
                next_step="Name the directory that holds the model directories.",
            ) from error
        except OSError as error:
            raise _denied(path, where, error) from error
        return Staged(location=str(path), kind="in_place")


def _denied(path: Path, where: str, error: OSError) -> StorageError:
    """Return the error that names the directory which denies access: *path*, or one above it."""
    above = (one for one in reversed(path.parents) if not os.access(one, os.X_OK))
    closed = next(above, None)
    if closed is None:
        found = f"{path} cannot be read: {error.strerror}"
        step = f"Give this user the right to read it: {pasted('chmod', 'a+rX', path)}"
    else:
        found = f"{path} cannot be reached: {error.strerror} at {closed}"
        step = f"Give this user the right to pass {closed}: {pasted('chmod', 'a+x', closed)}"
    return StorageError("mount", found, where=where, next_step=step)


def _absent(path: Path, where: str) -> RepositoryError:
    """Return the error that names the existing part of *path*: a typing error, or a lost mount."""
    there = next(parent for parent in path.parents if parent.exists())
    near = nearest(path)
    meant = f"Did you mean '{near}'? " if near else ""
    return RepositoryError(
        "mount",
        f"{path} does not exist; {there} does",
        where=where,
        next_step=f"{meant}Correct the path, or mount the file system; TARN never creates a "
        "repository.",
    )


@hookimpl
def tarn_storages() -> Mapping[str, StorageFactory]:
    """Offer ``mount`` for paths without a scheme."""
    create: type[Storage] = MountStorage
    summary = "a bare path: a directory that every instance sees; checked, never made"
    return {"mount": StorageFactory(frozenset({""}), create, summary)}
