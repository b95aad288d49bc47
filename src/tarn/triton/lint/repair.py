"""Carry out the repairs that findings propose: whole files at once, and shown as a diff."""

import contextlib
import difflib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.domain.lint import Edit, LintFinding, Rename, printable
from tarn.errors import StorageError

__all__ = ["Repairs", "carry_out", "gather"]


@attrs.frozen
class Repairs:
    """What is to be done, file by file."""

    edits: Mapping[str, tuple[Edit, ...]]
    """By file, from the end of the text to its beginning, none overlapping another."""
    renames: tuple[Rename, ...]

    def __bool__(self) -> bool:
        """Say whether there is anything to do."""
        return bool(self.edits or self.renames)


def gather(findings: Iterable[LintFinding]) -> Repairs:
    """Return the repairs of *findings*; of two that touch one place, the first."""
    edits: dict[str, list[Edit]] = {}
    renames: dict[str, Rename] = {}
    for finding in findings:
        match finding.repair:
            case Edit() as edit:
                others = edits.setdefault(edit.file, [])
                if all(edit.end <= other.start or other.end <= edit.start for other in others):
                    others.append(edit)
            case Rename() as rename if rename.to not in {each.to for each in renames.values()}:
                renames.setdefault(rename.file, rename)
    ordered = {
        file: tuple(sorted(each, key=lambda edit: edit.start, reverse=True))
        for file, each in sorted(edits.items())
    }
    return Repairs(ordered, tuple(renames[file] for file in sorted(renames)))


def carry_out(top: Path, repairs: Repairs, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Repair the files below *top*, and return what was done as the lines of a diff.

    A file that is no longer what was looked at, one that a link leads to, and a name that was
    taken meanwhile are left alone, and said. A file is either the old one or the new one at any
    moment.

    Raises:
        StorageError: A file cannot be written; those before it are repaired.
    """
    lines: list[str] = []
    for file, edits in repairs.edits.items():
        lines += _edited(top, file, edits, texts.get(file, ""))
    for rename in repairs.renames:
        lines += _renamed(top, rename)
    return tuple(lines)


def _edited(top: Path, file: str, edits: Sequence[Edit], old: str) -> list[str]:
    path = top / file
    if path.is_symlink() or path.read_bytes() != _bytes(old):
        return [f"# {printable(file)}: left alone: it is a link, or was changed meanwhile"]
    new = old
    for edit in edits:
        new = new[: edit.start] + edit.text + new[edit.end :]
    try:
        _replace(path, _bytes(new))
    except OSError as error:
        raise _failed(file, error) from error
    shown = printable(file)
    return list(
        difflib.unified_diff(_lines(old), _lines(new), f"a/{shown}", f"b/{shown}", n=1, lineterm="")
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _lines(text: str) -> list[str]:
    return [printable(line) for line in text.splitlines()]


def _renamed(top: Path, rename: Rename) -> list[str]:
    old, new = top / rename.file, top / rename.to
    try:
        if _taken(old, new):
            return [f"# {printable(rename.to)}: left alone: it exists"]
        old.rename(new)
    except OSError as error:
        raise _failed(rename.file, error) from error
    return [f"rename from {printable(rename.file)}", f"rename to {printable(rename.to)}"]


def _taken(old: Path, new: Path) -> bool:
    """Say whether *new* is another file; where case does not count, it is the old one."""
    try:
        return not old.samefile(new)
    except FileNotFoundError:
        return new.is_symlink()


def _replace(path: Path, data: bytes) -> None:
    """Write next to *path*, keep its mode, and rename over it; a failure leaves the old file."""
    mode = path.stat().st_mode & 0o7777
    descriptor, beside = tempfile.mkstemp(prefix=".tarn-lint-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        Path(beside).chmod(mode)
        Path(beside).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise


def _failed(file: str, error: OSError) -> StorageError:
    return StorageError(
        "lint",
        f"cannot be repaired: {error.strerror}",
        where=printable(file),
        next_step="Make its directory writable for you, or repair it by hand.",
    )
