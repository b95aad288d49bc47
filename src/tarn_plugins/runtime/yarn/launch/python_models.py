"""The copies of Python models in a repository: read, on this machine or on Hadoop's file system."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tarn.domain.lint import CONFIG, Entry, Flaw, Kind, Node
from tarn.triton.lint import Stubs, pbtxt, scan, stubs
from tarn.triton.lint.scan import BIGGEST_BYTES, assemble
from tarn_plugins.runtime.yarn.messages import FileEntry

__all__ = ["at", "listed"]

MOST_READ = 200
"""Configurations that are fetched one by one; of a repository with more, nothing is said."""


def at(path: Path) -> tuple[Stubs, ...]:
    """Return those of the directory *path*; none where this machine does not have it."""
    try:
        return tuple(stubs(scan(path, str(path), _parse).models))
    except OSError:
        return ()


def listed(entries: Sequence[FileEntry], read: Callable[[str], bytes]) -> tuple[Stubs, ...]:
    """Return those of a repository whose files are *entries*; *read* fetches a file by its URI.

    Raises:
        ProviderError: The file system did not answer.
    """
    wanted = {e.path: e.uri for e in entries if _is_config(e)}
    if len(wanted) > MOST_READ:
        return ()
    found = assemble(
        sorted(_tree(entries), key=lambda entry: entry.path),
        "",
        lambda path: read(wanted[path]) if path in wanted else b"",
        _parse,
    )
    return tuple(stubs(found.models))


def _is_config(entry: FileEntry) -> bool:
    return entry.path.split("/")[1:] == [CONFIG] and entry.bytes <= BIGGEST_BYTES


def _tree(entries: Sequence[FileEntry]) -> Iterator[Entry]:
    """Yield the files, and every directory above them once."""
    above: set[str] = set()
    for entry in entries:
        yield Entry(entry.path, Kind.FILE, entry.bytes)
        parts = entry.path.split("/")[:-1]
        above |= {"/".join(parts[: at + 1]) for at in range(len(parts))}
    for path in above:
        yield Entry(path, Kind.DIRECTORY)


def _parse(text: str) -> tuple[Node | None, tuple[Flaw, ...]]:
    try:
        return pbtxt.read(text), ()
    except pbtxt.Broken as broken:
        return None, (broken.flaw,)
