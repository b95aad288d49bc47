"""What the end of the delegation tokens changes: words, asks, files, and the saved state."""

import pytest
from fake_yarn import FakeYarn
from files_in_memory import FilesInMemory
from hand_driven_yarn import HandDrivenMaster
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Epoch, Pending, Running, SavedState
from tarn.errors import ProviderError
from tarn.testing.fakes import FakeClock
from tarn_plugins.runtime.yarn import tokens
from tarn_plugins.runtime.yarn.master.asks import LaunchDeadline
from tarn_plugins.runtime.yarn.master.state import ExpiringFiles, HadoopStateStore

A, B, C = (f"fleet-000{i}" for i in range(1, 4))
ENDS_AT = 1_000.0


class Wall:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = ENDS_AT - 1

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
def below():
    """The file system; refuses by token once it is told to."""
    return FilesInMemory()


@pytest.fixture
def files(below, wall):
    return ExpiringFiles(below, ENDS_AT, wall)


def refusing(below):
    """Let *below* refuse everything, and return what was asked of it since."""
    asked = []

    def refuse(operation, uri):
        asked.append(operation)
        raise ProviderError("yarn", "InvalidToken", code=tokens.TOKENS_ENDED, where=uri)

    below.before = refuse
    return asked


@given(ends_at=st.floats(0, 4e9), at=st.floats(0, 4e9))
def test_the_day_is_told_before_and_after(ends_at, at):
    """With the code, in the past tense once it is over, and with what to do."""
    issue = tokens.issue(ends_at, at)
    assert issue is not None
    said = issue.found
    assert issue.code == tokens.TOKENS_ENDED
    assert ("ended at" in said) == (at >= ends_at)
    for text in (said, tokens.note(ends_at), tokens.refusal(ends_at)):
        assert tokens.day(ends_at) in text
        assert "tarn up" in text
    assert tokens.issue(None, at) is None


def test_nothing_is_asked_of_yarn_after_the_end():
    """What runs goes on; what is wanted waits with its reason; a late grant goes back."""
    yarn, clock = FakeYarn(3), FakeClock()
    master = HandDrivenMaster(yarn, clock)
    master.want(A)
    master.steps(2)
    yarn.hold_grants = True
    master.want(A, B)
    master.step()
    master.ledger.closing = LaunchDeadline(clock.now_s(), "the tokens ended")
    yarn.hold_grants = False
    master.want(A, B, C)
    master.steps(5)
    assert isinstance(master.fact(A), Running)
    for waiting in (B, C):
        fact = master.fact(waiting)
        assert isinstance(fact, Pending)
        assert fact.waits_for == "the tokens ended"
    assert yarn.running().keys() == {A}
    assert not yarn.asks


def test_a_file_system_that_refused_the_token_after_its_end_is_left_alone(files, below, wall):
    """Every later call fails at once, and says since when and what to do."""
    files.write("hdfs://x/a", b"1")
    assert files.read("hdfs://x/a") == b"1"
    asked = refusing(below)
    wall.now = ENDS_AT
    for call in (
        lambda: files.read("hdfs://x/a"),
        lambda: files.listing("hdfs://x"),
        lambda: files.write("hdfs://x/a", b"2"),
        lambda: files.rename("hdfs://x/a", "hdfs://x/b"),
        lambda: files.remove("hdfs://x/a"),
        lambda: files.prune("hdfs://x"),
    ):
        with pytest.raises(ProviderError) as caught:
            call()
        assert caught.value.code == tokens.TOKENS_ENDED
        assert tokens.day(ENDS_AT) in caught.value.found
        assert "tarn up" in caught.value.next_step
    assert asked == ["read"]


def test_before_the_end_and_without_a_refusal_every_call_is_tried(files, below, wall):
    """A refusal before the end may pass; a connection that is open works after it."""
    asked = refusing(below)
    for _ in range(2):
        with pytest.raises(ProviderError):
            files.read("hdfs://x/a")
    assert len(asked) == 2
    below.before = lambda _operation, _uri: None
    wall.now = ENDS_AT + 1
    files.write("hdfs://x/a", b"1")
    assert files.read("hdfs://x/a") == b"1"


def test_a_master_begins_without_the_state_that_it_can_never_read(files, below, wall):
    """It says so; any other trouble of the file system stays an error."""
    store = HadoopStateStore(files, "hdfs://x/private")
    store.save(SavedState(desired=2), Epoch(1, 1))
    refusing(below)
    wall.now = ENDS_AT
    state, (alert,) = store.load()
    assert state is None
    assert "could not be read" in alert
    with pytest.raises(ProviderError, match="not saved") as caught:
        store.save(SavedState(desired=3), Epoch(1, 2))
    assert caught.value.code == "TARN-1005"
    assert "tarn up" in caught.value.next_step

    def broken(_operation, uri):
        raise ProviderError("yarn", "no route to host", where=uri)

    below.before = broken
    with pytest.raises(ProviderError, match="no route"):
        HadoopStateStore(below, "hdfs://x/private").load()
