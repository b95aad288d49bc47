"""What lint says, and what a real Triton does with the same repository.

One Triton gets the models of every repository under ``tests/lint``, and those of good ones with one
thing changed by chance. What it serves must have no error of lint's, and what it refuses must have
one. ``TARN_TEST_SEED`` chooses other changes; its value stands in each failure.
"""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from lint_cases import cases, found
from triton_oracle import (
    NO_BACKEND,
    READY,
    Shape,
    Verdict,
    mutations,
    of_case,
    run_triton,
    verdicts,
)

from tarn.config import environ
from tarn.domain import Severity
from tarn.interfaces.lint import LintFinding

pytestmark = [
    pytest.mark.triton,
    pytest.mark.timeout(400),  # all models load in one fixture
]

CASES = cases("good") | cases("broken")
SEED = int(environ().get("TARN_TEST_SEED", "2026"))
NUMBER = 48
"""Shapes that are made by chance."""

NO_ORACLE = {
    "config-is-a-pipe": "Triton would wait for a writer for ever",
    "empty": "there is no model",
    "folder-of-repositories": "lint judges it as a whole",
    "many-python-models": "a note about memory: 17 models and 17 processes",
    "model-as-repository": "lint judges it as a whole",
    "name-not-utf8": "its name cannot be found in a log",
    "only-notes": "there is no model",
    "version-as-repository": "lint judges it as a whole",
}
"""Cases of which a Triton says nothing, and why."""

ALONE = ("config-is-a-directory", "dangling-link-at-top", "version-of-twenty-digits")
"""Cases with which Triton serves no model at all, or ends: each has one of its own."""

BY_DOCUMENT = {"TARN-2318", "TARN-2335", "TARN-2363", "TARN-2380", "TARN-2382"}
"""What lint may call an error where the wheel lacks the back end: files that its documentation
asks for, and the back end's name. All else Triton looks at before it looks for the back end."""

HANGS = {"TARN-2312", "TARN-2316", "TARN-2317", "TARN-2318", "TARN-2319", "TARN-3335"}
"""Where one of these is found, Triton may wait for ever: such shapes have a Triton of their own,
so that the others need not be loaded twice. What it does decides all the same."""

OURS = {"TARN-3335"}
"""Errors about what Triton serves and TARN refuses: rights to such a name could not be enforced."""

MILDER = {
    "TARN-2304": "a folder that a tool left: TARN counts no model there",
    "TARN-2352": "it wants a GPU, which this machine has not and another one has",
}
"""What Triton refuses, and lint has less than an error for."""

TOGETHER = [name for name in CASES if name not in {*NO_ORACLE, *ALONE}]
BY_CHANCE = [f"s{SEED}x{index}" for index in range(NUMBER)]


@attrs.frozen
class Judged:
    """A shape, what Triton did with each model of it, and what lint says."""

    shape: Shape
    verdicts: dict[str, Verdict]
    findings: tuple[LintFinding, ...]

    def errors(self, *models: str) -> set[str]:
        """Return the codes of lint's errors about one of *models*, or about the whole."""
        return {
            one.code
            for one in self.findings
            if one.level is Severity.ALERT and one.place.file.partition("/")[0] in {"", *models}
        }

    def disagreements(self) -> list[str]:
        """Return a line for each model of which lint and Triton think differently."""
        return [line for model in self.verdicts if (line := self._disagreement(model))]

    def _disagreement(self, model: str) -> str:
        verdict = self.verdicts[model]
        said = f"{model} ({self.shape.about}): Triton: {verdict.state} {verdict.reason}; lint: "
        said += "; ".join(f"{one.code} {one.found}" for one in self.findings) or "nothing"
        errors = self.errors(model)
        if verdict.state == READY:
            return said if errors - OURS else ""
        if verdict.state == NO_BACKEND:
            return said if errors - BY_DOCUMENT else ""
        # an ensemble is refused with its parts, of which lint speaks
        milder = {one.code for one in self.findings} & MILDER.keys()
        return "" if milder or self.errors(*self.verdicts) else said


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """Return every shape, judged by a Triton; those that may make it wait for ever by another."""
    top = tmp_path_factory.mktemp("oracle")
    shapes = [of_case(CASES[name], top) for name in TOGETHER]
    shapes += mutations(top, SEED, NUMBER)
    said = {shape.name: found(shape.place) for shape in shapes}
    doubtful = [one for one in shapes if HANGS & {each.code for each in said[one.name]}]
    others = [one for one in shapes if one not in doubtful]
    seen = verdicts(top / "doubtful", doubtful, at_once=32) | verdicts(top / "others", others)
    return {
        shape.name: Judged(shape, {m: seen[m] for m in shape.models}, said[shape.name])
        for shape in shapes
    }


@pytest.mark.parametrize("name", TOGETHER)
def test_lint_and_triton_agree_about_each_case(name: str, judged: dict[str, Judged]) -> None:
    """No error about what is served, and one about what is refused."""
    assert judged[name].disagreements() == []


@pytest.mark.parametrize("name", BY_CHANCE)
def test_lint_and_triton_agree_about_what_nobody_wrote(
    name: str, judged: dict[str, Judged]
) -> None:
    """A good repository with one thing changed by chance; TARN_TEST_SEED is in its name."""
    assert judged[name].disagreements() == [], f"TARN_TEST_SEED={SEED}"


def test_the_oracle_says_both_and_the_cases_say_what_it_says(judged: dict[str, Judged]) -> None:
    """Many are served, many refused; ``loads`` and ``unavailable`` of the cases are true."""
    states = [each.state for one in judged.values() for each in one.verdicts.values()]
    assert states.count(READY) > 40
    assert len(states) - states.count(READY) - states.count(NO_BACKEND) > 60
    for name in TOGETHER:
        seen = judged[name].verdicts
        if CASES[name].expected.get("loads"):
            assert {each.state for each in seen.values()} == {READY}, name
        bad = CASES[name].expected.get("unavailable")
        if bad:
            assert seen.get(f"{name}--{bad}", seen.get(bad, Verdict(READY))).state != READY, name


@pytest.mark.parametrize("name", ALONE)
def test_a_repository_that_stops_every_model_has_an_error(name: str, tmp_path: Path) -> None:
    """Triton loads nothing of it, not even a model that is good."""
    shape = of_case(CASES[name], tmp_path)
    good = of_case(CASES["python"], tmp_path)
    places = {model: each.place / model for each in (shape, good) for model in each.models}
    links = [path for path in shape.place.iterdir() if path.is_symlink()]
    log, _ = run_triton(tmp_path / "run", {**places, **{path.name: path for path in links}})
    assert loaded(log) == []
    assert any(one.level is Severity.ALERT for one in found(shape.place))


def loaded(log: Sequence[str]) -> list[str]:
    return [line for line in log if "successfully loaded" in line]
