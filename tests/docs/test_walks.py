"""The four walks in the architecture page name what exists."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"
WALKS = PAGE.read_text("utf-8").partition("## Four walks")[2].partition("\n## ")[0]
NAMED = sorted(set(re.findall(r"`((?:tarn|tarn_plugins)\.[\w.]+)`", WALKS)))


def test_there_are_walks() -> None:
    """Without names on the page, the next test would check nothing."""
    assert len(NAMED) > 20


@pytest.mark.parametrize("name", NAMED)
def test_each_named_object_exists(name: str) -> None:
    """A module, or an object in one."""
    module, _, last = name.rpartition(".")
    assert hasattr(importlib.import_module(module), last)
