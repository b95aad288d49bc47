"""Which names models may have: those that every program on a request's way reads the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.http.authorize import question
from tarn.triton.repository import examine, is_model_name


def _codes(name: str, *serve: str) -> list[str]:
    return [one.code for one in examine((f"{name}/1/model.py",), serve, "/models")]


@pytest.mark.parametrize("name", ["ocr", "llama-3.1_8B", "_x", "-x", "7b", "a" * 255, "Stats"])
def test_plain_names_pass(name: str) -> None:
    """Letters, digits, dashes, underscores, and dots but in front."""
    assert _codes(name) == []


@pytest.mark.parametrize(
    "name", ["stats", "a b", "a%2e", "été", "a+b", "a;b", "a#b", "a\nb", "a" * 256, "a\\b", "a:1"]
)
def test_other_names_are_refused(name: str) -> None:
    """Also where only another model is served: the folder may be loaded later."""
    (finding,) = examine((f"{name}/1/model.py", "ok/1/model.py"), ("ok",), "/models")
    assert finding.code == "TARN-3335"
    assert name in finding.where
    assert "Rename" in finding.next_step


@given(st.text(min_size=1).filter(lambda name: "/" not in name and not name.startswith(".")))
def test_what_passes_has_nothing_that_could_be_decoded(name: str) -> None:
    """No sign with a meaning in a URL, whatever the name."""
    if is_model_name(name):
        assert not set(name) & set("%?#;&=+\\/: \t\r\n\0\"'")
        assert name.isascii()


@given(st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", fullmatch=True))
def test_what_passes_can_be_asked_about(name: str) -> None:
    """The master takes every such name in a question about rights."""
    if "TARN-3335" not in _codes(name):
        asked = question(f"model={name}&action=infer".encode())
        assert asked is not None
        assert asked.model == name
