"""Whole ticks: the life of instances, recovery, eviction, the end."""

import attrs
import pytest
from given import (
    AT,
    EPOCH,
    NOW_S,
    asked,
    at,
    codes,
    draining,
    ended,
    fleet,
    gone,
    name,
    one,
    reading,
    readings,
    ready,
    rules,
    running,
    silent,
    starting,
    step,
)

from tarn.domain import (
    Acknowledge,
    Applied,
    Down,
    Drain,
    Epoch,
    InstanceState,
    Known,
    ModelState,
    Pause,
    Reading,
    Recovered,
    Resume,
    SavedState,
    Scale,
    StubEnded,
    Unknown,
    Wish,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.domain.memory import begin, saved
from tarn.domain.spec import ModelsSpec
from tarn.domain.tick import Observation, tick

RULES = rules()
HELD = rules(required=("lb",))


def begun(state: SavedState, *numbers: int, by: Rules = RULES) -> Fleet:
    found = Recovered(tuple(running(n, adopted=True) for n in numbers))
    return begin(Epoch(1, 2), state, found, by, now_s=NOW_S, at=AT)


def states(some: Fleet) -> list[str]:
    return [str(i.state) for i in some.instances]


def ask(some: Fleet, command: Scale | Drain | Down | Resume, by: Rules = RULES) -> Fleet:
    return apply_command(some, command, by, now_s=NOW_S, at=AT)[0]


# One life.


def test_one_instance_from_its_ask_to_its_receipt() -> None:
    """Asked, starting, ready, drained, stopped: each in its tick, none skipped."""
    some = step(ask(fleet(desired=0), Scale(1)), RULES)
    assert states(some) == ["requested"]
    some = step(some, RULES, NOW_S + 1, (running(1),))
    assert states(some) == ["starting"]
    some = step(some, RULES, NOW_S + 2, (running(1),), reading(1, NOW_S + 2))
    assert states(some) == ["ready"]
    assert [m.instance_id for m in some.view.members] == [name(1)]
    some = step(ask(some, Scale(0)), RULES, NOW_S + 3, (running(1),), reading(1, NOW_S + 3))
    assert some.view.members == ()
    assert (one(some, 1).withdrawn_s, one(some, 1).stop_posted) == (NOW_S + 3, False)
    some = step(some, RULES, NOW_S + 5, (running(1),), reading(1, NOW_S + 5))
    assert one(some, 1).stop_posted
    some = step(some, RULES, NOW_S + 6, (ended(1, "exit 0", expected=True),))
    assert one(some, 1).reason == "drained: requests unknown in 3.0 s, lost unknown, 0 cut"
    told = ["TARN-3820", "TARN-1200", "TARN-1100", "TARN-1101", "TARN-1102"]
    assert codes(some) == [*told, "TARN-3820", "TARN-1200", "TARN-1103", "TARN-1114"]


def test_a_starting_instance_that_is_not_needed_stops_at_once() -> None:
    """It loads a model for minutes and answers nothing; nobody waits for it to be quiet."""
    some = step(fleet(starting(1), desired=0, manual=0), RULES, NOW_S, (running(1),), gone(1))
    some = step(some, RULES, NOW_S + 1, (running(1),), gone(1))
    assert one(some, 1).stop_posted
    assert "TARN-1109" not in codes(some)


def test_a_drain_returns_only_while_its_stop_is_not_posted() -> None:
    """Then a new one is launched."""
    facts = (running(1),)
    some = fleet(ready(1), desired=1)
    some = step(ask(some, Scale(0)), RULES, NOW_S + 1, facts, reading(1))
    back = step(ask(some, Scale(1)), RULES, NOW_S + 2, facts, reading(1))
    assert states(back) == ["ready"]
    assert [m.instance_id for m in back.view.members] == [name(1)]
    posted = step(some, RULES, NOW_S + 9, facts, reading(1, NOW_S + 9))
    assert one(posted, 1).stop_posted
    new = step(ask(posted, Scale(1)), RULES, NOW_S + 10, facts, reading(1))
    assert states(new) == ["draining", "requested"]


def test_a_drain_that_fell_silent_is_not_taken_back() -> None:
    """Traffic would go to one that does not answer."""
    some = step(ask(fleet(ready(1)), Scale(0)), RULES, NOW_S, (running(1),), reading(1))
    some = step(ask(some, Scale(1)), RULES, NOW_S + 1, (running(1),), silent(1))
    assert states(some) == ["draining", "requested"]


def test_an_evicted_instance_is_replaced_and_never_returns() -> None:
    """However much the size grows."""
    some = ask(fleet(ready(1), ready(2)), Drain(name(1), now=True))
    facts = (running(1), running(2))
    some = step(some, RULES, NOW_S, facts, reading(1), reading(2))
    assert states(some) == ["draining", "ready", "requested"]
    some = step(ask(some, Scale(5)), RULES, NOW_S + 1, facts, reading(1), reading(2))
    assert states(some) == ["draining", "ready", *["requested"] * 3, "requested"]


def test_a_condemned_instance_is_replaced_at_once() -> None:
    """Its replacement does not wait for its end."""
    some = fleet(ready(1, silent_s=NOW_S - 30.0, suspect="no answer for 3 s"))
    some = step(some, RULES, NOW_S, (running(1),), silent(1))
    assert states(some) == ["draining", "requested"]
    assert one(some, 1).withdrawn_s == NOW_S
    some = step(some, RULES, NOW_S + 0.1, (running(1),), silent(1))
    assert one(some, 1).stop_posted


def test_a_start_deadline_replaces() -> None:
    """A python model without its file leaves Triton up and never ready."""
    some = fleet(starting(1))
    some = step(some, RULES, NOW_S + 60.0, (running(1),), gone(1))
    assert states(some) == ["draining", "requested"]
    assert one(some, 1).condemned


def test_launches_are_backed_off_and_given_up_and_resumed() -> None:
    """A spec that cannot start does not loop for ever."""
    some, now_s, launches = fleet(desired=1), NOW_S, []
    for _ in range(100):
        some = step(some, RULES, now_s)
        if some.instances:
            launches.append(now_s - NOW_S)
            some = step(some, RULES, now_s, (ended(some.instances[0].number),))
        now_s += 1.0
    assert launches == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert some.halted
    resumed = step(ask(some, Resume()), RULES, now_s)
    assert states(resumed) == ["requested"]


# Followers.


def test_a_drain_waits_for_the_follower_and_goes_with_its_word() -> None:
    """Quiet for minutes, it is kept until nobody sends it anything."""
    some = fleet(ready(1), followers={"lb": FollowerState(5, came=True)})
    facts, read = (running(1),), reading(1)
    some = step(ask(some, Scale(0), HELD), HELD, NOW_S, facts, read)
    some = step(some, HELD, NOW_S + 10.0, facts, reading(1, NOW_S + 10.0))
    assert one(some, 1).withdrawn_s is None
    word = Acknowledge(Applied("lb", EPOCH, some.view.revision, AT))
    some, _ = apply_command(some, word, HELD, now_s=NOW_S + 11.0, at=AT)
    some = step(some, HELD, NOW_S + 11.0, facts, reading(1, NOW_S + 11.0))
    some = step(some, HELD, NOW_S + 13.0, facts, reading(1, NOW_S + 13.0))
    assert one(some, 1).stop_posted


def test_the_word_of_a_follower_in_this_process_is_read_each_tick() -> None:
    """It has no lease."""
    applied = (Applied("lb", EPOCH, 5, AT),)
    some = tick(fleet(ready(1)), Observation(NOW_S, AT, (running(1),), {}, applied), HELD)
    assert some.followers["lb"] == FollowerState(5, NOW_S, None, came=True, counted_s=NOW_S)


# Recovery.


def test_a_recovered_view_is_incomplete_until_everyone_was_probed() -> None:
    """Ready ones are added at once; the revision says when it is the whole truth."""
    some = begun(saved(fleet(ready(1), ready(2)), AT - NOW_S), 1, 2)
    facts = (running(1), running(2))
    some = step(some, RULES, NOW_S, facts)
    assert (some.view.revision, some.view.complete) == (5, False)
    some = step(some, RULES, NOW_S + 1, facts, reading(1))
    assert (some.view.revision, some.view.complete) == (6, False)
    some = step(some, RULES, NOW_S + 2, facts, reading(1), reading(2))
    assert (some.view.revision, some.view.complete) == (7, True)
    assert len(some.view.members) == 2


def test_a_view_that_becomes_complete_without_new_members_moves_its_revision() -> None:
    """A follower that acknowledged the incomplete one has removed nothing by it."""
    some = begun(saved(fleet(ready(1), ready(2)), AT - NOW_S), 1, 2)
    facts = (running(1), running(2))
    some = step(some, RULES, NOW_S, facts, reading(1))
    assert not some.view.complete
    whole = step(some, RULES, NOW_S + 1, facts, reading(1), gone(2))
    assert whole.view.complete
    assert whole.view.members == some.view.members
    assert whole.view.revision == some.view.revision + 1


LOADING = (ModelState("echo", "LOADING"),)


@pytest.mark.parametrize(
    ("read", "complete"),
    [
        (gone(1), True),
        (silent(1), False),
        (reading(1, models=LOADING), False),
        (reading(1, warm=False), False),
        (reading(1, models=(ModelState("echo", "UNAVAILABLE", "no such file"),)), True),
        (None, False),
    ],
)
def test_only_an_answer_for_good_ends_the_waiting(read: Reading | None, complete: bool) -> None:
    """One that warms up again served until a moment ago: it must not be removed."""
    some = begun(saved(fleet(ready(1)), AT - NOW_S), 1)
    what = () if read is None else (read,)
    some = step(some, RULES, NOW_S + 29.9, (running(1),), *what)
    assert some.view.complete is complete
    assert step(some, RULES, NOW_S + 30.0, (running(1),), *what).view.complete


def test_a_recovered_drain_waits_for_the_complete_view() -> None:
    """Whoever still sends to it learns only then that it has left."""
    state = saved(fleet(ready(1), draining(2), desired=1), AT - NOW_S)
    some = begun(state, 1, 2)
    facts = (running(1), running(2))
    some = step(some, RULES, NOW_S + 5.0, facts, silent(1), reading(2, NOW_S + 5.0))
    assert (one(some, 2).left_revision, one(some, 2).withdrawn_s) == (None, None)
    some = step(some, RULES, NOW_S + 6.0, facts, reading(1), reading(2, NOW_S + 6.0))
    assert one(some, 2).left_revision == some.view.revision
    assert one(some, 2).withdrawn_s == NOW_S + 6.0


def test_a_recovered_drain_waits_for_the_followers_of_the_earlier_master() -> None:
    """They may still send to it; one lease later they count as lost."""
    came = {"lb": FollowerState(5, came=True)}
    state = saved(fleet(draining(1), desired=0, followers=came), AT - NOW_S)
    some = begun(state, 1, by=HELD)
    some = step(some, HELD, NOW_S + 15.0, (running(1),), reading(1, NOW_S + 15.0))
    assert one(some, 1).withdrawn_s is None
    some = step(some, HELD, NOW_S + 15.1, (running(1),), reading(1, NOW_S + 15.1))
    assert one(some, 1).withdrawn_s == NOW_S + 17.1
    assert "TARN-1301" in codes(some)


def test_a_surplus_that_was_recovered_is_drained_like_one_that_served() -> None:
    """Not yet probed, it may be in use."""
    some = begun(SavedState(desired=0), 1)
    some = step(some, RULES, NOW_S, (running(1),))
    some = step(some, RULES, NOW_S + 1, (running(1),))
    assert states(some) == ["draining"]
    assert not one(some, 1).stop_posted


def test_a_saved_size_outside_the_limits_is_moved_into_them() -> None:
    """The spec changed meanwhile."""
    some = step(begun(SavedState(desired=50)), RULES)
    assert (some.desired, some.decisions[-1].by) == (8, "limits")


# The end.


def test_down_drains_all_and_ends_when_none_is_left() -> None:
    """Asks are cancelled, starting ones stopped, ready ones drained, and nothing is launched."""
    some = ask(fleet(asked(1), starting(2), ready(3)), Down())
    facts = (running(2), running(3))
    some = step(some, RULES, NOW_S, facts, gone(2), reading(3))
    assert (some.desired, states(some), some.view.members) == (0, ["draining"] * 3, ())
    some = step(some, RULES, NOW_S + 2, facts, gone(2), reading(3, NOW_S + 2))
    assert [i.stop_posted for i in some.instances] == [True] * 3
    over = tuple(ended(n, "exit 0", expected=True) for n in (1, 2, 3))
    some = step(some, RULES, NOW_S + 3, over)
    assert some.instances == ()
    assert [str(i.state) for i in some.ended] == ["stopped"] * 3


# Pause and settling.


def test_a_pause_ends_by_itself() -> None:
    """On the wall clock, sharply; the policy is heard in the same tick."""
    some = fleet(desired=0, pause=Pause(at(NOW_S + 60.0)))
    wish = Known(Wish(2, "load"))
    assert step(some, RULES, NOW_S + 59.9, wish=wish).desired == 0
    over = step(some, RULES, NOW_S + 60.0, wish=wish)
    assert (over.pause, over.desired) == (None, 2)
    assert codes(over)[0] == "TARN-1202"


def test_a_fleet_remembers_how_many_served_at_once() -> None:
    """And since which tick they are fewer than desired; a smaller size forgets the rest."""
    facts = (running(1),)
    some = step(fleet(ready(1)), RULES, NOW_S, facts, reading(1))
    assert (some.served, some.short_s) == (1, None)
    short = step(some, RULES, NOW_S + 1, (ended(1),))
    assert (short.served, short.short_s) == (1, NOW_S + 1)
    assert step(short, RULES, NOW_S + 5).short_s == NOW_S + 1
    fresh = step(fleet(desired=1), RULES)
    assert (fresh.served, fresh.short_s) == (0, NOW_S)
    fewer = step(ask(fleet(ready(1), ready(2), served=2), Scale(1)), RULES)
    assert (fewer.served, fewer.short_s) == (1, None)


def test_a_tick_that_sees_nothing_new_returns_the_very_same_fleet() -> None:
    """So that nothing is published, saved or posted for it."""
    facts, read = (running(1), running(2)), readings(reading(1), gone(2))
    seen = Observation(NOW_S, AT, facts, read, wish=Unknown("no policy"))
    some = tick(fleet(ready(1), starting(2)), seen, RULES)
    assert tick(some, attrs.evolve(seen, now_s=NOW_S + 1.0), RULES) is some


def test_every_model_must_be_ready_where_all_are_required() -> None:
    """``models.require: all`` keeps an instance with one bad model out of the view."""
    spec = attrs.evolve(RULES.spec, models=ModelsSpec("/models", require="all"))
    strict = attrs.evolve(RULES, spec=spec)
    bad = (ModelState("bad", "UNAVAILABLE", "no such file"), ModelState("echo", "READY"))
    read = reading(1, models=bad)
    assert states(step(fleet(starting(1)), RULES, NOW_S, (running(1),), read)) == ["ready"]
    out = step(fleet(starting(1)), strict, NOW_S, (running(1),), read)
    assert one(out, 1).state is InstanceState.STARTING
    assert one(out, 1).reason == "model bad is unavailable: no such file"


def test_a_stub_of_which_only_the_instance_tells_is_noted() -> None:
    """By its reading, where the runtime does not look; until the reading says no more of it."""
    mine, runtimes = (StubEnded(name(1), said, AT) for said in ("by itself", "by the runtime"))
    some = step(fleet(ready(1)), rules(), NOW_S, (running(1),), reading(1, stub_ended=mine))
    assert one(some, 1).stub_ended == "by itself"
    assert codes(some)[0] == "TARN-1124"
    both = step(some, rules(), NOW_S, (running(1), runtimes), reading(1, stub_ended=mine))
    assert one(both, 1).stub_ended == "by the runtime"
    over = step(some, rules(), NOW_S, (running(1),), reading(1))
    assert one(over, 1).stub_ended == ""
