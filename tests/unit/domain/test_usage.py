"""Usage: what instances and models did and held, summed over slots of fixed number."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.counters import CounterSet
from tarn.domain.usage import (
    INSTANCE,
    MODEL,
    MOST_NAMES,
    OTHER,
    FleetUsage,
    ResourceUse,
    UsageSample,
    UsageSlots,
)

AT = 1_764_201_600.0
A, ECHO = (INSTANCE, "a-0001"), (MODEL, "echo")


def held(at: float, requests: float | None, **changes: object) -> UsageSample:
    """A moment of one instance with two GPUs that has ``echo`` ready."""
    said = None if requests is None else CounterSet(requests, 0.0, requests * 1e6)
    plain: dict[str, object] = {"instances": {"a-0001": said}, "ready": {"echo": 1}}
    return UsageSample(at, 2, **{**plain, **changes})  # type: ignore[arg-type]


def test_requests_and_seconds_go_to_the_instance_and_to_the_model() -> None:
    """A model's counters begin at 0 with each master, an instance's where they are first seen."""
    usage = FleetUsage().looked(held(AT, 5.0))
    usage = usage.looked(held(AT + 10, 8.0, models={"echo": CounterSet(3.0, 1.0, 2e6)}))
    spent = usage.total(AT, AT + 10).spent
    assert spent[A] == ResourceUse(3.0, 0.0, 3.0, 10.0, 20.0)
    assert spent[ECHO] == ResourceUse(3.0, 1.0, 2.0, 10.0, 20.0)


def test_what_an_instance_did_while_no_master_looked_is_counted_and_a_models_time_is_not() -> None:
    """It ran all the while; which models were ready nobody knows."""
    usage = FleetUsage().looked(held(AT, 5.0)).looked(held(AT + 300, 105.0))
    spent = usage.total(AT, AT + 300).spent
    assert spent[A] == ResourceUse(100.0, 0.0, 100.0, 300.0, 600.0)
    assert spent[ECHO] == ResourceUse()


def test_an_instance_that_was_not_there_before_has_no_time_yet() -> None:
    """And one whose counters are not known has time alone."""
    usage = FleetUsage().looked(held(AT, None, instances={}))
    usage = usage.looked(held(AT + 1, None)).looked(held(AT + 3, None))
    assert usage.total(AT, AT + 3).spent[A] == ResourceUse(instance_s=2.0, gpu_s=4.0)


def test_all_that_an_instance_counts_which_this_master_started_is_new() -> None:
    """Also what it counted before the first look that knows it; of an adopted one nobody knows."""
    usage = FleetUsage().looked(held(AT, 7.0, fresh=frozenset({"a-0001"})))
    assert usage.total(AT, AT).spent[A].requests == 7.0
    assert FleetUsage().looked(held(AT, 7.0)).total(AT, AT).spent[A].requests == 0.0


def test_a_span_has_whole_slots_and_says_where_it_begins() -> None:
    """The finest slots that reach so far."""
    usage = FleetUsage()
    for minute in range(60):
        usage = usage.looked(held(AT + 60 * minute, float(minute)))
    part = usage.total(AT + 3540 - 1200, AT + 3540)
    assert (part.begun, part.slot_s) == (AT + 1800, 600)
    assert part.spent[A].requests == 30.0
    whole = usage.total(AT - 7 * 86400, AT + 3540)
    assert (whole.begun, whole.slot_s, whole.spent[A].requests) == (AT, 3600, 59.0)
    assert FleetUsage().total(AT - 60, AT).begun == AT


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 400)), max_size=40))
def test_slots_and_names_are_few_and_nothing_is_lost_among_them(
    looks: list[tuple[float, int]],
) -> None:
    """Whatever has no room of its own is in the other ones' sum."""
    slots, at, given_ = UsageSlots(600, 10_000), AT, 0.0
    small = UsageSlots(600, 3)
    for step_s, name in looks:
        at += step_s
        more = {(INSTANCE, f"a-{name + n:04d}"): ResourceUse(1.0) for n in range(60)}
        given_ += 60
        slots, small = slots.plus(at, more), small.plus(at, more)
    total = sum(one.requests for slot in slots.slots.values() for one in slot.values())
    assert math.isclose(total, given_)
    assert len(small.slots) <= 3
    for slot in slots.slots.values():
        assert len([key for key in slot if key != (INSTANCE, OTHER)]) <= MOST_NAMES
