"""The master's saved state on Hadoop, and access to files while delegation tokens last.

The state is saved in numbered files, of which the two newest are kept.
"""

import functools
import re
from collections.abc import Callable
from typing import TypeVar

import attrs

from tarn.domain import Epoch, SavedState
from tarn.errors import NotFoundError, ProviderError, Superseded
from tarn.plain.master_files import StateFile, newest, written
from tarn_plugins.runtime.yarn.messages import FileEntry, Files
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED, day

__all__ = ["ExpiringFiles", "HadoopStateStore"]

_KEPT = 2
_NAME = re.compile(r"state-(\d+)-(\d+)\.json")

T = TypeVar("T")


@attrs.frozen
class HadoopStateStore:
    """Keeps ``state-<attempt>-<n>.json``. Only the state thread uses it."""

    # Hadoop cannot lock a file while it is renamed. So each master puts its attempt into the names
    # of its files, and only the highest attempt is read: never a file of a superseded master.

    files: Files
    directory: str
    """URI of the cluster's private directory."""

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest readable state, and an alert for each newer, unreadable one.

        Raises:
            TarnError: The newest one has a newer schema (code TARN-1007).
            ProviderError: The file system does not answer.
        """
        try:
            keys = self._keys()
        except ProviderError as error:
            if error.code != TOKENS_ENDED:
                raise
            # No retry can help, and a master without the saved state is better than none.
            return None, (f"the saved state could not be read ({error.found})",)
        names = [_name(key) for key in reversed(keys)]
        return newest(
            StateFile(name, self._where(name), functools.partial(self._read, name))
            for name in names
        )

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Write *state* as the newest file, and remove all but the two newest.

        Raises:
            Superseded: A master of a higher epoch has saved.
            ProviderError: It could not be written (code TARN-1005); the old copy stays.
        """
        data = written(state, epoch)
        try:
            self._save(data, epoch)
        except ProviderError as error:
            raise ProviderError(
                "yarn",
                f"the state was not saved ({len(data)} bytes): {error.found}; the older copy stays",
                retry_after_s=5.0,
                code="TARN-1005",
                where=self.directory,
                next_step=error.next_step
                if error.code == TOKENS_ENDED
                else "Fix the file system, or this directory's permissions and quota",
            ) from error

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Write *data* to ``kept-<name>-<attempt>``, and remove those of older attempts.

        Raises:
            Superseded: A master of a higher epoch has kept something as *name*.
            ProviderError: It could not be written; the old copy stays.
        """
        attempts = self._attempts(name)
        mine = epoch.attempt
        _refuse_older([(attempt, 0) for attempt in attempts], epoch)
        temporary = self._where(f"{_kept(name, mine)}.new")
        self.files.write(temporary, data, replace=True)
        self.files.rename(temporary, self._where(_kept(name, mine)))
        for old in attempts:
            if old < mine:
                self.files.remove(self._where(_kept(name, old)))

    def kept(self, name: str) -> bytes | None:
        """Return the data that the highest attempt kept as *name*; None if there is none.

        Raises:
            ProviderError: The file system does not answer.
        """
        attempts = self._attempts(name)
        if not attempts:
            return None
        try:
            return self.files.read(self._where(_kept(name, attempts[-1])))
        except NotFoundError:  # a newer master has just removed it
            return None

    def _attempts(self, name: str) -> list[int]:
        """Return the attempts with a file ``kept-<name>-...``, the highest last."""
        try:
            entries = self.files.listing(self.directory)
        except NotFoundError:
            return []
        start = f"kept-{name}-"
        found = (e.path.removeprefix(start) for e in entries if e.path.startswith(start))
        return sorted(int(attempt) for attempt in found if attempt.isdecimal())

    def _save(self, data: bytes, epoch: Epoch) -> None:
        keys = self._keys()
        _refuse_older(keys, epoch)
        number = 1 + max((n for attempt, n in keys if attempt == epoch.attempt), default=0)
        mine = (epoch.attempt, number)
        temporary = self._where(f"{_name(mine)}.new")
        self.files.write(temporary, data, replace=True)
        self.files.rename(temporary, self._where(_name(mine)))
        # If a newer master has saved meanwhile, only that one may remove files.
        _refuse_older(self._keys(), epoch)
        # One more is removed than *keys* suggest, since the new file is not among them.
        for old in keys[: len(keys) + 1 - _KEPT]:
            self.files.remove(self._where(_name(old)))

    def _keys(self) -> list[tuple[int, int]]:
        """Return (attempt, number) of each file, the newest last."""
        try:
            entries = self.files.listing(self.directory)
        except NotFoundError:
            return []
        found = (_NAME.fullmatch(entry.path) for entry in entries)
        return sorted((int(m[1]), int(m[2])) for m in found if m)

    def _where(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _read(self, name: str) -> bytes:
        try:
            return self.files.read(self._where(name))
        except (NotFoundError, ProviderError) as error:
            if isinstance(error, ProviderError) and error.retry_after_s is not None:
                raise  # it is not damaged, so an older state must not replace it
            raise OSError(str(error)) from error


def _kept(name: str, attempt: int) -> str:
    return f"kept-{name}-{attempt}"


def _name(key: tuple[int, int]) -> str:
    return f"state-{key[0]}-{key[1]}.json"


def _refuse_older(keys: list[tuple[int, int]], epoch: Epoch) -> None:
    highest = keys[-1][0] if keys else 0
    if highest > epoch.attempt:
        raise Superseded(str(epoch), str(Epoch(epoch.incarnation, highest)))


@attrs.define
class ExpiringFiles:
    """`Files` that call Hadoop no more once it has refused a token that had ended."""

    # A master without a keytab never gets new tokens, and Hadoop's client logs a page for each
    # refusal: one attempt a second would fill the node's disk. Before the first refusal every call
    # is made: an open connection does not check its token, and of several file systems `ends_at`
    # is the end of the first token.

    files: Files
    ends_at: float | None
    """Unix seconds; None: there is no token, or it never ends."""
    at: Callable[[], float]
    """Returns the wall time, Unix seconds."""
    _refused: str = attrs.field(default="", init=False)

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        return self._try(uri, lambda: self.files.read(uri))

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        """Write a file."""
        self._try(uri, lambda: self.files.write(uri, data, mode=mode, replace=replace))

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        """Return the files in a directory."""
        return self._try(uri, lambda: self.files.listing(uri, deep=deep))

    def entry(self, uri: str) -> FileEntry:
        """Return the entry of one file."""
        return self._try(uri, lambda: self.files.entry(uri))

    def rename(self, source: str, target: str) -> None:
        """Rename a file."""
        self._try(source, lambda: self.files.rename(source, target))

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with its content."""
        self._try(uri, lambda: self.files.remove(uri))

    def prune(self, uri: str) -> None:
        """Remove an empty directory."""
        self._try(uri, lambda: self.files.prune(uri))

    def _try(self, uri: str, call: Callable[[], T]) -> T:
        if self._refused:
            raise self._error(uri)
        try:
            return call()
        except ProviderError as error:
            ends_at = self.ends_at
            if error.code == TOKENS_ENDED and ends_at is not None and self.at() >= ends_at:
                ended = day(ends_at)
                self._refused = f"it cannot be reached: the delegation tokens ended at {ended}"
                raise self._error(uri) from error
            raise

    def _error(self, uri: str) -> ProviderError:
        return ProviderError(
            "yarn",
            self._refused,
            code=TOKENS_ENDED,
            where=uri,
            next_step="Submit the cluster again: `tarn down`, then `tarn up`.",
        )
