"""What the runtime says, folded into the fleet."""

import attrs
import pytest
from given import (
    NOW_S,
    asked,
    codes,
    draining,
    ended,
    endpoint,
    fleet,
    name,
    one,
    ready,
    running,
    starting,
    told,
)

from tarn.domain import Instance, InstanceState, Pending, StubEnded


def test_the_same_word_twice_changes_nothing() -> None:
    """Whole states: the very same fleet comes back."""
    some = fleet(asked(1), ready(2))
    once = told(some, Pending(name(1), "hash", "no node is free"), running(2))
    assert one(once, 1).reason == "no node is free"
    assert told(once, Pending(name(1), "hash", "no node is free"), running(2)) is once


def test_a_process_makes_an_asked_instance_starting() -> None:
    """It has a place now, and the event says where."""
    some = told(fleet(asked(1)), running(1, ranks=2), now_s=NOW_S + 5.0)
    first = one(some, 1)
    assert (first.state, first.since_s) == (InstanceState.STARTING, NOW_S + 5.0)
    assert (first.endpoint, first.container_id, first.node, first.ranks) == (
        endpoint(1),
        "c1",
        "h",
        2,
    )
    assert some.events[0].message == "started on h as c1"


def test_a_container_that_changed_is_believed() -> None:
    """A runtime that granted twice names the one that runs."""
    some = told(fleet(ready(1)), attrs.evolve(running(1), container_id="other"))
    assert one(some, 1).container_id == "other"


def test_an_instance_that_was_only_asked_for_is_not_missed() -> None:
    """Nothing ran yet, so nothing is lost; it is asked for again."""
    some = fleet(asked(1))
    assert told(some, now_s=NOW_S + 60.0) is some


def test_an_instance_of_which_nothing_is_said_is_lost_after_ten_seconds() -> None:
    """A gap in the runtime's word is forgiven; the limit is sharp."""
    some = told(fleet(ready(1)))
    assert one(some, 1).missing_s == NOW_S
    assert told(some, now_s=NOW_S + 9.9) is some
    assert one(told(some, running(1), now_s=NOW_S + 9.9), 1).missing_s is None
    lost = told(some, now_s=NOW_S + 10.0)
    assert one(lost, 1).state is InstanceState.FAILED
    assert one(lost, 1).reason == "the runtime does not know it any more"


def test_an_ask_forgives_a_gap_too() -> None:
    """The runtime knows it again."""
    some = told(fleet(starting(1)))
    back = told(some, Pending(name(1), "hash"))
    assert one(back, 1).missing_s is None
    assert one(back, 1).state is InstanceState.STARTING


def test_a_running_stranger_is_taken_in_only_to_be_stopped() -> None:
    """It is condemned, and its number is never minted again."""
    some = told(fleet(ready(1)), running(1), running(7), running(9))
    assert [i.id for i in some.instances] == [name(1), name(7), name(9)]
    assert one(some, 7).state is InstanceState.DRAINING
    assert one(some, 7).condemned
    assert some.next_number == 10
    assert codes(some) == ["TARN-1108"] * 2


def test_an_end_that_nobody_knows_is_old_news() -> None:
    """The wish that names it no more is still on its way."""
    some = fleet(ready(1))
    assert told(some, running(1), ended(7)) is some


# Ends, and what is said of them.


@pytest.mark.parametrize(
    ("instance", "receipt"),
    [
        (
            attrs.evolve(asked(1), state=InstanceState.DRAINING, stop_posted=True),
            "cancelled before it started",
        ),
        (
            starting(1, state=InstanceState.DRAINING, stop_posted=True),
            "stopped before it was ready",
        ),
        (
            draining(1, stop_posted=True, condemned=True, reason="silent for 30 s"),
            "stopped after 3.0 s: silent for 30 s",
        ),
    ],
)
def test_a_stop_that_was_no_drain_has_a_receipt_of_its_own(
    instance: Instance, receipt: str
) -> None:
    """Nothing was to be finished there."""
    some = told(fleet(instance), ended(1), now_s=NOW_S + 3.0)
    assert one(some, 1).state is InstanceState.STOPPED
    assert one(some, 1).reason == receipt
    assert codes(some) == ["TARN-1104"]
    assert some.strikes == 0


