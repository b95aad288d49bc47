"""When the state is saved, and which ids are safe."""

import threading
from typing import Any

import attrs
import pytest

from tarn.control import mailbox
from tarn.control.state import Saver
from tarn.domain import Epoch, SavedState
from tarn.errors import TarnError
from tarn.testing.fakes import FakeClock, FakeShelf, FakeStateStore
from tarn.testing.wait import until

EPOCH = Epoch(1, 1)
FIRST = SavedState(desired=1, next_number=1)


class Slow(FakeStateStore):
    """Saves when it is let."""

    def __init__(self, shelf: FakeShelf) -> None:
        super().__init__(shelf)
        self.begun = threading.Event()
        self.going = threading.Event()
        self.errors: list[Exception] = []

    def save(self, state: SavedState, epoch: Epoch) -> None:
        self.begun.set()
        self.going.wait(10.0)
        if self.errors:
            raise self.errors.pop(0)
        super().save(state, epoch)


class Bench:
    def __init__(self) -> None:
        self.shelf = FakeShelf()
        self.clock = FakeClock()
        self.store = Slow(self.shelf)
        self.store.going.set()
        self.saver = Saver(self.store, EPOCH, self.clock, lambda: None, 1)

    def saves(self, count: int) -> list[SavedState]:
        until(lambda: self.shelf.saves == count, what=f"{count} saves")
        return [kept.state for kept in self.shelf.kept]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(mailbox, "RETRY_S", 0.01)
    bench = Bench()
    yield bench
    bench.store.going.set()
    bench.saver.close(5.0, finish=False)


def test_a_changed_size_is_saved_at_most_once_a_second(bench: Bench) -> None:
    """The newest is offered again at the next tick, and saved when its second has come."""
    bench.saver.save(FIRST)
    bench.saves(1)
    two = attrs.evolve(FIRST, desired=2)
    bench.saver.save(two)
    bench.saver.save(FIRST)
    bench.clock.advance(0.9)
    bench.saver.save(two)
    assert bench.shelf.saves == 1
    bench.clock.advance(0.1)
    bench.saver.save(two)
    assert bench.saves(2)[-1] == two


@pytest.mark.parametrize(
    "change",
    [
        {"next_number": 2},
        {"spec_revision": 2},
        {"drains": (("w-0001", 1.0, ""),)},
        {"stops": frozenset({"w-0001"})},
        {"followers": frozenset({"lb"})},
    ],
)
def test_what_people_and_ids_depend_on_is_saved_at_once(bench: Bench, change: Any) -> None:
    """No second is waited for."""
    bench.saver.save(FIRST)
    bench.saves(1)
    bench.saver.save(attrs.evolve(FIRST, **change))
    bench.saves(2)


def test_the_last_state_of_a_master_is_saved_whatever_the_second_says(bench: Bench) -> None:
    """And before the thread ends."""
    bench.saver.save(FIRST)
    bench.saves(1)
    last = attrs.evolve(FIRST, desired=5)
    bench.saver.save(last, at_once=True)
    bench.saver.close(5.0, finish=True)
    assert bench.shelf.kept[-1].state == last


def test_ids_are_safe_once_their_counter_is_saved(bench: Bench) -> None:
    """Not when it was posted."""
    bench.store.going.clear()
    bench.saver.save(attrs.evolve(FIRST, next_number=4))
    assert bench.store.begun.wait(5.0)
    assert bench.saver.below == 1
    bench.store.going.set()
    until(lambda: bench.saver.below == 4)
    assert bench.saver.trouble == ""


@pytest.mark.parametrize(
    "error", [OSError("No space left on device"), TarnError("No space left on device")]
)
def test_a_full_disk_holds_no_ids_back(bench: Bench, error: Exception) -> None:
    """The trouble is shown until a save succeeds; it is tried again."""
    bench.store.errors = [error]
    bench.store.going.clear()
    bench.saver.save(attrs.evolve(FIRST, next_number=4))
    assert bench.store.begun.wait(5.0)
    troubles: list[str] = []
    bench.store.going.set()
    until(lambda: troubles.append(bench.saver.trouble) or bench.shelf.saves == 1)
    until(lambda: bench.saver.trouble == "")
    assert bench.saver.below == 4


def test_an_error_without_words_is_shown_by_its_name(bench: Bench) -> None:
    """There is always something to read."""
    bench.store.errors = [OSError()] * 10_000
    bench.saver.save(FIRST)
    until(lambda: bench.saver.trouble)
    assert bench.saver.trouble == "OSError"
    bench.store.errors = []
    bench.saves(1)


def test_a_disk_that_hangs_holds_ids_back_for_ten_seconds_only(bench: Bench) -> None:
    """It counts as one that cannot be written, until it is."""
    bench.store.going.clear()
    bench.saver.save(attrs.evolve(FIRST, next_number=4))
    assert bench.store.begun.wait(5.0)
    bench.clock.advance(10.0)
    assert bench.saver.below == 1
    bench.clock.advance(0.1)
    assert bench.saver.below == 4


def test_a_superseded_master_lets_no_new_id_out(bench: Bench) -> None:
    """Its counter was not saved, and never will be."""
    bench.shelf.highest = Epoch(1, 2)
    bench.saver.save(attrs.evolve(FIRST, next_number=4))
    until(lambda: bench.saver.worker.superseded)
    assert (bench.saver.below, bench.saver.trouble) == (1, "")
