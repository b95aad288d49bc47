"""The word list of the lint session finds what it should, and nothing else."""

from pathlib import Path

import house_words
import pytest

PLANTED = (
    "Mend the name, or add the model.",
    "it is mended",
    "who mends it",
    "start the cluster anew",
    "an agent beside HAProxy",
    "the files are of no use",
    "'x' is no beginning of a name",
    "bytes that are no UTF-8",
    "what stands there",
    "Only so many last lines.",
    "so long before now",
    "Whoever reads it knows it.",
    "Whatever it says.",
    "had no good word from it",
    "waits for the word of lb1",
    "it ended without a word",
)
NATURAL = (
    "there is no such model",
    "it is no longer than that",
    "besides, it is not a model",
    "amend the recommendation",
    "so long as it lasts",
    "for whoever asks",
    "a word of eight bytes",
    "`anew` is an option, and so is --beside",
    "see https://example.com/anew/beside",
)


@pytest.mark.parametrize("text", PLANTED)
@pytest.mark.parametrize("form", ["found = {!r}\n", "# {}\n", "{}\n"])
def test_a_dropped_word_is_found(text: str, form: str) -> None:
    name = "page.md" if form == "{}\n" else "module.py"
    assert len(house_words.found(name, "\n" + form.format(text))) == 1
    assert house_words.found(name, "\n" + form.format(text))[0].line == 2


@pytest.mark.parametrize("text", NATURAL)
def test_what_english_says_in_this_way_is_let_alone(text: str) -> None:
    assert not house_words.found("module.py", f"found = {text!r}\n")
    assert not house_words.found("page.md", f"{text}\n")


def test_a_word_that_a_line_end_splits_is_found() -> None:
    """In a page, and in a text of two literals."""
    assert house_words.found("page.md", "the files are of\nno use\n")
    assert house_words.found("module.py", 'f("""the files are of\n    no use""")\n')


def test_code_is_no_prose() -> None:
    """Identifiers and names in quotes, the fields of f-strings, and examples in pages."""
    assert not house_words.found("module.py", 'beside = f"{anew} times"\n__all__ = ["beside"]\n')
    assert not house_words.found("page.md", "```console\n$ mend anew\n```\n")


def test_a_place_is_printed_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("one\n\nstart it anew\n")
    (tmp_path / "picture.png").write_bytes(b"anew")
    assert house_words.main(str(tmp_path)) == 1
    out = capsys.readouterr().out
    assert f"{tmp_path / 'page.md'}:3: 'anew': write again\n1 dropped words\n" == out
    (tmp_path / "page.md").write_text("start it again\n")
    assert house_words.main(str(tmp_path)) == 0
