"""A policy is foreign code: it may raise, hang, or answer nonsense."""

import threading
from collections.abc import Iterator

import pytest
from desk import Policy

from tarn.control import mailbox
from tarn.control.policy import PolicyRunner
from tarn.domain import FleetView, Known, Limits, Unknown, Wish
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until

VIEW = FleetView(0.0, 1, Limits(0, 8))


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.policy = Policy()
        self.desk = PolicyRunner(self.policy, self.clock, lambda: None)

    def ask(self) -> None:
        before = self.policy.asked
        self.desk.ask(VIEW)
        until(lambda: self.policy.asked > before, what="the policy to be asked")

    def hang(self) -> None:
        self.policy.going.clear()
        self.ask()
        self.clock.advance(5.1)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(mailbox, "RETRY_S", 0.01)
    some = Bench()
    yield some
    some.policy.going.set()
    some.desk.close()


def test_before_its_first_answer_there_is_nothing_to_say(bench: Bench) -> None:
    """Unknown, and no failure."""
    assert bench.desk.answer() == Unknown("the policy has not answered yet")
    assert bench.desk.failure() == ""


@pytest.mark.parametrize("wish", [Wish(3, "load"), Wish(0, "idle"), Wish(None, "no opinion")])
def test_a_wish_is_passed_on(bench: Bench, wish: Wish) -> None:
    """As it is."""
    bench.policy.answer = wish
    bench.ask()
    until(lambda: bench.desk.answer() == Known(wish))
    assert bench.desk.failure() == ""


def test_a_wish_without_a_reason_says_so(bench: Bench) -> None:
    """Each decision has words."""
    bench.policy.answer = Wish(3, "")
    bench.ask()
    until(lambda: bench.desk.answer() == Known(Wish(3, "it gave no reason")))


@pytest.mark.parametrize(
    ("nonsense", "found"),
    [
        (None, "the policy answered NoneType, not a Wish"),
        (4, "the policy answered int, not a Wish"),
        (Wish(-1, ""), "the policy wants -1 replicas; a whole number from 0 is right"),
        (Wish(2.5, ""), "the policy wants 2.5 replicas; a whole number from 0 is right"),  # type: ignore[arg-type]
        (Wish(True, ""), "the policy wants True replicas; a whole number from 0 is right"),
        (ValueError("no such signal"), "the policy raised ValueError: no such signal"),
    ],
)
def test_nonsense_is_unknown_and_says_what_it_was(
    bench: Bench, nonsense: object, found: str
) -> None:
    """Unknown keeps the size; the next good answer ends it."""
    bench.policy.answer = nonsense
    bench.ask()
    until(lambda: bench.desk.failure() == found)
    assert bench.desk.answer() == Unknown(found)
    bench.policy.answer = Wish(3, "load")
    bench.ask()
    until(lambda: bench.desk.failure() == "")


def test_a_policy_that_hangs_has_five_seconds(bench: Bench) -> None:
    """Until then its last answer stands."""
    bench.policy.answer = Wish(3, "load")
    bench.ask()
    until(lambda: bench.desk.answer() == Known(Wish(3, "load")))
    bench.policy.going.clear()
    bench.ask()
    bench.clock.advance(5.0)
    assert bench.desk.failure() == ""
    bench.clock.advance(1.0)
    assert bench.desk.failure() == "the policy has not answered for 6 s; `tarn resume` retries"
    assert bench.desk.answer() == Unknown(bench.desk.failure())


def test_a_first_answer_that_never_comes_is_a_failure_too(bench: Bench) -> None:
    """Though it has never answered before."""
    bench.hang()
    assert bench.desk.failure() == "the policy has not answered for 5 s; `tarn resume` retries"


def test_revive_asks_on_a_new_thread_and_the_old_ones_word_counts_for_nothing(
    bench: Bench,
) -> None:
    """It was about a fleet of long ago."""
    bench.hang()
    abandoned, hanging = bench.desk._worker, bench.policy.going
    bench.policy.going = threading.Event()
    bench.policy.going.set()
    bench.policy.answer = Wish(3, "new")
    bench.desk.revive()
    bench.ask()
    until(lambda: bench.desk.answer() == Known(Wish(3, "new")))
    bench.policy.answer = Wish(8, "old")
    hanging.set()
    assert abandoned.close(5.0)
    assert bench.desk.answer() == Known(Wish(3, "new"))


def test_revive_leaves_a_policy_alone_that_answers(bench: Bench) -> None:
    """There is nothing to revive: a second question is answered by the same thread."""
    bench.ask()
    bench.desk.revive()
    bench.ask()
    until(lambda: isinstance(bench.desk.answer(), Known))
