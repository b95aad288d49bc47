"""The master lacks something of its own: no instance pays for that."""

import attrs
from given import NOW_S, codes, fleet, one, ready, rules, running, silent, starting, step
from given import reading as answers

RULES = rules()
LACK = "this process has as many files open as it may"
FOUR = (1, 2, 3, 4)
FACTS = tuple(running(n) for n in FOUR)


def states(some):
    return [str(i.state) for i in some.instances]


def blind(number, **more):
    return attrs.evolve(answers(number), blind=LACK, **more)


def test_nobody_is_doubted_or_replaced_while_the_master_cannot_look() -> None:
    """However long: the silent one among them may be silent for the same reason."""
    some = fleet(*(ready(n) for n in FOUR))
    for after_s in range(0, 4000, 100):
        now_s = NOW_S + after_s
        some = step(some, RULES, now_s, FACTS, blind(1), blind(2), silent(3), silent(4))
    assert some.blind == LACK
    assert states(some) == ["ready"] * 4
    assert len(some.view.members) == 4
    assert codes(some) == []


def test_a_silence_counts_from_the_moment_on_at_which_the_master_can_look_again() -> None:
    """As after a late tick: what was silent meanwhile has its whole time again."""
    some = fleet(*(ready(n) for n in FOUR))
    for now_s in (NOW_S, NOW_S + 59):
        some = step(some, RULES, now_s, FACTS, silent(1), *(blind(n) for n in FOUR[1:]))
    some = step(some, RULES, NOW_S + 60, FACTS, silent(1), *(answers(n) for n in FOUR[1:]))
    assert some.blind == ""
    assert len(some.view.members) == 4
    some = step(some, RULES, NOW_S + 64, FACTS, silent(1), *(answers(n) for n in FOUR[1:]))
    assert [m.instance_id for m in some.view.members] == ["w-0002", "w-0003", "w-0004"]
    assert one(some, 1).suspect


def test_a_start_is_not_given_up_while_the_master_cannot_look() -> None:
    """And one that serves when it can look again is admitted, not condemned."""
    some = fleet(starting(1, serving=False))
    some = step(some, RULES, NOW_S + 10_000, (running(1),), attrs.evolve(silent(1), blind=LACK))
    assert states(some) == ["starting"]
    some = step(some, RULES, NOW_S + 10_001, (running(1),), answers(1))
    assert states(some) == ["ready"]


def test_what_is_certain_counts_all_the_same() -> None:
    """A refused connection, or the end of a process, is the instance's own."""
    some = fleet(*(ready(n) for n in FOUR))
    gone = attrs.evolve(silent(1), gone="connection refused")
    some = step(some, RULES, NOW_S, FACTS, gone, *(blind(n) for n in FOUR[1:]))
    assert [m.instance_id for m in some.view.members] == ["w-0002", "w-0003", "w-0004"]
