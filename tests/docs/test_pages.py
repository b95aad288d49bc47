"""The documentation says what the code does."""

import ast
import importlib.util
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tarn import config, hookspecs, plugins
from tarn.domain import CODES
from tarn.plain import describe

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "changelog.d/README.md")),
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


def test_the_configuration_page_has_every_key_with_a_meaning() -> None:
    """Of the spec and of every plugin of ours; what a plugin adds later is there, too."""
    page = (ROOT / "docs/reference/config.md").read_text("utf-8")
    rows = [line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert not [row[0] for row in rows if len(row) != 4 or not all(cell.strip() for cell in row)]
    keys = {row[0].strip("`") for row in rows}
    offered = plugins.load()
    wanted = set(leaves(config.schema(), ""))
    for kind, place in PLACES.items():
        for factory in offered.offers(kind).values():
            if factory.settings.__module__.startswith("tarn_plugins."):
                wanted |= set(leaves(describe(factory.settings), f"{place}.options."))
    assert len(wanted) > 100
    assert not wanted - keys
    defaults = {row[0].strip("`"): row[2] for row in rows}
    assert defaults["name"] == "the folder's name"
    assert defaults["models.repository"] == "required"


PLACES = {"runtime": "runtime", "scaling": "scaling", "authorizer": "authorizer",
          "affinity": "affinity",
          "discovery": "discovery[]", "secrets": "secrets[]"}  # fmt: skip


def leaves(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the dotted path of every key of a JSON Schema that holds no mapping of known keys."""
    for key, inner in schema.get("properties", {}).items():
        held = next((one for one in inner.get("anyOf", ()) if "properties" in one), inner)
        listed = held.get("items", {})
        within = held.get("properties") or listed.get("properties") or {}
        if not within or set(within) == {"use", "options"}:  # one value, or a choice
            yield f"{prefix}{key}"
        else:
            mark = "" if "properties" in held else "[]"
            yield from leaves(held if not mark else listed, f"{prefix}{key}{mark}.")


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
    """A reader who sees a code finds it."""
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
    """The minutes sum up to less than 65; `unit` counts for each of two interpreters."""
    budget = tomllib.loads((ROOT / "tests/budget.toml").read_text())
    minutes = budget["minutes"]
    beside = sum(minutes[name] for name in budget["uncounted"])
    assert sum(minutes.values()) + minutes["unit"] - beside < 65


def test_every_session_has_a_budget() -> None:
    """A session without minutes would fail only after it ran; `quick` is as long as the change."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    sessions = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("session" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    minutes = tomllib.loads((ROOT / "tests/budget.toml").read_text())["minutes"]
    assert sessions == {*minutes, "quick"}


def test_the_bench_page_keeps_its_markers() -> None:
    """`nox -s bench` finds where to write each part."""
    page = (ROOT / "docs/reference/performance.md").read_text("utf-8")
    parts = [path.stem.removeprefix("bench_") for path in (ROOT / "tests/bench").glob("bench_*.py")]
    assert parts
    for part in parts:
        assert page.count(f"<!-- measured: {part} -->") == 1, part
        assert page.count(f"<!-- end: {part} -->") == 1, part
