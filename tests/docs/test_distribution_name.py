"""What a reader is told to install is TARN, and not the library of another project."""

import re
import tomllib
from pathlib import Path

import pytest

from tarn.cluster.examining import installation
from tarn.release import DISTRIBUTION, version

ROOT = Path(__file__).parents[2]
TOLD = ("README.md", "SECURITY.md", "CHANGELOG.md", "pyproject.toml", "noxfile.py", ".ci/run")
FOLDERS = ("src", "docs", "examples", "scripts", "services", "tests")
SUFFIXES = {".py", ".md", ".ipynb", ".toml", ".sh", ".yaml", ".rst", ".service"}
OTHER_PROJECT = re.compile(
    r"(?<![\w./-])tarn\[[a-z]|pip3? install '?\"?tarn(?![\w-])"
    r'|dependencies = .*"tarn"'
)
"""The name ``tarn`` where a requirement stands: with extras, in a list, after ``pip install``."""


def texts():
    yield from (ROOT / name for name in TOLD)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and path != Path(__file__) and "_build" not in path.parts:
                yield path


def test_no_page_hint_or_error_installs_another_projects_library():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if OTHER_PROJECT.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'tarn[yarn]'",
        "pip install tarn",
        "with tarn[local] there",
        "tarn[a,b]",
        'dependencies = ["attrs", "tarn"]',
    ],
)
def test_the_search_finds_the_old_name(line):
    assert OTHER_PROJECT.search(line)


def test_the_package_is_called_what_the_hints_say():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    assert project["version"] == version()
    assert project["scripts"] == {"tarn": "tarn.cli:main"}


def test_doctor_says_that_another_projects_tarn_is_installed(tmp_path, monkeypatch):
    assert installation().findings == ()
    info = tmp_path / "tarn-0.14.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tarn\nVersion: 0.14.2\n")
    monkeypatch.syspath_prepend(tmp_path)
    (finding,) = installation().findings
    assert finding.code == "TARN-3620"
    assert "'tarn' 0.14.2: another project's" in finding.found
    assert "install --force-reinstall tarn-orchestrator" in finding.next_step
