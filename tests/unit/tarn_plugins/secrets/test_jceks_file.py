"""A keystore's file is the old one or the new one, and its owner's alone."""

import threading
from pathlib import Path

import pytest

from tarn.errors import ProviderError
from tarn_plugins.secrets.jceks.store import change_keystore, open_to_others


def test_it_is_made_and_replaced_for_its_owner_alone(tmp_path: Path) -> None:
    """Mode 0600, whatever it was; nothing is left beside it."""
    path = tmp_path / "x.jceks"
    change_keystore(path, lambda old: old + b"one")
    path.chmod(0o644)
    assert open_to_others(path)
    change_keystore(path, lambda old: old + b"two")
    assert path.read_bytes() == b"onetwo"
    assert not open_to_others(path)
    assert [one.name for one in tmp_path.iterdir()] == ["x.jceks"]


def test_a_change_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    """Also when the process that makes the new one fails."""
    path = tmp_path / "x.jceks"
    path.write_bytes(b"old")

    def fail(_old: bytes) -> bytes:
        raise ProviderError("jceks", "no")

    with pytest.raises(ProviderError, match="no"):
        change_keystore(path, fail)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["x.jceks"]


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    """No directory is made: it would have the wrong mode."""
    with pytest.raises(ProviderError) as caught:
        change_keystore(tmp_path / "none" / "x.jceks", lambda old: old)
    assert caught.value.code == "TARN-3745"


def test_a_link_stays_one(tmp_path: Path) -> None:
    """What it leads to is replaced."""
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_bytes(b"a")
    link.symlink_to(target)
    change_keystore(link, lambda old: old + b"b")
    assert link.is_symlink()
    assert target.read_bytes() == b"ab"


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    """One waits for the other: both changes are in it."""
    path, inside = tmp_path / "x", threading.Event()

    def slow(old: bytes) -> bytes:
        inside.set()
        threading.Event().wait(0.2)  # the other one comes meanwhile
        return old + b"1"

    other = threading.Thread(target=lambda: change_keystore(path, lambda old: old + b"2"))
    first = threading.Thread(target=lambda: change_keystore(path, slow))
    first.start()
    inside.wait(5)
    other.start()
    first.join(5)
    other.join(5)
    assert path.read_bytes() == b"12"
