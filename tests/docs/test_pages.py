"""The documentation says what the code does."""

import ast
import importlib.util
import inspect
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tarn import hookspecs
from tarn.domain import CODES

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]


def _generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        "docs_generate", ROOT / "docs/generate.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


GENERATOR = _generator()


@pytest.mark.parametrize("name", sorted(GENERATOR.PAGES))
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    """After a change: python docs/generate.py."""
    if name == "cli" and sys.version_info[:2] != (3, 11):
        pytest.skip("click words its help by the interpreter; compared on Python 3.11")
    assert GENERATOR.page(name).read_text("utf-8") == GENERATOR.rendered(name)


def test_the_hooks_page_has_every_hook_with_its_exact_signature() -> None:
    """A plugin's author can copy from it."""
    page = (ROOT / "docs/reference/hooks.md").read_text("utf-8")
    hooks = [name for name in vars(hookspecs) if name.startswith("tarn_")]
    assert len(hooks) > 10
    for name in hooks:
        signature = inspect.signature(getattr(hookspecs, name))
        block = re.search(rf"```python\n(def {name}\(.*?)\n```", page, re.DOTALL)
        assert block is not None, name
        (function,) = ast.parse(f"{block[1]}: ...").body
        assert isinstance(function, ast.FunctionDef)
        assert [argument.arg for argument in function.args.args] == list(signature.parameters)
        assert function.returns is not None


def test_the_codes_page_has_every_code() -> None:
    """Whoever sees a code finds it."""
    page = (ROOT / "docs/reference/codes.md").read_text("utf-8")
    assert [code for code in CODES if f"| {code} |" not in page] == []


def test_every_code_that_the_pages_name_exists() -> None:
    """No page sends a reader to a code that is not there."""
    named = {code for page in PAGES for code in re.findall(r"TARN-\d{4}", page.read_text("utf-8"))}
    assert named - set(CODES) == set()


def test_every_link_between_pages_leads_somewhere() -> None:
    """Sphinx checks its own; these are the ones of the README and of GitHub's view."""
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_http_page_has_every_route() -> None:
    """A route without a line in the reference is a secret."""
    routes = {
        route
        for source in (ROOT / "src/tarn/http").rglob("*.py")
        for route in re.findall(r'Route\(f?"([^"]+)"', source.read_text("utf-8"))
    }
    page = (ROOT / "docs/reference/http.md").read_text("utf-8")
    plain = {route for route in routes if "{verb}" not in route}
    assert [route for route in sorted(plain) if f"`{route}`" not in page] == []
    rows = re.findall(r"^\| `(/[^`]*)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(set(rows)), "a row for each, and one"


def test_every_promised_command_of_the_readme_is_run_by_ci() -> None:
    """The README's test command and that of .ci/run are the same."""
    readme = (ROOT / "README.md").read_text("utf-8")
    ci = (ROOT / ".ci/run").read_text("utf-8")
    assert "python3 -m pip install nox && nox" in readme
    assert re.search(r"^nox$", ci, re.MULTILINE)


def test_the_sessions_fit_their_budget() -> None:
    """The minutes sum up to less than 70; `unit` counts for each interpreter.

    `bench` and `policies` are not run with the others, `knox_jar` takes its minutes once, for a
    download, and `endurance`, `docker`, `observe` and `limits` run beside others.
    """
    minutes = tomllib.loads((ROOT / "tests/budget.toml").read_text())["minutes"]
    uncounted = ("bench", "policies", "knox_jar", "endurance", "docker", "observe", "limits")
    beside = sum(minutes[name] for name in uncounted)
    assert sum(minutes.values()) + 2 * minutes["unit"] - beside < 70


def test_every_session_has_a_budget() -> None:
    """A session without minutes would fail only after it ran."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    sessions = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("session" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    minutes = tomllib.loads((ROOT / "tests/budget.toml").read_text())["minutes"]
    assert sessions == set(minutes)


def test_the_bench_page_keeps_its_markers() -> None:
    """`nox -s bench` finds where to write each part."""
    page = (ROOT / "docs/reference/performance.md").read_text("utf-8")
    parts = [path.stem.removeprefix("bench_") for path in (ROOT / "tests/bench").glob("bench_*.py")]
    assert parts
    for part in parts:
        assert page.count(f"<!-- measured: {part} -->") == 1, part
        assert page.count(f"<!-- end: {part} -->") == 1, part
