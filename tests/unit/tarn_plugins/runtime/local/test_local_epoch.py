"""Epochs grow, and the fence lets only the newest act."""

import fcntl
import os

import pytest

from tarn.errors import Superseded, TimedOutError
from tarn_plugins.runtime.local import state
from tarn_plugins.runtime.local.state import Fence, begin_epoch, claim_epoch, forget_epoch


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "clusters" / "echo"
    directory.mkdir(parents=True)
    return directory


def test_each_master_is_one_attempt_above_the_last(directory):
    """Same incarnation, attempts 1, 2, 3."""
    begun = begin_epoch(directory)
    claimed = [claim_epoch(None, directory, {}) for _ in range(3)]
    assert [e.attempt for e in claimed] == [1, 2, 3]
    assert {e.incarnation for e in claimed} == {begun.incarnation}


def test_a_later_up_is_higher_although_the_clock_went_back(directory, tmp_path):
    """The last incarnation is kept outside the cluster's directory."""
    first = begin_epoch(directory)
    forget_epoch(directory)
    ledger = tmp_path / "epochs" / "echo"
    ledger.write_text(str(first.incarnation + 10**9))
    assert begin_epoch(directory).incarnation == first.incarnation + 10**9 + 1


def test_a_damaged_epoch_file_starts_a_higher_incarnation(directory):
    """Unreadable is not a reason to go back."""
    first = claim_epoch(None, directory, {})
    (directory / "epoch").write_text("?" * 64)
    assert claim_epoch(None, directory, {}) > first


def test_the_newest_passes_and_the_older_is_superseded(directory):
    """The error names both."""
    old = claim_epoch(None, directory, {})
    Fence(directory, old).check()
    new = claim_epoch(None, directory, {})
    Fence(directory, new).check()
    with pytest.raises(Superseded) as raised:
        Fence(directory, old).check()
    assert (raised.value.mine, raised.value.theirs) == (str(old), str(new))


def test_an_ended_cluster_supersedes_every_master(directory):
    """With the file gone nobody acts."""
    mine = claim_epoch(None, directory, {})
    forget_epoch(directory)
    with pytest.raises(Superseded):
        Fence(directory, mine).check()


def test_nobody_claims_while_an_act_is_under_way(directory, monkeypatch):
    """A claim waits for the lock, with a deadline and a clear word."""
    monkeypatch.setattr(state, "LOCK_TIMEOUT_S", 0.05)
    mine = claim_epoch(None, directory, {})
    with Fence(directory, mine).held(), pytest.raises(TimedOutError, match="lock"):
        claim_epoch(None, directory, {})
    assert claim_epoch(None, directory, {}) > mine


def test_the_lock_is_released_when_the_act_fails(directory):
    """An exception inside leaves no lock behind."""
    mine = claim_epoch(None, directory, {})
    with pytest.raises(RuntimeError), Fence(directory, mine).held():
        raise RuntimeError
    descriptor = os.open(directory / "epoch", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
