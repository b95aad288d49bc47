"""The small values of the core."""

import attrs
import pytest
from given import AT, EPOCH, NOW_S, asked, draining, endpoint, fleet, reading, ready

from tarn.domain import (
    CODES,
    Epoch,
    Event,
    FleetView,
    InstanceState,
    Known,
    Limits,
    Reading,
    Unknown,
)
from tarn.domain.events import aggregate
from tarn.domain.instance import ALIVE, TRANSITIONS, Instance


def test_an_epoch_is_written_and_read_as_a_pair() -> None:
    """Incarnation first; numbers, not text, decide the order."""
    assert str(Epoch(1700000000000, 3)) == "1700000000000-3"
    assert Epoch.parse("12-3") == Epoch(12, 3)
    assert Epoch(2, 10) > Epoch(2, 9) > Epoch(1, 99)
    for bad in ("", "12", "a-b", "-1"):
        with pytest.raises(ValueError):
            Epoch.parse(bad)


def test_an_endpoint_is_shown_by_service() -> None:
    """The form of ``/instances`` and of znodes."""
    here = endpoint(1)
    assert (here.http, here.grpc, here.metrics) == ("h:3", "h:4", "h:5")


def test_limits_move_a_wish_into_the_bounds() -> None:
    """A ceiling below min wins."""
    assert [Limits(2, 4).clamp(n) for n in (1, 2, 4, 5)] == [2, 2, 4, 4]
    assert Limits(2, 4, ceiling=3).clamp(4) == 3
    assert Limits(2, 4, ceiling=1).clamp(4) == 1
    assert Limits(2, 4, ceiling=9).clamp(9) == 4


def test_an_illegal_step_of_a_life_is_an_error() -> None:
    """Every pair of states is either in the table or refused."""
    for state in InstanceState:
        some = attrs.evolve(ready(1), state=state)
        for to in InstanceState:
            if to is state or to in TRANSITIONS[state]:
                assert some.become(to, NOW_S).state is to
            else:
                with pytest.raises(ValueError, match=f"{state} cannot become {to}"):
                    some.become(to, NOW_S)
    assert ready(1).become(InstanceState.READY, NOW_S + 9) == ready(1)
    assert {s for s in InstanceState if TRANSITIONS[s]} == ALIVE


def test_the_quick_evolve_is_evolve() -> None:
    """It only costs less."""
    changes = {"busy": Known(3.0), "gone": True, "adopted": True, "id": "w-0002"}
    assert ready(1).but(**changes) == attrs.evolve(ready(1), **changes)


def test_the_number_of_an_id() -> None:
    """Only the last part counts; a foreign id has none."""
    for text, number in (("w-0012", 12), ("a-2-0003", 3), ("w-12345", 12345), ("x", 0), ("1-x", 0)):
        assert Instance(text, "hash").number == number


def test_quiet_is_known_to_be_idle() -> None:
    """Unknown is not zero."""
    assert ready(1, busy=Known(0.0)).quiet
    assert not ready(1, busy=Known(0.1)).quiet
    assert not ready(1, busy=Unknown("late")).quiet


def test_only_an_unsuspicious_ready_instance_is_in_the_view() -> None:
    """With an address."""
    assert ready(1).in_view
    for other in (ready(1, suspect="silent"), ready(1, endpoint=None), draining(1), asked(1)):
        assert not other.in_view


@pytest.mark.parametrize(
    ("pending", "executing", "busy"),
    [
        (Known(2.0, 0.5), Known(1.0, 0.2), Known(3.0, 0.5)),
        (Unknown("a"), Known(1.0), Unknown("a")),
        (Known(1.0), Unknown("b"), Unknown("b")),
        (None, Known(1.0), Unknown("not scraped yet")),
    ],
)
def test_busy_is_queued_and_executing_and_unknown_unless_both_are_known(
    pending: object, executing: object, busy: object
) -> None:
    """As old as the older part."""
    metrics = {"executing": executing} | ({} if pending is None else {"pending": pending})
    assert attrs.evolve(reading(1), metrics=metrics).busy == busy
    assert Reading("w-0001", NOW_S).busy == Unknown("not scraped yet")


def test_the_newest_sample_of_a_signal() -> None:
    """Unknown when there never was one."""
    view = FleetView(
        NOW_S, 1, Limits(0, 8), signals={"load": ((1.0, Known(1.0)), (2.0, Known(2.0)))}
    )
    assert view.latest("load") == Known(2.0)
    assert view.latest("other") == Unknown("no sample of other yet")


def test_equal_events_become_one_with_a_count() -> None:
    """Within ten minutes; the merged one is the newest."""
    first = Event("TARN-1105", "w-0001", "crash", AT, AT)
    other = Event("TARN-1105", "w-0002", "crash", AT, AT)
    again = Event("TARN-1105", "w-0001", "crash", AT + 600.0, AT + 600.0)
    merged = aggregate((first, other), again)
    assert merged == (other, Event("TARN-1105", "w-0001", "crash", AT, AT + 600.0, 2))
    late = Event("TARN-1105", "w-0001", "crash", AT + 600.1, AT + 600.1)
    assert aggregate((first, other), late) == (first, other, late)


def test_only_the_last_events_are_kept() -> None:
    """The oldest are dropped; the totals go on."""
    some = fleet()
    for number in range(510):
        some = some.note(AT, "TARN-1100", f"w-{number:04d}", "asked for")
    assert len(some.events) == 500
    assert some.events[0].subject == "w-0010"
    assert some.event_totals == {"TARN-1100": 510}
    assert some.notes(AT, []) is some


def test_every_code_stands_under_its_own_name() -> None:
    """One table, no double."""
    assert all(code == entry.code for code, entry in CODES.items())
    assert fleet().epoch == EPOCH
