"""Which port is looked at when: often enough, evenly, and never all at once."""

import itertools
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.control.look_queue import HURRIED_A_SECOND, LOOKS_A_SECOND, STARTING_S, LookQueue, Pace

STEP_S = 0.01


class Looking:
    """A queue whose looks take *took_s*, with the moments at which each port was looked at."""

    def __init__(self, each_s: float = 1.0, *, most: int = 50, took_s: float = 0.0) -> None:
        self.queue: LookQueue[int] = LookQueue(each_s)
        self.now_s, self.most, self.took_s = 100.0, most, took_s
        self.looks: dict[int, list[float]] = defaultdict(list)
        self.largest = 0
        self._under_way: list[tuple[float, int]] = []

    def add(self, *keys: int, pace: Pace = Pace.USUAL) -> None:
        for key in keys:
            self.queue.add(key, self.now_s, pace)

    def run(self, for_s: float, *, stands_s: float = 0.0) -> None:
        """Let *for_s* pass in small steps, after a time in which the master stood still."""
        self.now_s += stands_s
        end_s = self.now_s + for_s
        while self.now_s < end_s:
            self.step()
            self.now_s += STEP_S

    def step(self) -> None:
        for until_s, key in self._under_way:
            if until_s <= self.now_s:
                self.queue.done(key, self.now_s)
        self._under_way = [one for one in self._under_way if one[0] > self.now_s]
        while taken := self.queue.take(self.now_s, self.most):
            self.largest = max(self.largest, len(taken))
            for key in taken:
                self.looks[key].append(self.now_s)
                if self.took_s:
                    self._under_way.append((self.now_s + self.took_s, key))
                else:
                    self.queue.done(key, self.now_s)

    def longest_s(self, key: int) -> float:
        """Return the longest time between two looks at *key*, and until now."""
        looks = [*self.looks[key], self.now_s]
        return max(after - before for before, after in itertools.pairwise(looks))


@given(ports=st.integers(1, 400), each_s=st.floats(0.2, 3.0), took_s=st.floats(0.0, 0.1))
def test_each_port_is_looked_at_at_once_and_then_within_the_interval(
    ports: int, each_s: float, took_s: float
) -> None:
    looking = Looking(each_s, took_s=took_s)
    looking.add(*range(ports))
    looking.run(4 * each_s)
    assert {looks[0] for looks in looking.looks.values()} == {100.0}
    assert len(looking.looks) == ports
    for key in range(ports):
        assert looking.longest_s(key) <= looking.queue.interval_s + took_s + 2 * STEP_S


@pytest.mark.parametrize(("ports", "interval_s"), [(2, 1.0), (3000, 1.0), (4000, 4 / 3), (6000, 2)])
def test_the_interval_grows_with_a_large_fleet(ports: int, interval_s: float) -> None:
    """3,000 instances have 6,000 ports."""
    looking = Looking()
    looking.add(*range(ports))
    assert looking.queue.interval_s == pytest.approx(interval_s)


def test_looks_of_a_large_fleet_are_spread_over_the_interval() -> None:
    looking = Looking()
    looking.add(*range(6000))
    looking.run(4.0)
    slots = Counter(int(at_s * 10) for looks in looking.looks.values() for at_s in looks[2:])
    whole = [slots[slot] for slot in range(1025, 1035)]
    assert max(whole) <= 1.2 * LOOKS_A_SECOND / 10
    assert min(whole) >= 0.8 * LOOKS_A_SECOND / 10
    assert all(looking.longest_s(key) <= 2.0 + 2 * STEP_S for key in range(6000))


@given(
    ports=st.integers(2, 60),
    changes=st.lists(
        st.tuples(st.integers(0, 59), st.sampled_from(["soon", "usual", "starting", "hasten"])),
        max_size=60,
    ),
)
def test_no_port_waits_longer_because_of_the_others(
    ports: int, changes: list[tuple[int, str]]
) -> None:
    """Whatever their paces, and however often an early look is asked for."""
    looking = Looking()
    looking.add(*range(ports))
    for number, (key, change) in enumerate(changes):
        if change == "hasten":
            looking.queue.hasten(key, looking.now_s)
        else:
            looking.queue.set_pace(key, Pace(change), looking.now_s)
        if number % 5 == 0:
            looking.run(0.1)
    looking.run(3.0)
    assert max(looking.longest_s(key) for key in range(ports)) <= 1.0 + 2 * STEP_S


