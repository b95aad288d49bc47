"""Carries out the repairs that findings propose, and shows them as a diff."""

import contextlib
import difflib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.errors import StorageError
from tarn.hookspecs import LintRule
from tarn.interfaces.lint import Edit, LintFinding, Location, Rename, Repository, printable

__all__ = ["Repairs", "carry_out", "findings", "gather"]

_NO_REPOSITORY = frozenset({"TARN-2200", "TARN-2201", "TARN-2202", "TARN-2305"})


def findings(repository: Repository, rules: Mapping[str, LintRule]) -> tuple[LintFinding, ...]:
    """Return the findings of all rules without duplicates, by file, line and column.

    If a rule raises, that is a finding too, and the other rules are still applied.

    Args:
        repository: The scanned repository.
        rules: The rules by name, with the plugin's name in front if it is not a built-in one.
    """
    found = {one: None for name, rule in rules.items() for one in _found(name, rule, repository)}
    ordered = sorted(found, key=_order)
    if any(one.code in _NO_REPOSITORY for one in ordered):  # the rest would follow from it
        ordered = [one for one in ordered if one.code in {*_NO_REPOSITORY, "TARN-2300"}]
    return tuple(ordered)


def _found(name: str, rule: LintRule, repository: Repository) -> Iterator[LintFinding]:
    try:
        yield from rule.check(repository)
    except Exception as error:  # noqa: BLE001 (a stranger's code; said, never swallowed)
        yield LintFinding(
            "TARN-2300",
            Location(""),
            f"the rule '{name}' raised {type(error).__name__}: {error}",
            next_step="Tell its author; every other rule was checked.",
        )


def _order(finding: LintFinding) -> tuple[str, int, int, str, str]:
    place = finding.place
    return place.file, place.line or 0, place.column or 0, finding.code, finding.found


@attrs.frozen
class Repairs:
    """The edits and renames to carry out."""

    edits: Mapping[str, tuple[Edit, ...]]
    """By file, without overlaps, from the end of the text to its beginning."""
    renames: tuple[Rename, ...]

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.edits or self.renames)


def gather(findings: Iterable[LintFinding]) -> Repairs:
    """Return the repairs of *findings*; of two in one place, the first."""
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
    """Repair the files below *top*, and return the changes as the lines of a diff.

    A file that has changed since the scan or is a link, and a name that now exists, are left alone,
    with a line about it. Each file is replaced at once.

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
    """Return whether *new* is another file."""
    try:
        # It is the same one after a change of case, on a file system that ignores case.
        return not old.samefile(new)
    except FileNotFoundError:
        return new.is_symlink()


def _replace(path: Path, data: bytes) -> None:
    """Replace the content of *path*, keeping its mode; a failure leaves the old file."""
    mode = path.stat().st_mode & 0o7777
    descriptor, new = tempfile.mkstemp(prefix=".tarn-lint-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        Path(new).chmod(mode)
        Path(new).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(new).unlink()
        raise


def _failed(file: str, error: OSError) -> StorageError:
    return StorageError(
        "lint",
        f"cannot be repaired: {error.strerror}",
        where=printable(file),
        next_step="Make its directory writable for you, or repair it by hand.",
    )
