"""Which tests `nox -s quick` runs for a change, on a small tree and on this one."""

import shutil
import subprocess
from pathlib import Path

import changed_tests
import pytest
from changed_tests import changed, selected

ROOT = Path(__file__).parents[2]
FILES = {
    "tests/unit/http/test_http_desk.py": "from fake_master import FakeMaster\n",
    "tests/unit/http/views.py": "",
    "tests/unit/tarn/http/test_restricted.py": "",
    "tests/unit/triton/lint/test_rules.py": "",
    "tests/unit/triton/test_loading.py": "",
    "tests/unit/tarn_plugins/scaling/test_policy_target.py": "",
    "tests/unit/plugins/test_storage_copy.py": "",
    "tests/unit/test_log.py": "import fake_masters\n",
    "tests/unit/test_log_format.py": "",
    "tests/unit/test_codes.py": "",
    "tests/docs/test_pages.py": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/tarn/http/desk.py", ["tests/unit/http", "tests/unit/tarn/http"]),
        ("src/tarn/http/dashboard/page.py", ["tests/unit/http", "tests/unit/tarn/http"]),
        ("src/tarn/triton/lint/rules.py", ["tests/unit/triton/lint"]),
        ("src/tarn/triton/exits.py", ["tests/unit/triton"]),
        ("src/tarn/log.py", ["tests/unit/test_log.py", "tests/unit/test_log_format.py"]),
        ("src/tarn/domain/codes.py", ["tests/unit/test_codes.py"]),
        ("src/tarn_plugins/scaling/target.py", ["tests/unit/tarn_plugins/scaling"]),
        ("src/tarn_plugins/storage/copy/store.py", ["tests/unit/plugins/test_storage_copy.py"]),
        ("tests/unit/http/test_http_desk.py", ["tests/unit/http/test_http_desk.py"]),
        ("tests/unit/http/views.py", ["tests/unit/http"]),
        ("tests/fake_master.py", ["tests/unit/http/test_http_desk.py"]),
        ("docs/how-to/drain.md", ["tests/docs"]),
        ("README.md", ["tests/docs"]),
        ("noxfile.py", ["tests/docs"]),
        ("tests/budget.toml", ["tests/docs"]),
    ],
)
def test_tests_are_found_by_the_names_of_folders_and_files(
    tree: Path, path: str, tests: list[str]
) -> None:
    assert selected([path], tree) == (tests, [])


def test_all_unit_tests_stand_for_code_that_none_is_called_like(tree: Path) -> None:
    assert selected(["src/tarn/errors.py"], tree) == (["tests/unit"], ["src/tarn/errors.py"])


def test_beside_code_that_has_tests_it_is_named_and_its_tests_are_left_out(tree: Path) -> None:
    """All unit tests take minutes, and `nox` runs them anyway."""
    paths = ["src/tarn/errors.py", "src/tarn/domain/codes.py"]
    assert selected(paths, tree) == (["tests/unit/test_codes.py"], ["src/tarn/errors.py"])


def test_what_no_unit_test_is_about_runs_none(tree: Path) -> None:
    assert selected(
        ["LICENSE", "examples/01/tarn.yaml", "tests/unit/test_gone.py", "tests/yarn/x.py"], tree
    ) == (
        [],
        [],
    )


def test_a_file_in_a_folder_that_runs_anyway_is_not_named_twice(tree: Path) -> None:
    paths = ["src/tarn/http/desk.py", "tests/unit/http/test_http_desk.py"]
    assert selected(paths, tree)[0] == ["tests/unit/http", "tests/unit/tarn/http"]


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_committed_and_uncommitted_and_new_files_are_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since the branch left main; what main got meanwhile is no change of ours."""

    def git(*arguments: str) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *named, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text("")
        git("add", name)
        git("commit", "-m", name)

    monkeypatch.setattr(changed_tests, "ROOT", tmp_path)
    git("init", "-b", "main")
    commit("old")
    git("checkout", "-b", "branch")
    commit("committed")
    git("checkout", "main")
    commit("later on main")
    git("checkout", "branch")
    (tmp_path / "old").write_text("edited")
    (tmp_path / "new").write_text("")
    assert changed() == ["committed", "new", "old"]
    assert changed("HEAD") == ["new", "old"]


def test_every_package_of_the_core_but_these_has_tests_that_are_called_like_it() -> None:
    """Else a change to it runs all unit tests."""
    packages = {path.parent for path in (ROOT / "src/tarn").glob("*/__init__.py")}
    without = {
        package.name
        for package in packages
        if selected([f"src/tarn/{package.name}/a_new_module.py"])[0] == ["tests/unit"]
    }
    assert without == {"interfaces"}
