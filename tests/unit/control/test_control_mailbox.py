"""One slot, the newest wins, and nobody waits."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from tarn.control import mailbox
from tarn.control.mailbox import Worker
from tarn.errors import DiscoveryError, Superseded
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until


class Work:
    """Does what a test says, item by item."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.begun = threading.Event()
        self.going = threading.Event()
        self.going.set()
        self.errors: list[Exception] = []
        self.woken = 0

    def __call__(self, item: int) -> None:
        self.begun.set()
        self.going.wait(10.0)
        if self.errors:
            raise self.errors.pop(0)
        self.done.append(item)

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hire(work: Work, clock: FakeClock) -> Iterator[Callable[[], Worker[int]]]:
    hired: list[Worker[int]] = []

    def make() -> Worker[int]:
        hired.append(Worker("discovery fake", work, clock, work.wake))
        return hired[-1]

    yield make
    work.going.set()
    for worker in hired:
        assert worker.close(5.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "RETRY_S", 0.01)


def test_the_newest_item_wins_and_one_in_work_is_never_cut(work: Work, hire) -> None:
    """Posting never blocks, however long the first one takes."""
    worker = hire()
    work.going.clear()
    worker.post(1)
    assert work.begun.wait(5.0)
    for item in (2, 3, 4):
        worker.post(item)
    work.going.set()
    until(lambda: work.done == [1, 4])
    until(lambda: work.woken == 2)


def test_how_long_an_item_is_in_work_is_told(work: Work, hire, clock: FakeClock) -> None:
    """On the clock of the master; nothing in work is zero."""
    worker = hire()
    assert worker.working_s() == 0.0
    work.going.clear()
    worker.post(1)
    assert work.begun.wait(5.0)
    clock.advance(600.0)
    assert worker.working_s() == 600.0
    work.going.set()
    until(lambda: worker.working_s() == 0.0)


def test_a_failed_item_is_tried_again_until_it_is_done(work: Work, hire) -> None:
    """Why it failed is kept as long, and each end wakes the control thread."""
    work.errors = [DiscoveryError("fake", "no quorum"), ValueError("odd")]
    worker = hire()
    seen: list[str] = []
    worker.post(1)
    until(lambda: seen.append(worker.error) or work.done == [1])
    until(lambda: worker.error == "")
    assert set(seen) <= {"", "fake: no quorum", "ValueError: odd"}
    assert work.woken == 3


def test_a_newer_item_replaces_a_failed_one(
    work: Work, hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken at once, without the rest of the second."""
    monkeypatch.setattr(mailbox, "RETRY_S", 60.0)
    work.errors = [DiscoveryError("fake", "no quorum")]
    worker = hire()
    worker.post(1)
    until(lambda: worker.error)
    worker.post(2)
    until(lambda: work.done == [2])


def test_one_cause_is_logged_once(work: Work, hire, caplog: pytest.LogCaptureFixture) -> None:
    """A foreign error with its traceback, ours without; a new cause is a new line."""
    ours, foreign = DiscoveryError("fake", "no quorum"), ValueError("odd")
    work.errors = [ours, ours, foreign, foreign]
    with caplog.at_level(logging.WARNING, logger="tarn.control.mailbox"):
        worker = hire()
        worker.post(1)
        until(lambda: work.done == [1])
    assert [(r.getMessage(), bool(r.exc_info)) for r in caplog.records] == [
        ("discovery fake: fake: no quorum", False),
        ("discovery fake: ValueError: odd", True),
    ]


def test_superseded_ends_the_worker_and_is_kept(work: Work, hire) -> None:
    """Nothing more is done, whatever is posted."""
    work.errors = [Superseded("1-1", "1-2")]
    worker = hire()
    worker.post(1)
    until(lambda: worker.superseded)
    until(lambda: work.woken == 1)
    worker.post(2)
    assert worker.close(5.0)
    assert work.done == []


def test_closing_drops_what_was_not_taken(work: Work, hire) -> None:
    """The item in work ends; later posts go nowhere."""
    worker = hire()
    work.going.clear()
    worker.post(1)
    assert work.begun.wait(5.0)
    worker.post(2)
    assert not worker.close(0.0)
    worker.post(3)
    work.going.set()
    assert worker.close(5.0)
    assert work.done == [1]


def test_closing_may_finish_the_last_item_first(work: Work, hire) -> None:
    """So that a state is saved before its master leaves."""
    worker = hire()
    work.going.clear()
    worker.post(1)
    assert work.begun.wait(5.0)
    worker.post(2)
    assert not worker.close(0.0, finish=True)
    work.going.set()
    assert worker.close(5.0, finish=True)
    assert work.done == [1, 2]


def test_closing_ends_the_retries(work: Work, hire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that is down does not keep its master from leaving."""
    monkeypatch.setattr(mailbox, "RETRY_S", 60.0)
    work.errors = [DiscoveryError("fake", "no quorum")]
    worker = hire()
    worker.post(1)
    until(lambda: worker.error)
    assert worker.close(5.0)
    assert work.done == []
