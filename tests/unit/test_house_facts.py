"""No sentence of ours is read again: the check finds what it should, and nothing else."""

import ast
from pathlib import Path

import pytest
from house_facts import complaints, found

PLANTED = (
    'if "Kerberos" in error.next_step: pass',
    'if "404" not in error.found: pass',
    'if "denied" in str(error): pass',
    'issue.found.startswith("TARN-")',
    'str(error).removeprefix("replicas.max")',
    'trouble["message"].partition(": ")',
    'status.get("reason").lower().find("yarn")',
    "_CODED.fullmatch(one.message)",
    'told = reason == "not loaded"',
    'told = item["suspect"] != unwell.get("message")',
    'told = row["message"] in known',
)
NATURAL = (
    'if error.code == "TARN-1016": pass',
    "if issue.found: pass",
    'if issue.found == "": pass',
    "changed = reason != before",
    'first = one.message.partition("\\n")[0]',
    'words = " ".join(error.found.split())',
    "known = one.model in issue.models",
    'kind = decision.by == "demand"',
    'is_new = error.reason in ("a", "b")',
)


@pytest.mark.parametrize("text", PLANTED)
def test_a_sentence_that_is_read_again_is_found(text: str) -> None:
    assert len(list(found(ast.parse(text)))) == 1


@pytest.mark.parametrize("text", NATURAL)
def test_what_goes_by_codes_names_and_whole_texts_is_left_alone(text: str) -> None:
    assert list(found(ast.parse(text))) == []


def test_an_exception_that_nothing_needs_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"x" in one.found\n')
    assert list(complaints(tmp_path, {"'x' in one.found": "why"})) == []
    (only,) = complaints(tmp_path, {"'x' in one.found": "why", "'y' in one.found": "why"})
    assert "'y' in one.found" in only
    (only,) = complaints(tmp_path, {})
    assert only.startswith("a.py:1: ")


def test_src_reads_no_sentence_of_its_own_again() -> None:
    """`FOREIGN` has the texts of others, each with its reason."""
    assert list(complaints()) == []
