"""What is kept of a drain, and the receipt that is made of it."""

import attrs
import pytest
from given import (
    AT,
    NOW_S,
    codes,
    draining,
    ended,
    fleet,
    name,
    one,
    reading,
    ready,
    rules,
    running,
    step,
    told,
)
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Epoch, Instance, Known, Reading, Recovered, Sample, Unknown
from tarn.domain.apply_plan import apply_plan
from tarn.domain.counters import CounterSet
from tarn.domain.draining import DrainProgress
from tarn.domain.fleet import FollowerState
from tarn.domain.memory import begin, saved
from tarn.domain.plan import Plan
from tarn.domain.spec import DiscoverySpec

RULES = rules()
QUIET = DrainProgress(CounterSet(100.0, 3.0), CounterSet(112.0, 3.0), 12.0, cut=0)
NONE = Known(0.0)
LATE = Unknown("no answer for 2 s")


def counted(
    now_s: float, succeeded: Sample[float], failed: Sample[float] = NONE, **more: object
) -> Reading:
    metrics = {"pending": Known(0.0), "executing": Known(0.0)}
    totals = {"requests_total": succeeded, "failures_total": failed}
    return reading(1, now_s, metrics=metrics | totals, **more)  # type: ignore[arg-type]


def over(instance: Instance, **more: object) -> tuple[str, str, str]:
    """Return code and message of the one event of its end, and its reason."""
    some = told(fleet(instance), ended(1, **more), now_s=NOW_S + 3.1)  # type: ignore[arg-type]
    (event,) = some.events
    return event.code, event.message, one(some, 1).reason


@pytest.mark.parametrize(
    ("drain", "receipt"),
    [
        (QUIET, "12 requests in 3.1 s, 0 lost, 0 cut"),
        (attrs.evolve(QUIET, succeeded=0.0, failed=1.0), "1 request in 3.1 s, 1 lost, 0 cut"),
        (attrs.evolve(QUIET, unseen=True), "at least 12 requests in 3.1 s, at least 0 lost, 0 cut"),
        (attrs.evolve(QUIET, cut=2), "12 requests in 3.1 s, 0 lost, 2 cut at drain.timeout"),
        (
            attrs.evolve(QUIET, cut=1, more_cut=True),
            "12 requests in 3.1 s, 0 lost, at least 1 cut at drain.timeout",
        ),
        (attrs.evolve(QUIET, cut=None), "12 requests in 3.1 s, 0 lost, cut unknown"),
        (DrainProgress(cut=0), "requests unknown in 3.1 s, lost unknown, 0 cut"),
        (None, "requests unknown in 3.1 s, lost unknown, cut unknown"),
        (
            attrs.evolve(QUIET, acknowledged=(("haproxy@lb", "3.88"),)),
            "12 requests in 3.1 s, 0 lost, 0 cut; haproxy@lb acknowledged 3.88",
        ),
        (
            attrs.evolve(QUIET, acknowledged=(("zookeeper", "3.88"),), parted=("haproxy@lb",)),
            (
                "12 requests in 3.1 s, 0 lost, 0 cut; zookeeper acknowledged 3.88, "
                "the lease of haproxy@lb had run out"
            ),
        ),
        (
            attrs.evolve(QUIET, acknowledged=tuple((f"lb{n}", "3.88") for n in range(7))),
            (
                "12 requests in 3.1 s, 0 lost, 0 cut; lb0 acknowledged 3.88, "
                "lb1 acknowledged 3.88, "
                "lb2 acknowledged 3.88, lb3 acknowledged 3.88, lb4 acknowledged 3.88, 2 more did"
            ),
        ),
        (
            attrs.evolve(QUIET, unload_s=NOW_S, unloaded=Unknown("Triton refused: 403")),
            (
                "12 requests in 3.1 s, 0 lost, 0 cut; it is an estimate that nothing executed: "
                "Triton refused: 403"
            ),
        ),
    ],
)
def test_the_receipt_tells_what_is_known_and_what_is_not(
    drain: DrainProgress | None, receipt: str
) -> None:
    """What is not known is never 0; one event tells it, and the instance's reason."""
    gone = draining(1, stop_posted=True, drain=drain)
    assert over(gone) == ("TARN-1114", f"drained w-0001: {receipt}", f"drained: {receipt}")
    evicted = attrs.evolve(gone, evicted=True, reason="a person asked for it")
    assert over(evicted)[2] == f"drained: {receipt}: a person asked for it"


