from pathlib import Path

from house_names import ALLOWED, ROOT, complaints, doubles


def test_a_class_name_of_two_modules_is_found_with_its_places(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Line:\n    pass\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.py").write_text("\nclass Line:\n    pass\n\n\nclass Other:\n    pass\n")
    assert doubles(tmp_path) == {"Line": ("a.py:1", "b/c.py:2")}
    (only,) = complaints(tmp_path, {})
    assert "Line" in only
    assert "a.py:1, b/c.py:2" in only


def test_a_private_class_and_one_below_a_condition_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class _Reader:\n    pass\n")
    (tmp_path / "b.py").write_text(
        "try:\n    import c\nexcept ImportError:\n    class _Reader:\n        pass\n"
    )
    assert list(doubles(tmp_path)) == ["_Reader"]


def test_a_class_within_a_class_or_twice_in_one_module_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A:\n    class Part:\n        pass\n")
    (tmp_path / "b.py").write_text("class B:\n    class Part:\n        pass\n")
    (tmp_path / "c.py").write_text(
        "if X:\n    class C:\n        pass\nelse:\n    class C:\n        pass\n"
    )
    assert doubles(tmp_path) == {}


def test_an_allowed_name_is_not_reported_and_an_idle_entry_is(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Line:\n    pass\n")
    (tmp_path / "b.py").write_text("class Line:\n    pass\n")
    assert complaints(tmp_path, {"Line": "a reason"}) == ()
    (only,) = complaints(tmp_path, {"Line": "a reason", "Gone": "a reason"})
    assert "Gone" in only


def test_each_class_name_of_tarn_is_defined_once() -> None:
    assert complaints(ROOT / "src", ALLOWED) == ()
