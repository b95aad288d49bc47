"""The master's memory on a disk: numbered files, of which the two newest are kept."""

import errno
import functools
import re
import shutil
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.domain import Epoch, SavedState
from tarn.domain.state_file import StateFile, newest, written
from tarn.errors import ProviderError
from tarn_plugins.runtime.local.atomic import replace_file
from tarn_plugins.runtime.local.epoch import Fence

__all__ = ["FileStateStore"]

_KEPT = 2
_NAME = re.compile(r"state-(\d+)\.json")


@attrs.frozen
class FileStateStore:
    """Keeps ``state-<n>.json`` in a cluster's directory; used by the state thread only."""

    directory: Path

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest state that can be read, and an alert for each newer one that cannot.

        Raises:
            ProviderError: This process lacks what reading takes: no file is damaged for that.
        """
        files = reversed(self._files())
        return newest(
            StateFile(path.name, str(path), functools.partial(_read, path)) for path in files
        )

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Write *state* as the newest, and drop all but two.

        Raises:
            Superseded: A master of a higher epoch is at work, or the cluster ended.
            ProviderError: The disk did not take it (code TARN-1005); the old copy stays.
        """
        data = written(state, epoch)
        files = self._files()
        number = _number(files[-1]) + 1 if files else 1
        guard = Fence(self.directory, epoch).held()
        try:
            replace_file(self.directory / f"state-{number}.json", data, guard=guard)
            for old in files[: len(files) + 1 - _KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise _not_saved(self.directory, len(data), error) from error

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Keep *data* as ``kept-<name>``.

        Raises:
            Superseded: A master of a higher epoch is at work, or the cluster ended.
            ProviderError: The disk did not take it (code TARN-3831); the old copy stays.
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
        """Return what was kept last as *name*; None: nothing was.

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


def _read(path: Path) -> bytes:
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
