"""Which tests belong to what was changed: by names alone, so that it is known at once.

``python3 -m tests.changed_tests [REV]`` prints them. What was changed is what differs from REV, by
default from where this branch left ``main``, with what is not committed yet.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
MAIN = ("main", "origin/main", "upstream/main")
PAGES = ("docs", "changelog.d", "noxfile.py", "pyproject.toml", ".ci", ".github")
"""What the tests under ``tests/docs`` read, with every page at the root."""


def changed(since: str = "") -> list[str]:
    """Return the paths that differ from *since*, from the merge base with main by default."""
    base = since or _merge_base()
    differing = _git("diff", "--name-only", "--no-renames", "-z", base)
    unknown = _git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for path in (differing + unknown).split("\0") if path})


def selected(paths: Iterable[str], root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Return the tests that belong to *paths*, and the sources among these that have none.

    All unit tests run for such sources, unless other paths have tests.
    """
    found, alone = set[str](), list[str]()
    for path in paths:
        own = set(_tests_of(PurePosixPath(path), root))
        found |= own
        if not own and path.startswith("src/") and path.endswith(".py"):
            alone.append(path)
    if alone and not found:
        return ["tests/unit"], alone
    return sorted(name for name in found if not _inside(name, found)), alone


def _inside(name: str, others: set[str]) -> bool:
    """Say whether a folder of *others* holds *name* already."""
    return any(str(folder) in others for folder in PurePosixPath(name).parents)


def _tests_of(path: PurePosixPath, root: Path) -> Iterator[str]:
    match path.parts:
        case ("src", package, _, *_):
            yield from _tests_of_source(package, PurePosixPath(*path.parts[2:]), root)
        case ("tests", "unit" | "docs", *_) if (root / path).exists():
            is_test = path.name.startswith("test_") or path.suffix != ".py"
            yield str(path if is_test else path.parent)
        case ("tests", "unit" | "docs", *_):
            return  # a test that was removed
        case ("tests", "budget.toml"):
            yield "tests/docs"
        case ("tests", *folder, _) if folder in ([], ["servers"]) and path.suffix == ".py":
            yield from _importers(".".join((*folder, path.stem)), root)
        case (first, *_) if first in PAGES or (path.suffix == ".md" and len(path.parts) == 1):
            yield "tests/docs"


def _tests_of_source(package: str, inside: PurePosixPath, root: Path) -> Iterator[str]:
    """Yield the nearest folders of tests that are called as the source's, and files called so."""
    unit = root / "tests" / "unit"
    names = inside.with_suffix("").parts
    # The core's folders lie right under tests/unit, or under tests/unit/tarn.
    homes = [unit / package] if package == "tarn_plugins" else [unit, unit / package]
    found = [folder for home in homes if (folder := _nearest(home, names)) is not None]
    for name in {names[0], names[-1]}:
        found.extend(unit.glob(f"test_{name}*.py"))
    if not found:
        for count in range(len(names), 0, -1):
            found.extend(unit.rglob(f"test_{'_'.join(names[:count])}*.py"))
            if found:
                break
    yield from (str(path.relative_to(root)) for path in found)


def _nearest(home: Path, names: tuple[str, ...]) -> Path | None:
    """Return the deepest folder below *home* that exists for the beginning of *names*."""
    folders = (home.joinpath(*names[:count]) for count in range(len(names), 0, -1))
    return next((folder for folder in folders if folder.is_dir()), None)


def _importers(module: str, root: Path) -> Iterator[str]:
    """Yield the unit tests that import a module of ``tests``."""
    pattern = re.compile(rf"^(from|import) {module}\b", re.MULTILINE)
    for folder in ("unit", "docs"):
        for path in (root / "tests" / folder).rglob("*.py"):
            if pattern.search(path.read_text("utf-8")):
                is_test = path.name.startswith("test_")
                yield str((path if is_test else path.parent).relative_to(root))


def _merge_base() -> str:
    for main in MAIN:
        done = subprocess.run(
            ["git", "merge-base", "HEAD", main],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return done.stdout.strip()
    return "HEAD"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    chosen, alone = selected(changed(*sys.argv[1:2]))
    print("\n".join(chosen))
    if alone:
        print(f"no tests are called like {', '.join(alone)}", file=sys.stderr)
