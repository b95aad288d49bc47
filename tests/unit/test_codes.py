"""The table of codes and the tree of errors: nothing is said that cannot be looked up."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarn import errors
from tarn.cli.verbs import VERBS
from tarn.domain import CODES, Severity
from tarn.errors import (
    ConfigError,
    ConfigErrors,
    PluginError,
    ProviderError,
    TarnError,
)

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))
TABLE = Path("domain") / "codes.py"
CLASSES: list[type[TarnError]] = [getattr(errors, name) for name in errors.__all__]


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield every string of a module but its docstrings."""
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in lone:
            yield node.value


def _used() -> dict[str, set[str]]:
    """Return each code that the sources use, beside the table itself, and where."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        if path.parts[-2:] == TABLE.parts:
            continue
        for text in _texts(ast.parse(path.read_text("utf-8"))):
            for code in re.findall(r"TARN-\d{4}", text):
                found.setdefault(code, set()).add(path.name)
    return found


USED = _used()


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_the_table_is_whole(code: str) -> None:
    """A title without a full stop, a meaning and a next step as sentences."""
    row = CODES[code]
    assert re.fullmatch(r"TARN-\d{4}", row.code)
    assert row.code == code
    assert isinstance(row.severity, Severity)
    assert row.title
    assert not row.title.endswith(".")
    assert row.title == row.title.strip()
    for sentence in (row.meaning, row.next_step):
        assert re.fullmatch(r"[A-Z`<p].*\.", sentence), sentence


def test_every_code_that_the_sources_use_is_in_the_table() -> None:
    """Whoever reads a code can look it up."""
    assert {code: where for code, where in USED.items() if code not in CODES} == {}


def test_every_code_of_the_table_is_used() -> None:
    """A code that nothing says is a promise that nobody keeps."""
    assert [code for code in CODES if code not in USED] == []


def test_titles_are_told_apart() -> None:
    """Two codes with one title would be one code."""
    titles = [row.title for row in CODES.values()]
    assert len(set(titles)) == len(titles)


def _made(cls: type[TarnError], where: str, right: str, next_step: str) -> TarnError:
    """Make an error of *cls* with the parts that it takes."""
    made: Any = cls
    parts = {"right": right, "next_step": next_step}
    match cls.__name__:
        case "ConfigErrors":
            return made([ConfigError("it broke", where=where, **parts)])
        case "Superseded":
            return made("1-1", "1-2")
        case "NotAuthorizedError":
            return made("alice", "scale", "ocr", next_step=next_step)
        case "ConflictError":
            return made("it broke", spec_revision=3, next_step=next_step)
    if issubclass(cls, PluginError):
        return made("acme", "it broke", **parts)
    who = ("acme",) if issubclass(cls, ProviderError) else ()
    return made(*who, "it broke", where=where, **parts)


EXPECTED = {
    "ConfigErrors": "tarn.yaml: it broke. Right is this. Do that",
    "Superseded": "epoch 1-1 was superseded by 1-2",
    "NotAuthorizedError": "alice may not scale on model 'ocr'. Do that",
    "ConflictError": "it broke. Do that",
    "PluginError": "plugin acme: it broke. Right is this. Do that",
    "ProviderMissingError": "plugin acme: it broke. Right is this. Do that",
}
PARTS = {"where": "tarn.yaml", "right": "Right is this.", "next_step": "Do that"}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_a_record_that_renders_to_one_text(cls: type[TarnError]) -> None:
    """Where, found, right, next step, in that order; each has a code of the table."""
    error = _made(cls, **PARTS)
    every = "tarn.yaml: it broke. Right is this. Do that"
    assert str(error) == EXPECTED.get(cls.__name__, every)
    assert error.code in CODES
    assert (cls.__doc__ or "").strip()
    assert error.found
    assert error.args == (error.found,)


def test_a_found_part_with_a_full_stop_gets_no_second_one() -> None:
    """The parts are joined as sentences, whoever wrote them."""
    assert str(TarnError("It broke.", right="Right is this.")) == "It broke. Right is this."
    assert str(TarnError("it broke")) == "it broke"


def test_several_errors_are_a_line_each() -> None:
    """All at once; the first one's code stands for the whole."""
    both = ConfigErrors(
        [ConfigError("one", where="a", code="TARN-2001"), ConfigError("two", where="b")]
    )
    assert str(both) == "a: one\nb: two"
    assert both.code == "TARN-2001"
    assert ConfigErrors([]).code == "TARN-2000"


def test_every_next_step_is_one() -> None:
    """Whoever asks what a code means has read the message."""
    idle = {c for c, row in CODES.items() if re.fullmatch(r"Read \w+ message\W*", row.next_step)}
    assert not idle


def test_every_verb_that_a_code_names_exists() -> None:
    """A next step that cannot be taken is worse than none."""
    brought = {"lb", "pack", "sandbox", "ranger", "knox"}
    for code, row in CODES.items():
        for verb in re.findall(r"`tarn ([a-z][a-z-]*)", f"{row.meaning} {row.next_step}"):
            assert verb in VERBS or verb in brought, f"{code}: tarn {verb}"
