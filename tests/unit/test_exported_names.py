"""What a module says that it offers is there."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import tarn

SOURCE = Path(tarn.__file__).parent.parent


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that *body* binds at its own level, whatever branch it takes."""
    for one in body:
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield one.name
            case ast.Import() | ast.ImportFrom():
                yield from ((each.asname or each.name).partition(".")[0] for each in one.names)
            case ast.Assign() | ast.AnnAssign():
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                inner = (part for target in targets for part in ast.walk(target))
                yield from (part.id for part in inner if isinstance(part, ast.Name))
            case ast.If() | ast.Try() | ast.With():
                yield from _bound(one.body)
                yield from _bound(getattr(one, "orelse", []))
                for handler in getattr(one, "handlers", []):
                    yield from _bound(handler.body)


def _offered(tree: ast.Module) -> list[str]:
    for one in tree.body:
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__all__":
            return [str(each) for each in ast.literal_eval(one.value)]
    return []


@pytest.mark.parametrize("package", ["tarn", "tarn_plugins"])
def test_every_name_in_all_is_bound_there(package: str) -> None:
    """Else ``from x import *`` fails, and so does who reads it."""
    missing = {}
    for path in sorted((SOURCE / package).rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        bound = {*_bound(tree.body)}
        lacking = [name for name in _offered(tree) if name not in bound]
        if lacking and "__getattr__" not in bound:
            missing[str(path.relative_to(SOURCE))] = lacking
    assert missing == {}
