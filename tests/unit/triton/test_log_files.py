"""The end of a log is what reading the whole would give, at any size and rotation."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.triton import log_files
from tarn.triton.log_files import last_lines, rotated

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=40))


@settings(max_examples=200, deadline=None)
@given(LINES, LINES, st.integers(1, 60), st.booleans())
def test_the_last_lines_are_those_of_the_whole(
    tmp_path_factory, old: list[str], new: list[str], lines: int, ended: bool
) -> None:
    """Whether or not the last line has its end; earlier lines are told."""
    log = tmp_path_factory.mktemp("log") / "x.stderr"
    log.with_name("x.stderr.1").write_bytes("".join(f"{one}\n" for one in old).encode())
    text = "".join(f"{one}\n" for one in new)
    if not ended and new and new[-1]:
        text = text[:-1]
    log.write_bytes(text.encode())
    whole = tuple(old + new)
    found, truncated = last_lines(rotated(log), lines)
    assert found == whole[-lines:]
    assert truncated is (len(whole) > lines)


def test_large_files_are_read_from_the_end(tmp_path: Path, monkeypatch) -> None:
    """However small the blocks, and across them."""
    monkeypatch.setattr(log_files, "_BLOCK", 7)
    log = tmp_path / "log"
    whole = [f"line {number}" for number in range(1000)]
    log.write_text("\n".join(whole) + "\n")
    for lines in (1, 2, 13, 999, 1000, 1001):
        assert list(last_lines([log], lines)[0]) == whole[-lines:]


def test_a_bound_cuts_whole_lines(tmp_path: Path) -> None:
    """What is cut in the middle is left out; a single line that is too long is shown cut."""
    log = tmp_path / "log"
    log.write_text("a" * 50 + "\n" + "b" * 50 + "\n")
    assert last_lines([log], 10, 80) == (("b" * 50,), True)
    assert last_lines([log], 10, 20) == (("b" * 19,), True)
    assert last_lines([log], 10, 102) == (("a" * 50, "b" * 50), False)


def test_nothing_there_is_nothing(tmp_path: Path) -> None:
    """A file that went away meanwhile is an empty one; so is no file at all."""
    assert last_lines([tmp_path / "gone"], 3) == ((), False)
    assert last_lines([], 3) == ((), False)
    assert rotated(tmp_path / "gone") == ()
