"""The figures of the source, on a small tree where each can be counted by hand."""

from pathlib import Path, PurePath

import code_figures
import pytest
from code_figures import BEGIN, END, ROWS, doubled_classes, figures, single_importers

TREE = {
    "tarn/__init__.py": '"""A package."""\n',
    "tarn/core.py": '''"""The core.

Two paragraphs.
"""

import os  # why it is needed

from tarn_plugins import one
from . import values

class Settings:
    """A class."""

    field = 1
    """What a field means; Python knows no such docstring."""

    def long(self):
        """Return it."""
        # Why.
        text = """
            over three lines
        """

        return text
''',
    "tarn/values.py": "LIMIT = 3\n",
    "tarn_plugins/__init__.py": "",
    "tarn_plugins/one.py": """from tarn.values import LIMIT
import tarn.core
class Settings: ...
class _Inner: ...
async def short(): return LIMIT
""",
    "tarn_plugins/two.py": """from tarn import core, Unknown
class _Inner:
    class Settings: ...
""",
}
MODULES = code_figures.parsed((PurePath(path), text) for path, text in TREE.items())
FIGURES = figures(MODULES)


def test_the_names_of_modules_are_those_that_python_imports() -> None:
    assert list(MODULES) == [
        "tarn", "tarn.core", "tarn.values", "tarn_plugins", "tarn_plugins.one", "tarn_plugins.two"
    ]  # fmt: skip


def test_blank_lines_comments_and_docstrings_are_not_code_lines() -> None:
    """A text below a field and a text over several lines are code."""
    assert MODULES["tarn.core"].code_lines == 11
    assert MODULES["tarn_plugins.one"].code_lines == 5
    assert FIGURES["code lines"] == 11 + 1 + 5 + 3
    assert FIGURES["core"] == 11 + 1
    assert FIGURES["files"] == 6


def test_a_module_counts_with_one_importer_however_it_is_imported() -> None:
    """Relatively, by a plain import, or from a package; two importers are not one."""
    assert single_importers(MODULES) == {
        "tarn": "tarn_plugins.two",
        "tarn_plugins.one": "tarn.core",
    }
    assert FIGURES["one importer"] == pytest.approx(100 * 2 / 6)


def test_a_class_name_counts_once_unless_it_has_a_reason() -> None:
    assert doubled_classes(MODULES, {}) == ["Settings", "_Inner"]
    assert doubled_classes(MODULES, {"Settings": "each plugin has its own"}) == ["_Inner"]
    assert FIGURES["doubled classes"] == 2


def test_a_function_is_as_long_as_its_lines_from_def_to_the_end() -> None:
    assert FIGURES["function"] == (8 + 1) / 2


def test_comments_are_counted_for_100_lines() -> None:
    assert FIGURES["comments"] == pytest.approx(100 * 2 / (1 + 24 + 1 + 0 + 5 + 3))


def test_the_table_stands_between_its_markers_and_says_how_each_figure_is_counted() -> None:
    table = code_figures.table(code_figures.BEFORE, FIGURES)
    page = code_figures.written(f"above\n{BEGIN}\nold\n{END}\nbelow\n", table)
    assert page == f"above\n{BEGIN}\n\n{table}\n\n{END}\nbelow\n"
    assert code_figures.written(page, table) == page
    for row in ROWS.values():
        assert f"| {row.title} |" in table
        assert row.counted in table
        assert row.aim in table


def test_a_page_without_markers_is_an_error() -> None:
    with pytest.raises(SystemExit, match="needs the lines"):
        code_figures.written("nothing", "table")


def test_the_figures_before_are_those_of_the_page() -> None:
    """Who counts the commit again writes both."""
    page = code_figures.PAGE.read_text("utf-8")
    assert f"| before ({code_figures.BEFORE_COMMIT}) |" in page
    for key, row in ROWS.items():
        assert f"| {row.title} | {row.shown(code_figures.BEFORE[key])} |" in page


def test_every_module_of_tarn_is_counted() -> None:
    source = Path(code_figures.ROOT / "src")
    assert len(code_figures.modules_below(source)) == len(list(source.rglob("*.py")))
