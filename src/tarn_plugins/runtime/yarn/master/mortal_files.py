"""Files that can be reached for as long as the delegation tokens live."""

from collections.abc import Callable
from typing import TypeVar

import attrs

from tarn.errors import ProviderError
from tarn_plugins.runtime.yarn import tokens
from tarn_plugins.runtime.yarn.messages import FileEntry, Files

__all__ = ["MortalFiles"]

T = TypeVar("T")


@attrs.define
class MortalFiles:
    """`wire.Files` over others that are not asked any more once a token was refused after its end.

    A master is never given new tokens, and Hadoop's client writes a page of its log for each
    refusal; who tries again every second would fill the node's disk. Before the first refusal
    everything is tried: a connection that is open is not asked for its token, and the end that is
    known is that of the first of several file systems.
    """

    files: Files
    ends_at: float | None
    """Unix seconds; None: there is no token, or it does not end."""
    at: Callable[[], float]
    """Wall time now, Unix seconds."""
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
        """Return what is known of one file."""
        return self._try(uri, lambda: self.files.entry(uri))

    def rename(self, source: str, target: str) -> None:
        """Rename a file."""
        self._try(source, lambda: self.files.rename(source, target))

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with all that is in it."""
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
            if error.code == tokens.TOKENS_ENDED and ends_at is not None and self.at() >= ends_at:
                ended = tokens.day(ends_at)
                self._refused = f"it cannot be reached: the delegation tokens ended at {ended}"
                raise self._error(uri) from error
            raise

    def _error(self, uri: str) -> ProviderError:
        return ProviderError(
            "yarn",
            self._refused,
            code=tokens.TOKENS_ENDED,
            where=uri,
            next_step="`tarn down`, then `tarn up` submits the cluster again.",
        )
