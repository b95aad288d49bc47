"""Every repository under ``tests/lint``, broken and good."""

from pathlib import Path

import pytest
from lint_cases import cases, found, look, said

from tarn.domain import CODES, Severity
from tarn.triton import lint

BROKEN, GOOD = cases("broken"), cases("good")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_repository_has_exactly_the_findings_it_expects(name: str, tmp_path: Path) -> None:
    """Each with its code, file, line and column; nothing else is said."""
    place = BROKEN[name].build(tmp_path)
    assert said(found(place)) == sorted(BROKEN[name].findings)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_repository_raises_no_false_alarm(name: str, tmp_path: Path) -> None:
    """Triton's documented layouts: no error, no warning, no note."""
    assert said(found(GOOD[name].build(tmp_path))) == []


@pytest.mark.parametrize("name", [n for n in BROKEN if "repaired" in BROKEN[n].expected])
def test_a_repair_leaves_what_is_expected_and_is_done_once(name: str, tmp_path: Path) -> None:
    """Repaired until nothing is left to repair; another round finds nothing to do."""
    place = BROKEN[name].build(tmp_path)
    for _ in range(4):
        seen = look(place)
        texts = {model.config.file: model.config.text for model in seen.models if model.config}
        lint.carry_out(place, lint.gather(found(place)), texts)
    assert said(found(place)) == BROKEN[name].expected["repaired"]
    assert not lint.gather(found(place))


@pytest.mark.parametrize("name", [n for n in BROKEN if "repaired" not in BROKEN[n].expected])
def test_nothing_is_repaired_where_the_meaning_is_in_doubt(name: str, tmp_path: Path) -> None:
    """--fix leaves these repositories as they are."""
    assert not lint.gather(found(BROKEN[name].build(tmp_path)))


def test_there_are_enough_cases() -> None:
    """The issue asks for 40 broken and 20 good ones."""
    assert len(BROKEN) >= 40
    assert len(GOOD) >= 20


def test_every_code_of_a_built_in_rule_has_a_case() -> None:
    """Each row of the table is shown by a repository, or named here with its own test."""
    elsewhere = {"TARN-2300", "TARN-2301", "TARN-2305", "TARN-2345", "TARN-2347", "TARN-2348"}
    shown = {finding.split()[0] for case in BROKEN.values() for finding in case.findings}
    table = {code for code in CODES if code.startswith("TARN-23")}
    assert table - shown == elsewhere


def test_every_finding_says_what_to_do() -> None:
    """By itself, by what would be right, or by the next step of its code."""
    for code in CODES.values():
        if code.code.startswith("TARN-23"):
            assert code.next_step.endswith(".")
            assert code.severity in Severity


@pytest.mark.parametrize("name", BROKEN)
def test_a_finding_is_one_readable_line(name: str, tmp_path: Path) -> None:
    """Whatever bytes a name or a value has, a terminal shows one line of text."""
    for finding in found(BROKEN[name].build(tmp_path)):
        text = str(finding)
        assert text.isprintable()
        text.encode("utf-8")
