"""A change of the source without a file in changelog.d is named."""

import pytest
from changelog_fragments import reminder


def test_a_change_of_the_source_that_nothing_tells_of_is_named() -> None:
    said = reminder(["docs/index.md", "src/tarn/log.py", "tests/unit/test_log.py"])
    assert said.startswith("no file in changelog.d tells of the change of src/tarn/log.py: add one")


def test_of_many_files_some_are_named() -> None:
    said = reminder(f"src/tarn/{name}.py" for name in "abcdefg")
    assert "src/tarn/e.py and 2 more" in said
    assert "src/tarn/f.py" not in said


@pytest.mark.parametrize("fragment", ["changelog.d/+drain-now.added.md", "changelog.d/19.fixed.md"])
def test_a_fragment_tells_of_all_of_it(fragment: str) -> None:
    assert reminder(["src/tarn/log.py", fragment]) == ""


def test_how_to_write_a_fragment_is_not_one() -> None:
    assert reminder(["src/tarn/log.py", "changelog.d/README.md"])


@pytest.mark.parametrize("paths", [[], ["docs/index.md", "tests/test_src.py", "README.md"]])
def test_what_is_not_source_needs_none(paths: list[str]) -> None:
    assert reminder(paths) == ""
