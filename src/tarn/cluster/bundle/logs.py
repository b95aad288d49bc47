"""The last of each log: from the files of this machine, or through the cluster's runtime."""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from tarn.cluster.bundle.part import Part, left_out, of_text
from tarn.errors import TarnError

__all__ = ["MOST", "of_files", "of_runtime", "tail"]

MOST = 40
"""Logs in one bundle; the newest count."""
_LINE = 400
"""Bytes of a line, roughly: by it a runtime that counts lines is asked for enough of them."""


def of_files(folder: Path, within: str, most_bytes: int) -> Iterator[Part]:
    """Yield the last *most_bytes* of each file below *folder*, the newest files first.

    Args:
        folder: With logs as they were written; links are not followed.
        within: Folder of the bundle.
        most_bytes: Of each file.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: (-path.stat().st_mtime, str(path)))
    for path in files[:MOST]:
        name = f"{within}/{path.relative_to(folder)}"
        text, cut = tail(path, most_bytes)
        part = of_text(name, "log, as it was written", text)
        yield Part(part.path, part.what, part.text, cut)
    if len(files) > MOST:
        why = f"there are {len(files)} logs; the newest {MOST} are here"
        yield left_out(f"{within}/…", "older logs", why)


def of_runtime(
    read: Callable[[str, int | None], Iterator[str]],
    instances: tuple[str, ...],
    within: str,
    most_bytes: int,
) -> Iterator[Part]:
    """Yield the log of the master, then that of each instance, as *read* gives their lines.

    Args:
        read: From an instance's id (empty: the master) and how many lines to their text.
        instances: Ids, those that matter most first.
        within: Folder of the bundle.
        most_bytes: Of each log.
    """
    for one in ("", *instances[: MOST - 1]):
        name = f"{within}/{one or 'master'}.log"
        what = f"log of {one or 'the master'}"
        try:
            lines = deque(read(one, most_bytes // _LINE + 1))
        except TarnError as error:
            yield left_out(name, what, f"[{error.code}] {error}")
            continue
        text, dropped = _last(lines, most_bytes)
        part = of_text(name, what, text)
        yield Part(name, what, part.text, f"{dropped} lines before it" if dropped else "")


def tail(path: Path, most_bytes: int) -> tuple[str, str]:
    """Return the last *most_bytes* of a file from the beginning of a line, and what was cut."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - most_bytes))
        data = file.read(most_bytes)
    if size <= most_bytes:
        return data.decode("utf-8", "replace"), ""
    _, _, whole = data.partition(b"\n")  # half a line may begin with half a secret
    cut = f"the last {len(whole)} of {size} bytes"
    return whole.decode("utf-8", "replace"), cut


def _last(lines: deque[str], most_bytes: int) -> tuple[str, int]:
    """Return as many of the last *lines* as fit, and how many did not."""
    kept, size = deque[str](), 0
    for line in reversed(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > most_bytes:
            break
        kept.appendleft(line)
    return "\n".join(kept), len(lines) - len(kept)
