"""The page about `tarn doctor`: its plugin works, and keeps the contract as it says."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tarn.doctor import Result
from tarn.domain import CODES
from tarn.interfaces import Check, CheckResult, Finding

PAGE = (Path(__file__).parents[2] / "docs/how-to/doctor.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python" and "import" in code]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch):
    """Return what the blocks of code define; the license they speak of ended two days ago."""
    acme = ModuleType("acme")
    acme.days_left = lambda _path: -2
    monkeypatch.setitem(sys.modules, "acme", acme)
    plugin = ModuleType("acme_plugin")
    exec(PYTHON[0], vars(plugin))  # what a reader copies
    monkeypatch.setitem(sys.modules, "acme_plugin", plugin)
    suite: dict[str, object] = {}
    exec(PYTHON[1], suite)
    return suite["TestLicense"]()


def test_the_plugin_of_the_page_keeps_the_contract(page, tmp_path):
    """Every promise, as pytest would ask them."""
    names = [name for name in dir(page) if name.startswith("test_")]
    assert len(names) > 5
    for name in names:
        getattr(page, name)(tmp_path / name)


def test_its_finding_is_told(page, tmp_path):
    """With the days and the fix."""
    (result,) = page._look(tmp_path)
    assert result.findings[0].found == "expired 2 days ago"
    assert result.fatal


def test_the_row_of_the_page_is_a_row():
    """The same keys in the same order; its code stands in the table."""
    (row,) = json.loads(next(code for language, code in BLOCKS if language == "json"))
    finding = Finding("X", "where", "found", "fix")
    real = Result.of(
        Check("name", "Why.", lambda: CheckResult("")), CheckResult("", (finding,))
    ).plain()
    assert list(row) == list(real)
    assert list(row["findings"][0]) == list(real["findings"][0])
    assert row["findings"][0]["code"] in CODES
