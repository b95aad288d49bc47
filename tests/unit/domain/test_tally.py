"""What a master counts, from one fleet to the next."""

import attrs
import pytest
from given import AT, NOW_S, asked, draining, ended, fleet, ready, running, starting, told

from tarn.domain import Decision, DiscoveryView, ExitStatus, Fact, InstanceState
from tarn.domain.counters import CounterSet
from tarn.domain.draining import DrainProgress
from tarn.domain.fleet import Fleet, FollowerState
from tarn.domain.tally import FAILURES, Tally

BEGUN = CounterSet(0.0, 0.0)


def counted(before: Fleet, after: Fleet, *facts: Fact, now_s: float = NOW_S) -> Tally:
    return Tally(AT).counted(before, after, facts, now_s)


def reasons(before: Fleet, *facts: Fact) -> dict[str, float]:
    tally = counted(before, told(before, *facts), *facts)
    return {reason: count for reason, count in tally.failures.items() if count}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ExitStatus("killed by signal 9", -9), "signal"),
        (ExitStatus("a shell's word for it", 137), "signal"),
        (ExitStatus("status 3", 3), "exit"),
        (ExitStatus("preempted", -102), "runtime"),
        (ExitStatus("disk failed", -101, node_fault=True), "node"),
        (ExitStatus("nobody saw it"), "other"),
    ],
)
def test_a_failure_has_one_of_a_few_reasons(status: ExitStatus, reason: str) -> None:
    """Whatever the words of the runtime are, a series is made for these only."""
    fact = attrs.evolve(ended(1), exit=status)
    assert reasons(fleet(ready(1)), fact) == {reason: 1}
    assert reason in FAILURES


def test_one_that_never_served_failed_at_its_start() -> None:
    """By itself, or given up by us; one that served and fell silent was replaced."""
    assert reasons(fleet(starting(1)), ended(1, code=1)) == {"start": 1}
    given_up = draining(1, condemned=True, stop_posted=True, ready_s=None)
    assert reasons(fleet(given_up), ended(1)) == {"never_ready": 1}
    silent = draining(1, condemned=True, stop_posted=True)
    assert reasons(fleet(silent), ended(1)) == {"silent": 1}


def test_one_of_which_the_runtime_knows_nothing_is_lost() -> None:
    """It said nothing of it for long enough."""
    before = fleet(ready(1, missing_s=NOW_S - 11.0))
    assert reasons(before) == {"lost": 1}


def test_a_crowd_that_fails_at_once_is_counted_whole() -> None:
    """More than the fleet keeps of the ended ones."""
    before = fleet(*(ready(number) for number in range(1, 31)))
    facts = tuple(ended(number, code=-9) for number in range(1, 31))
    assert reasons(before, *facts) == {"signal": 20, "other": 10}


@pytest.mark.parametrize(
    ("drain", "outcome", "requests"),
    [
        (DrainProgress(BEGUN, BEGUN, 7.0, cut=0), "clean", (7, 0, 0)),
        (DrainProgress(BEGUN, BEGUN, 7.0, 1.0, cut=0), "lost", (7, 1, 0)),
        (DrainProgress(BEGUN, BEGUN, 7.0, 1.0, cut=2), "cut", (7, 1, 2)),
        (DrainProgress(BEGUN, BEGUN, 7.0, cut=0, unseen=True), "unknown", (7, 0, 0)),
        (DrainProgress(cut=None), "unknown", (0, 0, 0)),
        (None, "unknown", (0, 0, 0)),
    ],
)
def test_a_drain_counts_by_the_worst_that_happened(
    drain: DrainProgress | None, outcome: str, requests: tuple[int, int, int]
) -> None:
    """And its requests by what became of them, and how long it took."""
    before = fleet(draining(1, stop_posted=True, drain=drain, since_s=NOW_S - 4.0))
    fact = ended(1, expected=True)
    tally = counted(before, told(before, fact), fact)
    assert {word for word, count in tally.drains.items() if count} == {outcome}
    assert tuple(tally.drained.values()) == requests
    assert (tally.drain_s.count, tally.drain_s.total) == (1, 4.0)
    assert set(tally.failures.values()) == {0.0}


def test_what_is_stopped_without_a_drain_is_none() -> None:
    """One that was only asked for, or never served."""
    before = fleet(starting(1, state=InstanceState.DRAINING, stop_posted=True))
    fact = ended(1, expected=True)
    tally = counted(before, told(before, fact), fact)
    assert set(tally.drains.values()) == {0.0}


def test_the_phases_of_a_start_are_timed() -> None:
    """Each once, and the whole; those of an earlier master's instances are not ours."""
    first, second = fleet(asked(1)), fleet(starting(1, since_s=NOW_S + 2.0))
    third = fleet(ready(1, since_s=NOW_S + 5.0, ready_s=NOW_S + 5.0))
    tally = counted(first, second).counted(second, third, (), NOW_S + 5.0)
    assert {phase: took.total for phase, took in tally.starts.items()} == {
        "requested": 2.0,
        "starting": 3.0,
        "whole": 5.0,
    }
    adopted = [
        attrs.evolve(some, instances=(attrs.evolve(some.instances[0], adopted=True),))
        for some in (second, third)
    ]
    assert sum(h.count for h in counted(*adopted).starts.values()) == 0


def test_decisions_count_by_kind_and_direction() -> None:
    """Each once, though only the last hundred are kept."""
    some = fleet(desired=1)
    tally, before = Tally(AT), some
    for desired, by in ((3, "policy target"), (2, "scale"), (1, "policy target"), (0, "down")):
        some = some.decided(Decision(AT, desired, desired, by, "why"))
    tally = tally.counted(before, some, (), NOW_S)
    assert tally.decisions == {
        ("policy", "up"): 1,
        ("scale", "down"): 1,
        ("policy", "down"): 1,
        ("down", "down"): 1,
    }
    assert tally.counted(some, some, (), NOW_S) is tally
    odd = counted(before, before.decided(Decision(AT, 2, 2, "whoever it is", "why")))
    assert odd.decisions == {("policy", "up"): 1}


def test_a_follower_is_behind_since_it_missed_a_view() -> None:
    """Until it acknowledges the newest one."""
    view = DiscoveryView(fleet().epoch, 5, complete=True)
    late = fleet(view=view, followers={"lb": FollowerState(4), "ok": FollowerState(5)})
    tally = counted(late, late)
    assert tally.behind == {"lb": NOW_S}
    tally = tally.counted(late, late, (), NOW_S + 3.0)
    assert tally.behind == {"lb": NOW_S}
    caught_up = attrs.evolve(late, followers={"lb": FollowerState(5)})
    assert tally.counted(late, caught_up, (), NOW_S + 4.0).behind == {}


def test_ticks_are_timed_and_late_ones_counted() -> None:
    """A step that came late is another thing than one that took long."""
    tally = Tally(AT).ticked(0.02).ticked(3.0).was_late()
    assert (tally.ticks.count, tally.ticks.counts[-1], tally.late) == (2, 1, 1)


def test_what_runs_on_is_counted_for_nothing() -> None:
    """A whole word of the runtime that tells nothing new."""
    some = fleet(ready(1), starting(2))
    after = told(some, running(1), running(2))
    tally = counted(some, after, running(1), running(2))
    assert set(tally.failures.values()) | set(tally.drains.values()) == {0.0}
    assert tally.decisions == {}