def test_the_receipt_of_one_that_did_not_end_well_says_how_it_ended() -> None:
    """Triton ends with 0 only when nothing was in flight any more."""
    gone = draining(1, stop_posted=True, drain=QUIET)
    assert over(gone, reason="exit 1", code=1)[2].endswith("0 cut; exit 1")
    assert over(gone, reason="exit 0", code=0)[2].endswith("0 cut")
    empty = attrs.evolve(gone, drain=attrs.evolve(QUIET, unloaded=Known(value=True)))
    assert over(empty, reason="idle connections were open", code=1)[2].endswith("0 cut")


def test_a_drain_counts_from_the_moment_at_which_it_left() -> None:
    """What had ended before is not its own; what failed meanwhile is lost."""
    some = fleet(ready(1), desired=0, manual=0)
    some = step(some, RULES, NOW_S, (running(1),), counted(NOW_S, Known(100.0), Known(3.0)))
    busy = counted(NOW_S + 2.5, Known(112.0), Known(4.0))
    some = step(some, RULES, NOW_S + 2.5, (running(1),), busy)
    assert one(some, 1).stop_posted
    last = counted(NOW_S + 2.8, Known(113.0), Known(4.0))
    some = step(some, RULES, NOW_S + 2.8, (running(1),), last)
    for nothing in (Unknown("refused"), Known(0.0)):  # its end is no news of its requests
        again = counted(NOW_S + 3.0, nothing, nothing)
        some = step(some, RULES, NOW_S + 3.0, (running(1),), again)
    some = step(some, RULES, NOW_S + 3.1, (ended(1, "exit 0", expected=True),))
    assert one(some, 1).reason == "drained: 14 requests in 3.1 s, 1 lost, 0 cut"
    assert codes(some).count("TARN-1114") == 1
    assert "TARN-1104" not in codes(some)


def looked(*readings: Reading) -> DrainProgress:
    drain = DrainProgress()
    for one_reading in readings:
        drain = drain.looked(one_reading)
    return drain


def test_a_counter_that_vanished_with_its_model_may_hide_some() -> None:
    """What was seen before stays counted, and what is seen after is added."""
    looks = (100, 0), (105, 0), (105, 1), (107, 1)
    seen = [counted(NOW_S, Known(float(n)), resets=resets) for n, resets in looks]
    drain = looked(*seen)
    assert (drain.succeeded, drain.unseen) == (7.0, True)
    assert looked(*seen[:2]).unseen is False


def test_counters_that_vanish_by_our_unload_hide_nothing() -> None:
    """They were seen to rest before; an empty Triton has none left to read."""
    drain = looked(counted(NOW_S, Known(1.0)), counted(NOW_S, Known(4.0))).unload(NOW_S)
    drain = drain.looked(counted(NOW_S, Known(4.0), unloaded=Known(value=False), resets=1))
    assert (drain.succeeded, drain.unseen) == (3.0, False)
    drain = drain.looked(counted(NOW_S, LATE, unloaded=Known(value=True)))
    gone = draining(1, stop_posted=True, drain=attrs.evolve(drain, cut=0))
    assert over(gone)[2] == "drained: 3 requests in 3.1 s, 0 lost, 0 cut"


def test_a_look_that_told_nothing_leaves_the_count_open_until_the_next() -> None:
    """The next one tells both."""
    first, blind = counted(NOW_S, Known(1.0)), counted(NOW_S, LATE)
    assert looked(first, blind).unseen
    after = looked(first, blind, counted(NOW_S, Known(3.0)))
    assert (after.succeeded, after.unseen) == (2.0, False)
    assert looked(blind).unseen is False  # nothing to be sure of: it says unknown
    assert looked(blind).began is None


def test_a_look_that_tells_nothing_new_changes_nothing() -> None:
    """The very same object, so that nothing is made of it."""
    drain = looked(counted(NOW_S, Known(1.0)))
    assert drain.looked(counted(NOW_S + 1.0, Known(1.0))) is drain
    blind = drain.looked(counted(NOW_S, LATE))
    assert blind.looked(counted(NOW_S, LATE)) is blind


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_sums_of_a_drain_are_what_the_counters_grew(totals: list[tuple[int, int]]) -> None:
    """For counters that only grow; for any, it is never more than what could have ended."""
    growing = sorted(totals)
    ok = 0
    reads = []
    for succeeded, failed in growing:
        ok += failed
        reads.append(counted(NOW_S, Known(float(succeeded)), Known(float(ok))))
    drain = looked(*reads)
    assert drain.succeeded == growing[-1][0] - growing[0][0]
    assert drain.failed == ok - growing[0][1]
    assert not drain.unseen


