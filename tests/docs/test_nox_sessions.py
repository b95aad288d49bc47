"""What noxfile.py, its tables, .ci/run and the pages say of the sessions is the same."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import system_packages
from system_packages import BUILD_KERBEROS, PACKAGES, SESSIONS, needs

ROOT = Path(__file__).parents[2]
NOXFILE = (ROOT / "noxfile.py").read_text("utf-8")
CI = (ROOT / ".ci/run").read_text("utf-8")
FUNCTIONS = {
    node.name: ast.unparse(node)
    for node in ast.parse(NOXFILE).body
    if isinstance(node, ast.FunctionDef) and "@nox.session" in ast.unparse(node)
}


def test_only_sessions_that_exist_need_packages() -> None:
    assert set(SESSIONS) - set(FUNCTIONS) == set()


def test_a_session_with_programs_in_its_description_has_a_line() -> None:
    """So does one that installs `gssapi`, which is compiled."""
    silent = [
        name
        for name, text in FUNCTIONS.items()
        if re.search(r"\bneeds?\b(?! no real)", str(ast.get_docstring(ast.parse(text).body[0])))
        and not needs(name)
    ]
    assert silent == []
    compiled = {name for name, text in FUNCTIONS.items() if "_install_with_kerberos(" in text}
    assert [name for name in compiled if not set(BUILD_KERBEROS) <= set(SESSIONS[name])] == []
    assert compiled


def test_a_session_whose_tests_start_tritons_names_pythons_library() -> None:
    marks = (
        *("triton", "endurance", "gray", "one_triton", "security", "discovery"),
        *("yarn", "docker", "observe"),
    )
    chosen = {
        name
        for name, text in FUNCTIONS.items()
        if any(re.search(rf"'-m', '{mark}\b", text) for mark in marks)
    }
    assert len(chosen) >= len(marks)
    assert [name for name in chosen if system_packages.LIBRARY not in SESSIONS[name]] == []


def test_every_program_has_its_package_and_a_session_that_needs_it() -> None:
    used = {program for programs in SESSIONS.values() for program in programs}
    assert used == set(PACKAGES)


def test_a_session_names_what_is_missing_and_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert needs("limits") == (
        "needs from Debian: gcc libc6-dev; NOT FOUND: gcc (apt-get install gcc libc6-dev)"
    )
    (tmp_path / "gcc").touch(0o755)
    assert needs("limits") == "needs from Debian: gcc libc6-dev (all found)"
    assert needs("lint") == ""


def test_ci_installs_from_the_same_table() -> None:
    """It names no package of a session itself."""
    assert '"$python" tests/system_packages.py' in CI
    ours = {word for words in PACKAGES.values() for word in words.split()}
    assert {word for word in ours if re.search(rf"lacking.*\b{re.escape(word)}\b", CI)} == set()


def test_ci_runs_every_session_but_those_that_measure() -> None:
    default = set(
        re.findall(r'"(\w+)"', NOXFILE.partition("nox.options.sessions =")[2].split("]")[0])
    )
    named = re.findall(r"^(?:nox -s|together) ([\w ]+)$", CI, re.MULTILINE)
    run = default | {name for line in named for name in line.split()}
    assert set(FUNCTIONS) - run == {"bench", "policies", "figures", "quick"}
    assert run - set(FUNCTIONS) == set()


def test_the_workflow_of_the_forge_runs_what_ci_runs() -> None:
    workflow = (ROOT / ".github/workflows/check.yml").read_text("utf-8")
    assert re.findall(r"run: (bash .*)", workflow) == ["bash .ci/run"]


def test_every_session_that_a_page_names_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob(".github/*.md")]
    named = {
        name for page in pages for name in re.findall(r"nox -s (\w+)", page.read_text("utf-8"))
    }
    assert "quick" in named
    assert named - set(FUNCTIONS) == set()


def test_a_release_finds_its_place_in_the_changelog() -> None:
    """Where the marker is missing, towncrier writes above the title."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert changelog.count(project["tool"]["towncrier"]["start_string"]) == 1


def test_the_hooks_of_git_run_programs_of_the_group_that_a_contributor_installs() -> None:
    """So a commit, a desk and CI agree about each version."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    programs = set(re.findall(r"entry: (\w+)", hooks))
    installed = {re.split(r"[><=]", name)[0] for name in groups["lint"]}
    assert programs
    assert programs <= installed
    assert {"include-group": "lint"} in groups["dev"]
    assert "--group dev" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert set(re.findall(r"- repo: (\S+)", hooks)) == {"local"}