def test_a_back_end_that_is_missing_is_not_tried_again() -> None:
    """No start of the same Triton brings one; any other reason may pass, so it is."""
    missing = "Invalid argument: unable to find backend library for backend 'onnxruntime', try …"
    lacking = (("net", "UNAVAILABLE", missing), ("echo", "READY", ""))
    some = told(fleet(starting(1, models=lacking)), ended(1))
    assert "another attempt cannot help" in some.halted
    other = (("net", "UNAVAILABLE", missing), ("echo", "UNAVAILABLE", "no memory"))
    assert not told(fleet(starting(1, models=other)), ended(1)).halted
    assert not told(fleet(starting(1)), ended(1)).halted


def test_an_end_that_was_asked_for_by_an_earlier_master_is_no_failure() -> None:
    """The runtime says that it was expected."""
    some = told(fleet(ready(1)), ended(1, expected=True))
    assert one(some, 1).state is InstanceState.STOPPED


def test_only_the_last_twenty_ends_are_kept() -> None:
    """Oldest first; the rest is in the log."""
    some = fleet(*(draining(n, stop_posted=True) for n in range(1, 26)))
    some = told(some, *(ended(n) for n in range(1, 26)))
    assert [i.number for i in some.ended] == list(range(6, 26))


def test_the_receipt_of_a_stop_that_did_not_end_well_says_so() -> None:
    """Triton ends with 0 only when nothing was in flight: anything else is never silent."""
    some = fleet(draining(1, stop_posted=True))
    said = told(some, ended(1, "requests on them are lost", expected=True, code=1)).ended[-1]
    assert said.state is InstanceState.STOPPED
    assert said.reason.endswith("; requests on them are lost")
    well = told(some, ended(1, "stopped as asked", expected=True, code=0)).ended[-1]
    assert "stopped as asked" not in well.reason


def test_a_stub_that_ended_is_noted_once_and_changes_nothing_else() -> None:
    """An event, and a mark that says which; it serves on until somebody decides otherwise."""
    ended_stub = StubEnded(name(1), "process m_0_0 (pid 7) was killed", 5.0)
    before = fleet(ready(1), ready(2))
    some = told(before, running(1), running(2), ended_stub)
    assert one(some, 1) == attrs.evolve(one(before, 1), stub_ended=ended_stub.said)
    assert one(some, 2) is one(before, 2)
    assert [(e.code, e.subject, e.message) for e in some.events] == [
        ("TARN-1124", name(1), ended_stub.said)
    ]
    assert told(some, ended_stub, running(2), running(1)) is some


def test_a_stub_that_is_back_takes_the_mark_away() -> None:
    """Only the word of a running instance says so: silence says nothing."""
    some = told(fleet(ready(1)), running(1), StubEnded(name(1), "m_0_0 was killed", 5.0))
    assert one(told(some), 1).stub_ended
    back = told(some, running(1))
    assert one(back, 1).stub_ended == ""
    assert codes(back) == ["TARN-1124", "TARN-1134"]


def test_a_stub_of_nobody_is_not_noted() -> None:
    """A fact of one that was never known, or that is over."""
    some = fleet(ready(1))
    assert told(some, running(1), StubEnded(name(9), "m_0_0 was killed", 5.0)) is some


def test_one_found_late_brings_the_word_of_its_stub() -> None:
    """It is taken over with what is known of it."""
    found = attrs.evolve(running(3), adopted=True)
    some = told(fleet(ready(1)), running(1), found, StubEnded(name(3), "m_0_0 was killed", 5.0))
    assert one(some, 3).stub_ended == "m_0_0 was killed"
    assert codes(some) == ["TARN-1004", "TARN-1124"]