def test_who_let_go_is_named_as_the_spec_names_it() -> None:
    """The newest view that each acknowledged; one whose lease ran out was waited for no more."""
    discovery = DiscoverySpec("haproxy", {"followers": ["lb1", "lb2"]}, required=True)
    by = rules(required=("lb1", "lb2", "zookeeper"), discovery=(discovery,))
    followers = {
        "lb1": FollowerState(6, came=True),
        "lb2": FollowerState(4, came=True, lost=True),
        "zookeeper": FollowerState(7, came=True),
        "visitor": FollowerState(4, came=True),
    }
    left = draining(1, left_revision=6, withdrawn_s=NOW_S)
    some = fleet(left, desired=0, followers=followers)
    some = apply_plan(some, Plan(stop=frozenset({name(1)})), by, NOW_S + 3.0, AT)
    drain = one(some, 1).drain
    assert drain is not None
    assert drain.acknowledged == (("haproxy@lb1", "1.6"), ("zookeeper", "1.7"))
    assert drain.parted == ("haproxy@lb2",)


@pytest.mark.parametrize(
    ("busy", "drain", "cut", "more", "told_of"),
    [
        (Known(0.0), DrainProgress(), 0, False, ""),
        (Known(1.2), DrainProgress(), 2, False, "still busy after 20 s"),
        (LATE, DrainProgress(), None, True, "still busy after 20 s"),
        (
            Known(3.0),
            DrainProgress().unload(NOW_S),
            3,
            True,
            "the last requests keep its models from",
        ),
        (
            Known(0.0),
            DrainProgress().unload(NOW_S),
            1,
            True,
            "the last requests keep its models from",
        ),
        (
            LATE,
            attrs.evolve(DrainProgress().unload(NOW_S), unloaded=Known(value=True)),
            0,
            False,
            "",
        ),
        (
            Known(0.0),
            attrs.evolve(DrainProgress().unload(NOW_S), unloaded=Unknown("refused")),
            0,
            False,
            "",
        ),
    ],
)
def test_what_a_stop_cuts_is_counted_and_told_once(
    busy: Sample[float], drain: DrainProgress, cut: int | None, more: bool, told_of: str
) -> None:
    """An unload in work proves that something executes; one that ended, that nothing does."""
    some = fleet(draining(1, busy=busy, drain=drain), desired=0)
    some = apply_plan(some, Plan(stop=frozenset({name(1)})), RULES, NOW_S + 20.0, AT)
    after = one(some, 1).drain
    assert after is not None
    assert (after.cut, after.more_cut) == (cut, more)
    assert [e.message.startswith(told_of) for e in some.events] == ([True] if told_of else [])


def test_a_restart_of_the_master_keeps_what_the_count_began_with() -> None:
    """Its Triton went on counting; without a saved begin it can be more than what is seen now."""
    drain = attrs.evolve(QUIET, unload_s=NOW_S, unloaded=Known(value=False))
    some = fleet(draining(1, drain=drain), draining(2), desired=0)
    state = saved(some, AT - NOW_S)
    found = Recovered((running(1, adopted=True), running(2, adopted=True)))
    next_ = begin(Epoch(1, 2), state, found, RULES, now_s=NOW_S, at=AT)
    kept = one(next_, 1).drain
    assert kept is not None
    assert (kept.began, kept.last, kept.unload_s) == (QUIET.began, None, NOW_S)
    assert not one(next_, 1).returnable
    fresh = one(next_, 2).drain
    assert fresh is not None
    assert fresh.began is None
    for total in (100.0, 102.0):
        fresh = fresh.looked(counted(NOW_S, Known(total)))
    assert (fresh.succeeded, fresh.unseen) == (2.0, True)
    after = kept.looked(counted(NOW_S, Known(115.0), Known(3.0)))
    assert (after.succeeded, after.failed, after.unseen) == (15.0, 0.0, False)


@pytest.mark.parametrize("unloads", [False, True])
def test_a_model_that_went_while_no_master_looked_makes_nothing_new(unloads: bool) -> None:
    """Of an earlier master only the sum over all models is known; by our own unload none worked."""
    drain = DrainProgress(CounterSet(1000.0, 3.0))
    drain = drain.unload(NOW_S) if unloads else drain
    after = drain.looked(counted(NOW_S, Known(400.0), Known(3.0)))
    assert (after.succeeded, after.failed, after.unseen) == (0.0, 0.0, not unloads)
    after = after.looked(counted(NOW_S, Known(402.0), Known(3.0)))
    assert (after.succeeded, after.unseen) == (2.0, not unloads)


def test_a_later_master_goes_on_from_what_the_counters_said() -> None:
    """It has no memory of those that began again before, and adds them to nothing."""
    began = counted(NOW_S, Known(1000.0), as_read=CounterSet(100.0))
    assert looked(began, counted(NOW_S, Known(1003.0))).began == CounterSet(100.0)