@given(ports=st.integers(1, 500), most=st.integers(1, 50))
def test_a_step_begins_a_bounded_number_of_looks_the_latest_first(ports: int, most: int) -> None:
    looking = Looking(most=most)
    looking.add(*range(ports))
    assert looking.queue.take(looking.now_s, most) == list(range(min(ports, most)))
    assert all(key >= most for key in looking.queue.take(looking.now_s, most))


@given(stands_s=st.floats(1.0, 100.0), ports=st.integers(1, 50))
def test_after_a_standstill_each_port_is_looked_at_once_and_not_for_each_miss(
    stands_s: float, ports: int
) -> None:
    looking = Looking()
    looking.add(*range(ports))
    looking.run(2.0)
    before = {key: len(looks) for key, looks in looking.looks.items()}
    looking.run(1.0, stands_s=stands_s)
    assert all(1 <= len(looking.looks[key]) - before[key] <= 3 for key in range(ports))


def test_a_port_under_a_look_is_not_due() -> None:
    """However long that takes: there is one look at a time."""
    looking = Looking(took_s=30.0)
    looking.add(1)
    looking.run(20.0)
    assert looking.looks[1] == [100.0]
    assert looking.queue.due_s is None


def test_a_starting_one_is_looked_at_ten_times_a_second() -> None:
    looking = Looking()
    looking.add(1, pace=Pace.STARTING)
    looking.add(2)
    looking.run(2.0)
    assert looking.longest_s(1) <= STARTING_S + 2 * STEP_S
    looking.queue.set_pace(1, Pace.USUAL, looking.now_s)
    looking.run(4.0)
    assert [len(looking.looks[key]) for key in (1, 2)] == [
        pytest.approx(24, abs=3),
        pytest.approx(6, abs=1),
    ]


def test_many_that_start_share_what_is_left_for_them() -> None:
    """The others keep their interval, and the master its work."""
    looking = Looking()
    looking.add(*range(1000), pace=Pace.STARTING)
    looking.add(*range(1000, 2000))
    looking.run(5.0)
    of_starting = sum(len(looking.looks[key]) for key in range(1000))
    assert of_starting <= 1000 * 2 + max(HURRIED_A_SECOND, 1000) * 5
    assert max(looking.longest_s(key) for key in range(2000)) <= 1.0 + 2 * STEP_S


def test_a_doubted_one_of_a_large_fleet_is_looked_at_as_in_a_small_one() -> None:
    looking = Looking()
    looking.add(*range(6000))
    looking.queue.set_pace(7, Pace.SOON, looking.now_s)
    looking.run(6.0)
    assert looking.longest_s(7) <= 1.0 + 2 * STEP_S
    assert len(looking.looks[7]) > len(looking.looks[8])


def test_an_early_look_comes_at_once_and_only_once_between_two_that_are_due() -> None:
    looking = Looking()
    looking.add(1)
    looking.run(1.05)
    count = len(looking.looks[1])
    for _ in range(5):
        looking.queue.hasten(1, looking.now_s)
        looking.step()
    assert len(looking.looks[1]) == count + 1
    looking.run(1.0)
    looking.queue.hasten(1, looking.now_s)
    looking.step()
    assert looking.looks[1][-1] == looking.now_s


def test_what_is_looked_at_no_more_is_not_due() -> None:
    looking = Looking()
    looking.add(1, 2)
    looking.queue.remove(1)
    looking.queue.remove(3)
    looking.queue.hasten(1, looking.now_s)
    assert looking.queue.take(looking.now_s, 10) == [2]
    looking.queue.remove(2)
    looking.queue.done(2, looking.now_s)
    assert (looking.queue.due_s, len(looking.queue)) == (None, 0)
