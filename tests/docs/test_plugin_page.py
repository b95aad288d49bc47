"""The page for plugin authors shows examples 02 and 04, which other tests install and run."""

import re
from pathlib import Path

import pytest

from tarn.domain.signals import KEEP, SIGNALS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/write-a-plugin.md").read_text("utf-8")
EXAMPLE = ROOT / "examples/02_custom_policy"
EXAMPLES = (EXAMPLE, ROOT / "examples/04_discovery")
BLOCKS = re.findall(r"```(python|toml|yaml)\n(.*?)```", PAGE, re.DOTALL)
SUFFIX = {"python": "py", "toml": "toml", "yaml": "yaml"}


def test_there_is_something_to_compare() -> None:
    """A page without code would pass the next test."""
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_every_block_of_code_stands_so_in_the_example(language: str, code: str) -> None:
    """What is copied from the page works, because the example does."""
    files = (path for one in EXAMPLES for path in one.rglob(f"*.{SUFFIX[language]}"))
    assert any(code in path.read_text("utf-8") for path in files)


def test_the_page_lists_every_signal_with_its_meaning() -> None:
    """A policy can ask for nothing that the page does not name."""
    rows = "\n".join(
        f"| `{name}` | {meaning.text} | {meaning.unit} | {'sum' if meaning.total else 'mean'} |"
        for name, meaning in SIGNALS.items()
    )
    assert rows in PAGE
    assert f"{KEEP} samples at most" in PAGE


def test_the_examples_policy_reads_no_clock() -> None:
    """The one that stood here before did, and broke what it taught."""
    source = (EXAMPLE / "src/tarn_concurrency.py").read_text("utf-8")
    assert not re.search(r"import (time|datetime|random)|clock\.", source)
