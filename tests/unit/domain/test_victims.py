"""Who leaves when there are too many."""

from collections import Counter

import attrs
from given import NOW_S, asked, draining, fleet, name, ready, rules, starting
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Instance, InstanceState, Known, Unknown
from tarn.domain.apply_plan import apply_plan
from tarn.domain.fleet import Fleet, FollowerState
from tarn.domain.plan import plan, surplus

RULES = rules()


def order(some: Fleet) -> list[int]:
    """Return the numbers in the order in which they would leave."""
    return [i.number for i in surplus(some.instances, len(some.instances), some)]


def on(number: int, node: str, busy: float = 0.0) -> Instance:
    return ready(number, node=node, busy=Known(busy))


def test_not_ready_ones_go_first_whatever_they_do_and_wherever_they_are() -> None:
    """Asked for, starting, suspect, the least busy; unknown last."""
    some = fleet(
        ready(1, busy=Unknown("late"), node="a"),
        ready(2, busy=Known(0.0), node="a"),
        ready(3, busy=Known(7.0), suspect="no answer", node="b"),
        starting(4, node="c"),
        asked(5),
    )
    assert order(some) == [5, 4, 3, 2, 1]


def test_of_equally_busy_ones_the_fullest_node_gives_first() -> None:
    """Counted anew after each: a has three, then b two, then each one."""
    some = fleet(on(1, "a"), on(2, "b"), on(3, "a"), on(4, "b"), on(5, "a"), on(6, "c"))
    assert order(some) == [5, 4, 3, 6, 2, 1]


def test_the_least_busy_goes_before_the_fullest_node_gives() -> None:
    """To wait for requests costs more than an uneven spread, which the next start evens."""
    some = fleet(on(1, "a", 2.0), on(2, "a", 2.0), on(3, "b", 1.0))
    assert order(some) == [3, 2, 1]


def test_parts_of_a_request_are_no_difference() -> None:
    """An estimate that trembles must not beat the spread; nothing at all is less than a little."""
    some = fleet(on(1, "a", 0.9), on(2, "a", 0.01), on(3, "b", 0.3), on(4, "b", 0.0))
    assert order(some) == [4, 2, 3, 1]


def test_sessions_of_followers_are_work_too() -> None:
    """What a load balancer has open may not have reached Triton; the greater number counts."""
    lb1 = FollowerState(5, came=True, sessions={name(1): 2, name(2): 1})
    lb2 = FollowerState(5, came=True, sessions={name(2): 2})
    gone = FollowerState(5, came=True, lost=True, sessions={name(4): 50})
    some = fleet(
        ready(1, busy=Known(0.0)),
        ready(2, busy=Known(1.0)),
        ready(3, busy=Known(2.5)),
        ready(4, busy=Known(1.0)),
        followers={"lb1": lb1, "lb2": lb2, "lb3": gone},
    )
    assert order(some) == [4, 1, 3, 2]


instances = st.lists(
    st.tuples(
        st.sampled_from(["requested", "starting", "ready", "suspect"]),
        st.integers(0, 3),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=10,
)


def made(parts: list[tuple[str, int, str]]) -> Fleet:
    found = []
    for number, (kind, busy, node) in enumerate(parts, 1):
        if kind == "requested":
            found.append(asked(number))
        elif kind == "starting":
            found.append(starting(number, node=node))
        else:
            suspect = "no answer" if kind == "suspect" else ""
            found.append(ready(number, node=node, busy=Known(float(busy)), suspect=suspect))
    return fleet(*found)


@given(instances)
def test_the_order_is_what_choosing_one_by_one_would_give(
    parts: list[tuple[str, int, str]],
) -> None:
    """At each place, nobody left is cheaper, and no equal one has more on its node."""
    some = made(parts)
    by = order(some)
    assert sorted(by) == [i.number for i in some.instances]
    left = {i.number: i for i in some.instances}
    for number in by:
        going = left[number]

        def cost(i: Instance) -> tuple[int, bool, float]:
            rank = [InstanceState.REQUESTED, InstanceState.STARTING, InstanceState.READY].index(
                i.state
            )
            busy = i.busy.value if isinstance(i.busy, Known) else float("inf")
            return rank, not i.suspect, busy

        nodes = Counter(i.node for i in left.values() if i.node is not None)
        assert cost(going) == min(map(cost, left.values()))
        equals = [i for i in left.values() if cost(i) == cost(going)]
        assert nodes[going.node] == max(nodes[i.node] for i in equals)
        del left[number]


@given(instances, st.lists(st.integers(0, 10), min_size=1, max_size=12))
def test_nobody_is_drained_twice_or_taken_back_in_the_same_breath(
    parts: list[tuple[str, int, str]], sizes: list[int]
) -> None:
    """Over any sequence of sizes, one tick says one thing of one instance, and of none again."""
    some = made(parts)
    for turn, size in enumerate(sizes):
        before = {i.id: i.state for i in some.instances}
        step = plan(attrs.evolve(some, desired=size), RULES, NOW_S)
        said = [*step.drain, *step.take_back, *step.cancel, *step.stop, *step.unload, *step.admit]
        assert len(said) == len(set(said))
        assert all(before[id_] is not InstanceState.DRAINING for id_ in step.drain | step.cancel)
        assert all(before[id_] is InstanceState.DRAINING for id_ in step.take_back)
        active = sum(state is not InstanceState.DRAINING for state in before.values())
        going, coming = step.drain | step.cancel, len(step.take_back) + step.launch
        assert active - len(going) + coming == size
        some = apply_plan(attrs.evolve(some, desired=size), step, RULES, NOW_S + turn, 0.0)


def test_a_drain_that_began_is_not_begun_again() -> None:
    """Its place among the leaving is kept; another one is chosen for the next."""
    some = fleet(draining(1), ready(2), ready(3), desired=1)
    assert plan(some, RULES, NOW_S).drain == frozenset({name(3)})
