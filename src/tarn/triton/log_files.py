"""Reads the end of a log that may be large, rotated, and still being written."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["MOST_BYTES", "last_lines", "rotated", "standard_error"]

MOST_BYTES = 1024 * 1024
"""Bytes of one log to read for a request over HTTP."""
_BLOCK = 64 * 1024


def rotated(log: Path) -> tuple[Path, ...]:
    """Return the existing files with the lines of *log*, oldest first."""
    return tuple(p for p in (log.with_name(f"{log.name}.1"), log) if p.is_file())


def standard_error() -> Path | None:
    """Return the file of this process's standard error; None if it is not a file."""
    try:
        if not stat.S_ISREG(os.fstat(2).st_mode):
            return None
        return Path(os.readlink("/proc/self/fd/2"))  # noqa: PTH115 (of a descriptor, not a path)
    except OSError:
        return None


def last_lines(
    paths: Iterable[Path], lines: int, most_bytes: int | None = None
) -> tuple[tuple[str, ...], bool]:
    """Return the last *lines* lines of *paths* (oldest first), and whether there are earlier ones.

    Only as much is read as the lines need, and at most *most_bytes*. A line that is cut by this
    limit is left out, unless it is the only one. A file that disappears counts as empty.
    """
    found: list[bytes] = []
    left = most_bytes
    whole = True
    for path in reversed(list(paths)):
        if len(found) > lines or left == 0:
            whole = False
            break
        end, cut = _end(path, lines + 1 - len(found), left)
        whole = whole and not cut
        left = None if left is None else max(0, left - len(end))
        found[:0] = _split(end, cut=cut)
    kept = found[max(0, len(found) - lines) :]
    texts = tuple(line.decode(errors="replace").rstrip("\r") for line in kept)
    return texts, not whole or len(kept) < len(found)


def _split(end: bytes, *, cut: bool) -> list[bytes]:
    """Return the lines in *end*, without a first line that is *cut*."""
    lines = end.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines[1:] if cut and len(lines) > 1 else lines


def _end(path: Path, lines: int, most: int | None) -> tuple[bytes, bool]:
    """Return the end of a file with at least *lines* lines, and whether there is more before."""
    end = b""
    at = 0
    with contextlib.suppress(OSError), path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        for size in _sizes(at, most):
            at -= size
            file.seek(at)
            end = file.read(size) + end
            if end.count(b"\n") > lines:
                break
    return end, at > 0


def _sizes(length: int, most: int | None) -> Iterator[int]:
    """Yield the sizes of the blocks to read, each twice the last one, from the end backwards."""
    left = length if most is None else min(length, most)
    size = _BLOCK
    while left > 0:
        yield min(size, left)
        left -= size
        size *= 2
