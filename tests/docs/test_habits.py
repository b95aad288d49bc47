"""What the linters cannot see."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
MOST_LINES, MOST_FUNCTION_LINES = 700, 40
SENTENCE = 4
"""A name of so many words says what its test asserts."""


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_holds_two_ideas() -> None:
    """150 to 400 lines are comfortable; beyond 700 a module wants a second name."""
    long = {short(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in long.items() if lines > MOST_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    """40 lines, the docstring not counted."""
    long = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = ast.get_docstring(node) is not None
                first = node.body[min(1, len(node.body) - 1)] if documented else node
                lines = (node.end_lineno or 0) - first.lineno + 1
                if lines > MOST_FUNCTION_LINES:
                    long.append(f"{short(path)}: {node.name} ({lines})")
    assert long == []


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"\bpytest\b|PYTEST_", "no test detection in what is shipped"),
        (r"\bin str\((e|error|exc)\)", "branch on the class of an error, never on its text"),
        (r"shell=True", "programs get argument lists"),
    ],
)
def test_no_smell_in_the_sources(pattern: str, instead: str) -> None:
    """Each pattern stands for a habit; `tarn.testing` is for tests, and may name them."""
    shipped = [path for path in SOURCES if "testing" not in path.parts]
    found = [short(path) for path in shipped if re.search(pattern, path.read_text("utf-8"))]
    assert found == [], instead


def test_no_test_patches_by_name() -> None:
    """Fakes are passed as arguments."""
    pattern = re.compile(r"mock\.patch|\bpatch\(|monkeypatch\.setattr\(\s*[\"']")
    here = Path(__file__)
    found = [short(p) for p in TESTS if p != here and pattern.search(p.read_text("utf-8"))]
    assert found == []


def test_every_test_says_what_it_asserts() -> None:
    """The list of tests is the specification: a name that is a sentence, or a docstring."""
    silent = [
        f"{short(path)}: {node.name}"
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and len(node.name.split("_")) <= SENTENCE
        and ast.get_docstring(node) is None
    ]
    assert silent == []


def test_no_two_tests_have_the_same_file_name() -> None:
    """A session may collect several folders, and pytest takes a name for one module."""
    counted = Counter(path.name for path in TESTS)
    assert [name for name, count in counted.items() if count > 1] == []
