"""The response cache of models, against that of the spec."""

from pathlib import Path

import attrs
import lint_cases
import pytest

from tarn_plugins.lint.config import check_cache

CONFIG = 'backend: "python"\nresponse_cache { enable: %s }\n'


def found(place: Path, *, keeps: bool | None, **models: bool) -> list[str]:
    for name, wants in models.items():
        (place / name / "1").mkdir(parents=True)
        (place / name / "1" / "model.py").write_text("")
        (place / name / "config.pbtxt").write_text(CONFIG % str(wants).lower())
    repository = attrs.evolve(lint_cases.look(place), keeps_answers=keeps)
    return [f"{one.code} {one.place}".strip() for one in check_cache(repository)]


@pytest.mark.parametrize("keeps", [None, True])
def test_a_model_with_a_cache_or_without_a_known_spec_is_right(
    keeps: bool | None, tmp_path: Path
) -> None:
    """`tarn lint PATH` alone knows no spec."""
    assert found(tmp_path, keeps=keeps, ocr=True, plain=False) == []


def test_each_model_that_wants_a_cache_in_vain_is_told(tmp_path: Path) -> None:
    """At the line that asks for it."""
    assert found(tmp_path, keeps=False, a=True, b=False, c=True) == [
        "TARN-2347 a/config.pbtxt:2:1",
        "TARN-2347 c/config.pbtxt:2:1",
    ]


def test_a_cache_that_no_model_uses_is_told_once(tmp_path: Path) -> None:
    """It takes its memory all the same; an empty repository has a finding of its own."""
    assert found(tmp_path / "models", keeps=True, a=False, b=False) == ["TARN-2348"]
    (tmp_path / "empty").mkdir()
    assert found(tmp_path / "empty", keeps=True) == []
