"""A model repository is understood from its listing alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.triton.repository import examine, is_junk, listing, models

GOOD = ("ocr/config.pbtxt", "ocr/1/model.py", "echo/7/model.onnx")


def codes(files: tuple[str, ...] | None, serve: tuple[str, ...] = ()) -> list[str]:
    return [finding.code for finding in examine(files, serve, "/models")]


def test_finds_nothing_wrong_with_a_repository_of_two_models() -> None:
    """A configuration or a numeric version makes a model; both are named."""
    assert codes(GOOD) == []
    assert models(GOOD) == ("echo", "ocr")


def test_says_that_a_repository_is_missing() -> None:
    """No listing at all is TARN-2200."""
    assert codes(None) == ["TARN-2200"]


@pytest.mark.parametrize("files", [(), ("notes.txt",), ("ocr/",), ("ocr/weights.bin",)])
def test_says_that_a_repository_holds_no_model(files: tuple[str, ...]) -> None:
    """Files that are no model are as good as none."""
    assert codes(files) == ["TARN-2201"]


def test_names_what_lies_in_a_repository_without_models() -> None:
    """The reader sees what was looked at."""
    (finding,) = examine(("notes.txt", "ocr/weights.bin"), (), "/models")
    assert finding.found == "holds no model, only notes.txt, ocr"


def test_recognises_a_version_directory_at_the_top() -> None:
    """The message of server issue 4488: a model's versions where models should be."""
    (finding,) = examine(("1654584802/model.savedmodel/saved_model.pb",), (), "/models")
    assert finding.code == "TARN-2202"
    assert finding.found == (
        "/models/1654584802/model.savedmodel -> looks like a model directory was given as the"
        " repository"
    )
    assert "its parent directory" in finding.next_step


def test_recognises_a_configuration_at_the_top() -> None:
    """A single model given as the repository is one level off."""
    (finding,) = examine(("config.pbtxt", "1/model.py"), (), "/models/ocr")
    assert finding.code == "TARN-2202"
    assert finding.found.startswith("/models/ocr/config.pbtxt -> looks like a model directory")


def test_takes_a_versions_inner_folders_for_no_models() -> None:
    """Numbered folders inside a version do not make the version a model."""
    assert codes(("config.pbtxt", "1/2/weights.bin")) == ["TARN-2202"]


def test_lets_a_model_have_a_number_as_its_name() -> None:
    """With a configuration of its own, a numeric directory is a model."""
    assert models(("1/config.pbtxt", "1/1/model.py")) == ("1",)


def test_recognises_one_folder_too_high() -> None:
    """A folder that holds one repository: the message names the repository."""
    (finding,) = examine(tuple(f"models/{file}" for file in GOOD), (), "/srv")
    assert finding.code == "TARN-2202"
    assert "Set models.repository to /srv/models" in finding.next_step


def test_recognises_a_folder_of_several_repositories() -> None:
    """The message lists what could be meant."""
    files = tuple(f"{team}/{file}" for team in ("blue", "red") for file in GOOD)
    (finding,) = examine(files, (), "/srv")
    assert finding.code == "TARN-2202"
    assert "one of its folders (blue, red)" in finding.next_step


def test_names_a_served_model_that_is_missing_and_the_nearest_name() -> None:
    """A slip in models.serve is answered with the likely name."""
    findings = examine(GOOD, ("ocr", "eco", "llama"), "/models")
    assert [finding.code for finding in findings] == ["TARN-2203", "TARN-2203"]
    assert findings[0].next_step == "Did you mean 'echo'?"
    assert "'llama'" in findings[1].found


def test_ignores_what_tools_leave_behind() -> None:
    """Hidden files, caches and checksums are no models and no reason to complain."""
    junk = (".ipynb_checkpoints/1/x.py", "__pycache__/1/x.pyc", ".git/1/x", "ocr/1/model.py.crc")
    assert codes(junk) == ["TARN-2201"]
    assert models((*junk, *GOOD)) == ("echo", "ocr")


def test_lists_files_without_junk_and_empty_directories_with_a_slash(tmp_path: Path) -> None:
    """The listing is relative, sorted, and what `examine` wants."""
    for file in (*GOOD, ".git/config", "ocr/__pycache__/x.pyc"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"")
    (tmp_path / "empty").mkdir()
    assert listing(tmp_path) == (
        "echo/7/model.onnx",
        "empty/",
        "ocr/1/model.py",
        "ocr/config.pbtxt",
    )


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    """A link to a directory above is not followed for ever; a link to a file is a file."""
    (tmp_path / "ocr" / "1").mkdir(parents=True)
    (tmp_path / "ocr" / "1" / "model.py").write_bytes(b"")
    (tmp_path / "ocr" / "again").symlink_to(tmp_path)
    (tmp_path / "ocr" / "config.pbtxt").symlink_to("1/model.py")
    assert listing(tmp_path) == ("ocr/1/model.py", "ocr/config.pbtxt")


def test_a_listing_is_bounded(tmp_path: Path) -> None:
    """A huge directory given by mistake costs a bounded look."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_bytes(b"")
    assert len(listing(tmp_path, most=3)) == 3


names = st.text("ab1.", min_size=1, max_size=3)
trees = st.lists(st.lists(names, min_size=1, max_size=4).map("/".join), max_size=6)


@given(files=trees)
def test_any_listing_is_either_served_or_explained(files: list[str]) -> None:
    """There is a model, or exactly one finding that stops the start; never both, never neither."""
    clean = [file for file in files if not any(map(is_junk, file.split("/")))]
    assert len(examine(clean, (), "/models")) == (0 if models(clean) else 1)


def test_a_path_with_a_slip_is_told_with_the_one_that_is_there(tmp_path: Path) -> None:
    """The first part that is missing is looked for among its neighbours."""
    (tmp_path / "models" / "v1").mkdir(parents=True)
    for wrong, meant in (("modles", "models"), ("modles/v1", "models/v1")):
        (found,) = examine(None, (), str(tmp_path / wrong))
        assert found.next_step.startswith(f"Did you mean '{tmp_path / meant}'?")
    for wrong in ("other", "modles/v7"):
        (found,) = examine(None, (), str(tmp_path / wrong))
        assert "Did you mean" not in found.next_step
    assert "Did you mean" not in examine(None, (), "hdfs:///modles")[0].next_step
