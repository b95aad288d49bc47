"""Find class names that two modules of `src` define: ``python3 -m tests.house_names``.

A reader who meets a class name should know which class it is without looking at the imports, so
each top-level class, public or private, has a name of its own. `nox -s lint` runs this.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["ALLOWED", "complaints", "doubles", "top_classes"]

ROOT = Path(__file__).resolve().parents[1]
ALLOWED: Mapping[str, str] = {}
"""Class name to the reason why two modules may define it."""


def doubles(root: Path) -> dict[str, tuple[str, ...]]:
    """Return each class name that two modules below *root* define, with ``path:line`` of each."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"), str(path))
        for name, line in top_classes(tree.body).items():
            found[name].append(f"{path.relative_to(root)}:{line}")
    return {name: tuple(places) for name, places in sorted(found.items()) if len(places) > 1}


def top_classes(body: Iterable[ast.stmt]) -> dict[str, int]:
    """Return the top-level classes of a module, also those under ``if`` and ``try``, by name."""
    found: dict[str, int] = {}
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            found.setdefault(statement.name, statement.lineno)
        elif isinstance(statement, ast.If | ast.Try):
            handlers = statement.handlers if isinstance(statement, ast.Try) else []
            for part in (statement.body, statement.orelse, *(one.body for one in handlers)):
                found = top_classes(part) | found
    return found


def complaints(root: Path, allowed: Mapping[str, str]) -> tuple[str, ...]:
    """Say what is wrong below *root*: doubles, and entries of *allowed* that are not."""
    found = doubles(root)
    twice = [
        f"the class name {name} is defined in {', '.join(places)}: rename all but one"
        for name, places in found.items()
        if name not in allowed
    ]
    idle = [
        f"{name} is allowed twice, and is defined once at most: remove it from ALLOWED"
        for name in sorted(allowed)
        if name not in found
    ]
    return (*twice, *idle)


if __name__ == "__main__":
    sys.exit("\n".join(complaints(ROOT / "src", ALLOWED)) or None)
