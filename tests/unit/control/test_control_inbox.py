"""How other threads ask, and how they are told of the newest snapshot."""

import pytest
from desk import spec

from tarn.control.mailbox import Inbox
from tarn.domain import Down, Epoch, Resume
from tarn.domain.fleet import Rules
from tarn.errors import ProviderError
from tarn.read.snapshot import Board, Snapshot, blank_snapshot


def test_asking_never_blocks_and_a_full_inbox_says_when_to_come_back() -> None:
    """The ones before it are kept, in order, and wake the control thread."""
    woken: list[int] = []
    inbox = Inbox(lambda: woken.append(1), size=2)
    inbox.ask(Resume(), 3)
    inbox.ask(Down())
    with pytest.raises(ProviderError, match="too many requests") as full:
        inbox.ask(Resume()).result(0.0)
    assert full.value.retry_after_s == 1.0
    assert len(woken) == 2
    taken = inbox.drain()
    assert [(r.command, r.if_match) for r in taken] == [(Resume(), 3), (Down(), None)]
    assert inbox.drain() == ()


def test_a_listener_hears_of_each_snapshot_until_it_unsubscribes() -> None:
    """Twice is once."""
    first = blank_snapshot(Epoch(1, 1), Rules(spec(), "hash"), 1.0)
    board, heard = Board(first), list[Snapshot]()
    unsubscribe = board.subscribe(heard.append)
    board.publish(first)
    unsubscribe()
    unsubscribe()
    board.publish(first)
    assert heard == [first]
    assert board.current is first
