"""The state store keeps two files and never believes a broken one."""

import errno
import json
import os

import attrs
import pytest

from tarn.domain import Decision, Pause, SavedState
from tarn.errors import ProviderError, Superseded, TarnError
from tarn_plugins.runtime.local import state
from tarn_plugins.runtime.local.state import FileStateStore, claim_epoch

STATE = SavedState(
    desired=3,
    next_number=7,
    manual=3,
    pause=Pause(99.5, "load test"),
    drains=(("echo-0001", 5.0, "by hand"),),
    condemned=frozenset({"echo-0002"}),
    stops=frozenset({"echo-0003", "echo-0004"}),
    decisions=(Decision(1.0, 3, 3, "policy fixed", "so"),),
)


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "clusters" / "echo"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def mine(directory):
    return claim_epoch(None, directory, {})


def test_nothing_saved_is_none(directory):
    """No state, no alert."""
    assert FileStateStore(directory).load() == (None, ())


def test_a_saved_state_comes_back_equal(directory, mine):
    """Every field, sets and tuples included."""
    store = FileStateStore(directory)
    store.save(STATE, mine)
    assert store.load() == (STATE, ())


def test_the_newest_of_two_is_used_and_more_are_not_kept(directory, mine):
    """Five saves leave two files, readable by their owner only."""
    store = FileStateStore(directory)
    for desired in range(5):
        store.save(attrs.evolve(STATE, desired=desired), mine)
    files = sorted(directory.glob("state-*"))
    assert [f.name for f in files] == ["state-4.json", "state-5.json"]
    assert {f.stat().st_mode & 0o777 for f in files} == {0o600}
    assert store.load()[0].desired == 4


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"schema": 1}', b'{"schema": 1, "state": 3}']
)
def test_a_damaged_newest_falls_back_to_the_older_with_an_alert(directory, mine, damage):
    """The alert names both files."""
    store = FileStateStore(directory)
    store.save(STATE, mine)
    store.save(STATE, mine)
    (directory / "state-2.json").write_bytes(damage)
    state, alerts = store.load()
    assert state == STATE
    assert len(alerts) == 1
    assert "state-2.json" in alerts[0]
    assert "state-1.json was used" in alerts[0]


def test_a_newer_schema_is_refused_in_words(directory, mine):
    """It is never guessed at, and the older file is not used in its place."""
    store = FileStateStore(directory)
    store.save(STATE, mine)
    (directory / "state-2.json").write_text(json.dumps({"schema": 99, "state": {}}))
    with pytest.raises(TarnError) as raised:
        store.load()
    assert raised.value.code == "TARN-1007"
    assert "99" in str(raised.value)


def test_a_superseded_master_saves_nothing(directory, mine):
    """Not a file more, not even a temporary one."""
    store = FileStateStore(directory)
    store.save(STATE, mine)
    claim_epoch(None, directory, {})
    before = sorted(p.name for p in directory.iterdir())
    with pytest.raises(Superseded):
        store.save(STATE, mine)
    assert sorted(p.name for p in directory.iterdir()) == before


def test_a_full_disk_keeps_the_old_copy_and_says_what_is_missing(directory, mine, monkeypatch):
    """Bytes needed and free; the next load finds the older state."""
    store = FileStateStore(directory)
    store.save(STATE, mine)

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state.os, "fsync", full)
    with pytest.raises(ProviderError) as raised:
        store.save(attrs.evolve(STATE, desired=9), mine)
    assert raised.value.code == "TARN-1005"
    assert "bytes needed" in str(raised.value)
    assert store.load() == (STATE, ())
    assert list(directory.glob(".*")) == []


def test_a_state_that_is_nested_too_deeply_is_damaged(directory, mine):
    """The parser gives up before the end of it; the older one is used, and that is said."""
    store = FileStateStore(directory)
    for desired in (1, 2):
        store.save(attrs.evolve(STATE, desired=desired), mine)
    newest = max(directory.glob("state-*"))
    newest.write_bytes(b"[" * 200_000)
    state, alerts = store.load()
    assert state.desired == 1
    assert "nested too deeply" in alerts[0]
    assert "was used" in alerts[0]
