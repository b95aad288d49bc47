"""What is new in a log that is read from its end again and again."""

from hypothesis import given
from hypothesis import strategies as st

from tarn.cluster.read import logs as log_follower
from tarn.cluster.read.logs import LogFollower, after


class Log:
    """A file and what was rotated out of it: so many lines are there at most."""

    def __init__(self, kept: int = 10**9) -> None:
        self.whole: list[str] = []
        self.kept = kept
        self.asked: list[int | None] = []

    def write(self, count: int) -> list[str]:
        new = [f"line {len(self.whole) + number}" for number in range(count)]
        self.whole += new
        return new

    def read(self, tail: int | None) -> list[str]:
        self.asked.append(tail)
        there = self.whole[max(0, len(self.whole) - self.kept) :]
        return there if tail is None else there[max(0, len(there) - tail) :]


@given(st.lists(st.integers(0, 2000), max_size=8), st.none() | st.integers(0, 30))
def test_every_line_is_told_once(steps: list[int], tail: int | None) -> None:
    """However many come at a time, and however few were asked for first."""
    log = Log()
    first = log.write(25)
    growing = LogFollower(log.read)
    assert growing.begin(tail) == (first if tail is None else first[25 - min(tail, 25) :])
    for step in steps:
        new = log.write(step)
        assert growing.news() == new


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(100, 200))
def test_rotation_loses_nothing_that_is_still_there(steps: list[int], kept: int) -> None:
    """The beginning goes away; what is known is found again in the rest."""
    log = Log(kept)
    log.write(150)
    growing = LogFollower(log.read)
    growing.begin(0)
    for step in steps:
        new = log.write(step)
        assert growing.news() == new


def test_a_log_that_was_replaced_is_told_as_a_whole() -> None:
    """Nothing in it is known."""
    log = Log()
    log.write(50)
    growing = LogFollower(log.read)
    growing.begin(None)
    log.whole = ["another", "log"]
    assert growing.news() == ["another", "log"]
    assert growing.news() == []


def test_an_empty_log_begins() -> None:
    """Its first lines are new."""
    log = Log()
    growing = LogFollower(log.read)
    assert growing.begin(None) == []
    assert growing.news() == []
    new = log.write(3)
    assert growing.news() == new


def test_only_the_end_is_read() -> None:
    """Of a large log that hardly grows."""
    log = Log()
    log.write(100_000)
    one = LogFollower(log.read)
    one.begin(10)
    log.write(5)
    one.news()
    assert log.asked == [log_follower.KNOWN, log_follower.LOOK]


def test_a_line_that_was_cut_is_told_again() -> None:
    """It was being written when it was read."""
    assert after(["a", "b", "wri"], ["a", "b", "written", "c"]) == 2
    assert after(["a", "b", "c"], ["x", "y"]) is None
    assert after([], ["x"]) == 0
