"""The master's memory on a Hadoop file system: numbered files, of which the two newest are kept."""

import re

import attrs

from tarn.domain import Epoch, SavedState
from tarn.domain.state_file import StateFile, newest, written
from tarn.errors import NotFoundError, ProviderError, Superseded
from tarn_plugins.runtime.yarn.messages import Files
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED

__all__ = ["HadoopStateStore"]

_KEPT = 2
_NAME = re.compile(r"state-(\d+)-(\d+)\.json")


@attrs.frozen
class HadoopStateStore:
    """Keeps ``state-<attempt>-<n>.json``; used by the state thread only.

    Hadoop has no lock to hold while a file is renamed. So a master never writes a name of another
    attempt, and the highest attempt's file counts: what an old master still writes is never read.
    """

    files: Files
    directory: str
    """URI of the cluster's private directory."""

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest state that can be read, and an alert for each newer one that cannot.

        Raises:
            TarnError: The newest one has a newer schema (code TARN-1007).
            ProviderError: The file system does not answer.
        """
        try:
            keys = self._keys()
        except ProviderError as error:
            if error.code != TOKENS_ENDED:
                raise
            # It will never be read again: a master that knows less is better than none.
            return None, (f"the saved state could not be read ({error.found})",)
        names = [_name(key) for key in reversed(keys)]
        return newest(StateFile(name, self._where(name), self._reader(name)) for name in names)

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Write *state* as the newest, and drop all but two.

        Raises:
            Superseded: A master of a higher epoch has saved.
            ProviderError: The file system did not take it (code TARN-1005); the old copy stays.
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
        """Keep *data* as ``kept-<name>-<attempt>``, and drop those of older attempts.

        Raises:
            Superseded: A master of a higher epoch has kept something as *name*.
            ProviderError: The file system did not take it; the old copy stays.
        """
        attempts = self._attempts(name)
        mine = epoch.attempt
        _refuse_older([(attempt, 0) for attempt in attempts], epoch)
        beside = self._where(f"{_kept(name, mine)}.new")
        self.files.write(beside, data, replace=True)
        self.files.rename(beside, self._where(_kept(name, mine)))
        for old in attempts:
            if old < mine:
                self.files.remove(self._where(_kept(name, old)))

    def kept(self, name: str) -> bytes | None:
        """Return what the highest attempt kept as *name*; None: nothing was.

        Raises:
            ProviderError: The file system does not answer.
        """
        attempts = self._attempts(name)
        if not attempts:
            return None
        try:
            return self.files.read(self._where(_kept(name, attempts[-1])))
        except NotFoundError:  # a newer master has just dropped it
            return None

    def _attempts(self, name: str) -> list[int]:
        """Return the attempts that kept something as *name*, the highest last."""
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
        beside = self._where(f"{_name(mine)}.new")
        self.files.write(beside, data, replace=True)
        self.files.rename(beside, self._where(_name(mine)))
        # A newer master may have saved meanwhile: then only it may tidy up.
        _refuse_older(self._keys(), epoch)
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

    def _reader(self, name: str) -> "_StateReader":
        return _StateReader(self.files, self._where(name))


@attrs.frozen
class _StateReader:
    files: Files
    uri: str

    def __call__(self) -> bytes:
        try:
            return self.files.read(self.uri)
        except (NotFoundError, ProviderError) as error:
            if isinstance(error, ProviderError) and error.retry_after_s is not None:
                raise  # it is not damaged: an older one must not be taken instead
            raise OSError(str(error)) from error


def _kept(name: str, attempt: int) -> str:
    return f"kept-{name}-{attempt}"


def _name(key: tuple[int, int]) -> str:
    return f"state-{key[0]}-{key[1]}.json"


def _refuse_older(keys: list[tuple[int, int]], epoch: Epoch) -> None:
    highest = keys[-1][0] if keys else 0
    if highest > epoch.attempt:
        raise Superseded(str(epoch), str(Epoch(epoch.incarnation, highest)))
