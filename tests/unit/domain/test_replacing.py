"""A replacement first: what was served is served on, whatever is drained, and by how many."""

from collections import Counter

import attrs
from given import (
    AT,
    NOW_S,
    RULES,
    asked,
    ended,
    fleet,
    name,
    one,
    read,
    reading,
    ready,
    rules,
    running,
    starting,
    step,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import Drain, Epoch, Fact, InstanceState, ModelState, Reading, Recovered, Scale
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet
from tarn.domain.memory import begin, saved
from tarn.domain.renewal import lacks
from tarn.domain.spec import UpdateSpec

GOOD = (ModelState("a", "READY"), ModelState("b", "READY"))
BROKEN = (ModelState("a", "READY"), ModelState("b", "UNAVAILABLE", "no weights"))
ONLY_A = (ModelState("a", "READY"),)


def rows(models: tuple[ModelState, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((m.name, m.state, m.reason) for m in models)


def drain(some: Fleet, number: int) -> Fleet:
    return apply_command(some, Drain(name(number)), RULES, now_s=NOW_S, at=AT)[0]


def states(some: Fleet) -> list[str]:
    return [str(i.state) for i in some.instances]


def test_the_only_instance_serves_until_its_replacement_does() -> None:
    """One is asked for at once; the old one leaves in the tick after the new one came."""
    some = drain(fleet(ready(1, models=rows(GOOD)), desired=1), 1)
    some = step(some, RULES, NOW_S, (running(1),), reading(1, models=GOOD))
    assert states(some) == ["ready", "requested"]
    both: tuple[Fact, ...] = (running(1), running(2))
    for second in range(1, 4):
        read_ = (reading(1, NOW_S + second, models=GOOD), reading(2, NOW_S + second, models=GOOD))
        some = step(some, RULES, NOW_S + second, both, *read_)
        assert [m.instance_id for m in some.view.members]
    assert (one(some, 1).state, one(some, 1).evicted) == (InstanceState.DRAINING, True)
    assert [m.instance_id for m in some.view.members] == [name(2)]
    assert one(some, 1).reason == "a person asked for it"


def test_a_replacement_with_a_broken_model_is_not_ready_and_the_old_one_stays() -> None:
    """`require: any`; it is replaced itself, and says which model, and that the other serves it."""
    some = drain(fleet(ready(1, models=rows(GOOD)), desired=1), 1)
    some = step(some, RULES, NOW_S, (running(1),), reading(1, models=GOOD))
    for second in range(1, 6):
        now_s = NOW_S + second
        read_ = (reading(1, now_s, models=GOOD), reading(2, now_s, models=BROKEN))
        some = step(some, RULES, now_s, (running(1), running(2)), *read_)
        assert [m.instance_id for m in some.view.members] == [name(1)]
    assert (one(some, 2).condemned, one(some, 2).reason) == (
        True,
        "model b, which 1 other instance serves, is unavailable: no weights",
    )


def test_where_nobody_serves_it_a_broken_model_holds_nothing_up() -> None:
    """The first start of a fleet, and the replacement of one that died: something serves."""
    some = read(fleet(starting(1)), reading(1, models=BROKEN))
    assert one(some, 1).serving
    ill = ready(2, models=rows(GOOD), suspect="no answer for 3 s")
    some = read(fleet(starting(1), ill), reading(1, models=BROKEN))
    assert one(some, 1).serving


def test_a_model_that_is_no_longer_listed_keeps_the_old_one_and_not_the_new_one_out() -> None:
    """Somebody took it out of the repository: the new one serves, the old one waits for --now."""
    some = drain(fleet(ready(1, models=rows(GOOD)), desired=1), 1)
    some = attrs.evolve(some, instances=(*some.instances, ready(2, models=rows(ONLY_A))))
    for second in range(1, 4):
        read_ = (
            reading(1, NOW_S + second, models=GOOD),
            reading(2, NOW_S + second, models=ONLY_A),
        )
        some = step(some, RULES, NOW_S + second, (running(1), running(2)), *read_)
    assert states(some) == ["ready", "ready"]
    assert lacks(one(some, 1), some.instances, 1) == "no other instance serves model 'b'"


def test_one_that_was_recovered_by_a_new_master_is_judged_by_itself() -> None:
    """It may have served all the while: who began under an earlier master is compared with none."""
    others = ready(2, models=rows(GOOD))
    some = read(fleet(starting(1, adopted=True), others), reading(1, models=BROKEN))
    assert one(some, 1).serving


def test_one_waits_for_two_where_another_one_failed_meanwhile() -> None:
    """As many serve as when its drain was asked for; a replacement of the other one is no second.

    So it is under the next master, too.
    """
    some = drain(fleet(ready(1), ready(2), desired=2), 1)
    some = step(some, RULES, NOW_S, (running(1), running(2)), reading(1), reading(2))
    some = step(some, RULES, NOW_S + 1, (running(1), running(3), ended(2)), reading(1, NOW_S + 1))
    for second in range(2, 5):
        read_ = (reading(1, NOW_S + second), reading(3, NOW_S + second))
        some = step(some, RULES, NOW_S + second, (running(1), running(3)), *read_)
    assert [m.instance_id for m in some.view.members] == [name(1), name(3)]
    kept = saved(some, AT - NOW_S)
    found = Recovered((running(1, adopted=True), running(3, adopted=True)))
    later = begin(Epoch(1, 2), kept, found, RULES, now_s=NOW_S, at=AT)
    assert [(i.retiring, i.others_then) for i in later.instances] == [(3, 1), (None, 0)]
    facts = tuple(running(n) for n in (1, 3, 4))
    for second in range(5, 8):
        read_ = tuple(reading(n, NOW_S + second) for n in (1, 3, 4))
        some = step(some, RULES, NOW_S + second, facts, *read_)
    assert [m.instance_id for m in some.view.members] == [name(3), name(4)]


def test_a_smaller_size_lets_one_go_without_a_replacement() -> None:
    """The replacement is not needed any more."""
    some = drain(fleet(ready(1), ready(2), desired=2), 1)
    some = apply_command(some, Scale(1), RULES, now_s=NOW_S, at=AT)[0]
    some = step(some, RULES, NOW_S, (running(1), running(2)), reading(1), reading(2))
    assert states(some) == ["draining", "ready"]


def test_several_are_replaced_one_after_the_other() -> None:
    """With a surge of 1 there is never more than one beside the size."""
    some = fleet(*(ready(n, models=rows(GOOD)) for n in (1, 2, 3)))
    for number in (1, 2, 3):
        some = drain(some, number)
    for second in range(40):
        now_s = NOW_S + second
        facts = tuple(running(i.number) for i in some.instances if not i.stop_posted)
        over = tuple(ended(i.number, expected=True) for i in some.instances if i.stop_posted)
        live = [reading(i.number, now_s, models=GOOD) for i in some.instances]
        some = step(some, RULES, now_s, (*facts, *over), *live)
        assert len(some.view.members) >= 3
        assert len([i for i in some.instances if i.state is not InstanceState.DRAINING]) <= 4
    assert [i.number for i in some.instances] == [4, 5, 6]


MODELS = st.tuples(*(st.sampled_from(("READY", "UNAVAILABLE", "")) for _ in range(3)))


@settings(max_examples=200, deadline=None)
@given(
    first=st.lists(MODELS, min_size=1, max_size=4),
    later=st.lists(MODELS, min_size=1, max_size=30),
    drains=st.lists(st.integers(0, 5), max_size=12),
    surge=st.integers(1, 2),
)
def test_no_drain_takes_away_what_was_served(
    first: list[tuple[str, str, str]],
    later: list[tuple[str, str, str]],
    drains: list[int],
    surge: int,
) -> None:
    """Whatever each new instance can serve, no model is left without an instance by a drain."""
    by = rules(update=UpdateSpec(surge=surge))

    def listed(states_: tuple[str, str, str]) -> tuple[ModelState, ...]:
        named = zip("abc", states_, strict=True)
        return tuple(ModelState(n, s, "" if s == "READY" else "bad") for n, s in named if s)

    serves = {n: listed(states_) for n, states_ in enumerate(first, 1)}
    some = fleet(*(ready(n, models=rows(models)) for n, models in serves.items()))
    before: Counter[str] = Counter()
    for second in range(40):
        now_s = NOW_S + second
        if second % 3 == 0 and drains and some.instances:
            chosen = some.instances[drains.pop() % len(some.instances)]
            some = apply_command(some, Drain(chosen.id), by, now_s=now_s, at=AT)[0]
        for instance in some.instances:
            serves.setdefault(instance.number, listed(later[instance.number % len(later)]))
        facts = tuple(running(i.number) for i in some.instances if not i.stop_posted)
        over = tuple(ended(i.number, expected=True) for i in some.instances if i.stop_posted)
        live: list[Reading] = [
            reading(i.number, now_s, models=serves[i.number]) for i in some.instances
        ]
        some = step(some, by, now_s, (*facts, *over), *live)
        now = Counter(
            m for i in some.instances if i.in_view for m, s, _ in i.models if s == "READY"
        )
        lost = {m for m, count in before.items() if count and not now[m]}
        assert not lost
        before = now
        active = [i for i in some.instances if i.state is not InstanceState.DRAINING]
        assert len(active) <= some.desired + surge


def test_one_that_never_served_is_drained_at_once() -> None:
    """Nothing is lost by it."""
    for instance in (asked(1), starting(1)):
        assert drain(fleet(instance), 1).instances[0].state is InstanceState.DRAINING
