import os
import time
from pathlib import Path

import attrs
import pytest
from lint_cases import RULES, SCHEMA, found, look, said

from tarn.hookspecs import LintRule
from tarn.interfaces.lint import (
    Edit,
    Entry,
    Kind,
    LintFinding,
    Location,
    Rename,
    Repository,
    printable,
)
from tarn.triton import lint
from tarn.triton.lint.scan import assemble

CONFIG = 'backend: "python"\ninput [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'


def write(top: Path, **files: str) -> Path:
    for name, text in files.items():
        path = top / name.replace("__", "/").replace("_pbtxt", ".pbtxt").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return top


def test_a_repository_of_5000_models_takes_seconds(tmp_path: Path) -> None:
    """Read, parsed and asked of every rule; the last one's slip is found."""
    for number in range(5000):
        version = tmp_path / f"m{number}" / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_bytes(b"")
        name = "other" if number == 4999 else f"m{number}"
        (version.parent / "config.pbtxt").write_text(f'name: "{name}"\n{CONFIG}')
    began_s = time.process_time()
    codes = [finding.code for finding in found(tmp_path)]
    assert time.process_time() - began_s < 15
    assert codes == ["TARN-2353", "TARN-2330"]


def test_an_endless_tree_of_links_is_cut(tmp_path: Path) -> None:
    """Links that double the way at each step end at the limit, and it is said."""
    deep = tmp_path / "ocr" / "1"
    for _ in range(20):
        deep.mkdir(parents=True)
        (deep.parent / "twin").symlink_to(deep.name)
        deep = deep / "d"
    seen = lint.scan(tmp_path, "models", SCHEMA.parse, most=1000)
    assert len(seen.entries) == 1000
    assert "TARN-2305" in [each.code for each in lint.findings(seen, RULES)]


def test_an_entry_that_may_not_be_read_is_said() -> None:
    """By kind, without a real one: tests may run as root."""
    entries = (
        Entry("ocr", Kind.DIRECTORY),
        Entry("ocr/1", Kind.UNREADABLE),
        Entry("ocr/config.pbtxt", Kind.UNREADABLE),
    )
    seen = assemble(entries, "models", lambda _path: b"", SCHEMA.parse)
    codes = {(each.code, each.place.file) for each in lint.findings(seen, RULES)}
    assert {("TARN-2301", "ocr/1"), ("TARN-2320", "ocr/config.pbtxt")} <= codes


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_without_rights_is_listed_as_unreadable(tmp_path: Path) -> None:
    """It stops nothing else."""
    (tmp_path / "ocr" / "1").mkdir(parents=True)
    (tmp_path / "ocr" / "1").chmod(0)
    try:
        assert ("TARN-2301") in [each.code for each in found(tmp_path)]
    finally:
        (tmp_path / "ocr" / "1").chmod(0o700)


def test_reads_small_regular_files_only(tmp_path: Path) -> None:
    """A pipe is not waited for, a big file not loaded, a missing one is empty."""
    (tmp_path / "ocr").mkdir()
    (tmp_path / "ocr" / "small").write_bytes(b"x")
    (tmp_path / "ocr" / "big").write_bytes(b"x" * (1024 * 1024 + 1))
    os.mkfifo(tmp_path / "ocr" / "pipe")
    seen = look(tmp_path)
    assert [seen.read(f"ocr/{name}") for name in ("small", "big", "pipe", "none")] == [
        b"x",
        b"",
        b"",
        b"",
    ]


def test_a_rule_that_raises_becomes_a_finding_and_the_others_are_heard(tmp_path: Path) -> None:
    """It is named; nothing is swallowed."""

    def fails(_repository: Repository):
        raise RuntimeError("no such luck")

    def warns(_repository: Repository):
        yield LintFinding("ACME-7", Location("ocr"), "is ours")

    rules = {"acme:bad": LintRule("bad", "", fails), "acme:good": LintRule("good", "", warns)}
    findings = lint.findings(look(write(tmp_path, ocr__1__model_py="")), rules)
    assert [each.code for each in findings] == ["TARN-2300", "ACME-7"]
    assert "'acme:bad' raised RuntimeError: no such luck" in findings[0].found
    assert findings[1].level == "warning"


def test_prints_any_name_on_one_line() -> None:
    """Bytes that are no text, line ends and escapes of terminals."""
    assert printable("a\udce9b\nc\x1b[0m") == "a\\xe9b\\nc\\x1b[0m"


def test_a_repair_keeps_mode_and_everything_else(tmp_path: Path) -> None:
    """Only the line goes; comments, line ends and the mode stay."""
    file = tmp_path / "a" / "config.pbtxt"
    (tmp_path / "a" / "1").mkdir(parents=True)
    (tmp_path / "a" / "1" / "model.py").write_bytes(b"")
    file.write_bytes(b'# one\r\nname: "b"\r\n' + CONFIG.encode())
    file.chmod(0o640)
    lines = repair(tmp_path)
    assert file.read_bytes() == b"# one\r\n" + CONFIG.encode()
    assert file.stat().st_mode & 0o777 == 0o640
    assert '-name: "b"' in lines
    assert sorted(path.name for path in file.parent.iterdir()) == ["1", "config.pbtxt"]
    assert repair(tmp_path) == ()


def repair(place: Path) -> tuple[str, ...]:
    seen = look(place)
    texts = {model.config.file: model.config.text for model in seen.models if model.config}
    return lint.carry_out(place, lint.gather(lint.findings(seen, RULES)), texts)


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """The repair was meant for another text."""
    place = write(tmp_path, a__config_pbtxt=f'name: "b"\n{CONFIG}', a__1__model_py="")
    repairs = lint.gather(found(place))
    (place / "a" / "config.pbtxt").write_text("somebody else's")
    (line,) = lint.carry_out(place, repairs, {"a/config.pbtxt": f'name: "b"\n{CONFIG}'})
    assert "changed meanwhile" in line
    assert (place / "a" / "config.pbtxt").read_text() == "somebody else's"


def test_a_linked_configuration_is_left_alone(tmp_path: Path) -> None:
    """Another model, or another repository, may read the same file."""
    place = write(tmp_path, a__config_pbtxt=f'name: "a"\n{CONFIG}', a__1__model_py="")
    write(tmp_path, b__1__model_py="")
    (place / "b" / "config.pbtxt").symlink_to("../a/config.pbtxt")
    assert said(found(place)) == ["TARN-2330 b/config.pbtxt:1:1"]
    assert all(line.startswith("#") for line in repair(place))
    assert (place / "b" / "config.pbtxt").is_symlink()


def test_a_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    """A repair never loses a file."""
    place = write(tmp_path, a__1__x="new", a__1__y="old")
    repairs = lint.Repairs({}, (Rename("a/1/x", "a/1/y"),))
    (line,) = lint.carry_out(place, repairs, {})
    assert "left alone" in line
    assert (place / "a/1/y").read_text() == "old"


def test_two_repairs_of_one_place_are_one() -> None:
    """The first counts; repairs of other places are kept, the last first."""
    finding = LintFinding("ACME-1", Location("f"), "x")
    edits = [Edit("f", 0, 4), Edit("f", 2, 6), Edit("f", 8, 9)]
    repairs = lint.gather([attrs.evolve(finding, repair=edit) for edit in edits])
    assert repairs.edits == {"f": (edits[2], edits[0])}
