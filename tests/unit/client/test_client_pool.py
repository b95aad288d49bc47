"""What one client knows of the instances."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tarn.client.pool import LONGEST_BACK_OFF_S, InstancePool
from tarn.client.targets import ServiceAddress
from tarn.testing.fakes import FakeClock

A, B, C = (ServiceAddress("127.0.0.1", 8000 + n, f"llama-{n:04}") for n in range(3))


class Line:
    """A connection that remembers whether it was closed."""

    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


def made(*targets):
    clock = FakeClock()
    fleet = InstancePool(clock, random.Random(1).random)
    fleet.set_members(targets)
    return fleet, clock


def test_an_idle_connection_to_a_withdrawn_instance_is_closed_at_once():
    """Triton waits at its exit for open connections, so closing them makes drains fast."""
    fleet, _ = made(A)
    slot, line = fleet.take(), Line()
    fleet.give_back(slot, line, answered=True)
    assert not line.closed
    fleet.set_members([B])
    assert line.closed


def test_a_request_in_flight_ends_normally_and_then_its_connection():
    """Withdrawn means no new request; the connection is not kept for one."""
    fleet, _ = made(A)
    slot, line = fleet.take(), Line()
    fleet.set_members([B])
    assert slot.gone
    assert not line.closed
    fleet.give_back(slot, line, answered=True)
    assert line.closed
    assert fleet.take().target == B


def test_the_same_address_with_another_instance_is_another_one():
    """A port that is used again must not get requests over the connections of its predecessor."""
    fleet, _ = made(A)
    slot, line = fleet.take(), Line()
    fleet.give_back(slot, line, answered=True)
    fleet.set_members([ServiceAddress(A.host, A.port, "llama-0009")])
    assert line.closed
    assert fleet.take() is not slot


def test_an_ejected_instance_is_left_alone_until_its_back_off_passed():
    """One refused connection is enough; then one request tries it out, and the others wait."""
    fleet, clock = made(A, B)
    dead = fleet.take()
    fleet.give_back(dead, None, answered=False)
    fleet.eject(dead)
    assert dead not in {fleet.take() for _ in range(20)}
    clock.advance(0.25)
    assert [fleet.take() for _ in range(20)].count(dead) == 1


def test_an_instance_that_answers_again_is_as_good_as_any():
    """Its back-off is forgotten."""
    fleet, clock = made(A, B)
    dead = fleet.take()
    fleet.give_back(dead, None, answered=False)
    fleet.eject(dead)
    clock.advance(0.25)
    while (slot := fleet.take()) is not dead:
        pass
    fleet.give_back(slot, None, answered=True)
    assert dead in {fleet.take() for _ in range(20)}


def test_the_back_off_doubles_and_has_an_end():
    """0.2 s, 0.4 s, … 5 s."""
    fleet, clock = made(A)
    slot = fleet.take()
    ends = []
    for _ in range(8):
        fleet.eject(slot)
        ends.append(round(slot.until_s - clock.now_s(), 3))
        clock.advance(ends[-1])
    assert ends == [0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_BACK_OFF_S, LONGEST_BACK_OFF_S, 5.0]


def test_what_was_in_flight_when_an_instance_died_ejects_it_once():
    """Ten requests that fail together are one failure; the one that tries it out is another."""
    fleet, clock = made(A, B)
    flying = [slot for slot in (fleet.take() for _ in range(20)) if slot.target == A]
    for slot in flying:
        fleet.eject(slot)
        fleet.cut(slot)
    assert (flying[0].failures, round(flying[0].until_s - clock.now_s(), 3)) == (1, 0.2)
    clock.advance(0.25)
    while (slot := fleet.take()) is not flying[0]:
        pass
    fleet.eject(slot)
    assert (slot.failures, round(slot.until_s - clock.now_s(), 3)) == (2, 0.4)


def test_a_new_view_ends_every_ejection():
    """Who is in a newer view was seen alive by the master."""
    fleet, _ = made(A)
    fleet.eject(fleet.take())
    assert fleet.take() is None
    fleet.set_members([A, B])
    assert {fleet.take().target for _ in range(4)} == {A, B}


def test_an_incomplete_view_removes_nothing():
    """A new master that has not yet probed what it recovered only adds."""
    fleet, _ = made(A, B)
    fleet.add([C])
    assert [slot.target for slot in fleet.slots] == [A, B, C]


def test_who_failed_a_request_gets_it_again_only_when_no_other_is_left():
    """Elsewhere first."""
    fleet, _ = made(A, B)
    first = fleet.take()
    second = fleet.take({first})
    assert second is not first
    assert fleet.take({first, second}) is not None


steps = st.lists(
    st.one_of(
        st.just(("take",)),
        st.tuples(st.just("end"), st.booleans(), st.booleans()),
        st.just(("eject",)),
        st.tuples(st.just("set_members"), st.sets(st.sampled_from([A, B, C]))),
        st.tuples(st.just("pass"), st.floats(0, 6)),
    ),
    max_size=60,
)


@given(steps)
def test_nothing_new_goes_to_who_is_not_in_the_view(steps):  # noqa: C901 (the kinds of steps)
    """In flight is what was taken and not given back; no open connection leads out of the view."""
    fleet, clock = made(A, B)
    flying, lines, view = [], [], {A, B}
    for step in steps:
        match step:
            case ("take",):
                slot = fleet.take()
                if slot is not None:
                    assert slot.target in view
                    assert not slot.gone
                    assert slot.failures == 0 or slot.until_s > clock.now_s()
                    flying.append(slot)
            case ("end", answered, keeps) if flying:
                line = Line()
                slot = flying.pop()
                lines.append((slot, line))
                fleet.give_back(slot, line if answered and keeps else None, answered=answered)
                line.closed = line.closed or not (answered and keeps)
            case ("eject",) if flying:
                fleet.eject(flying[-1])
            case ("set_members", targets):
                view = targets
                fleet.set_members(targets)
            case ("pass", seconds):
                clock.advance(seconds)
        assert all(slot.target in view for slot, line in lines if not line.closed)
        for slot in fleet.slots:
            assert slot.in_flight == flying.count(slot)
        assert fleet._ejected == sum(slot.failures > 0 for slot in fleet.slots)


def test_a_second_try_takes_nobodys_turn():
    """Else one that fails each time would have its turn at each request."""
    fleet, _ = made(A, B)
    first = fleet.take()
    fleet.give_back(first, None, answered=False)
    second = fleet.take({first})
    fleet.give_back(second, None, answered=True)
    assert fleet.take() is second
