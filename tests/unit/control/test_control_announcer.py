"""Plugins are told on a thread of their own."""

import logging
import threading
from typing import Any

import attrs
import pytest
from desk import Listener

from tarn.control import journal
from tarn.control.journal import Announcer
from tarn.domain import Decision, Epoch, Instance, InstanceState
from tarn.domain.fleet import Fleet
from tarn.testing.wait import until

ASKED = Instance("w-0001", "hash")
STARTING = attrs.evolve(ASKED, state=InstanceState.STARTING)
EMPTY = Fleet("w", Epoch(1, 1), 0)


class Slow(Listener):
    """Hears nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.going = threading.Event()

    def event(self, event: Any) -> None:
        self.begun.set()
        self.going.wait(10.0)
        super().event(event)


def test_events_come_before_decisions_and_decisions_before_instances() -> None:
    """In the order in which they happened; what is unchanged is not told again."""
    listener = Listener()
    teller = Announcer(listener)  # type: ignore[arg-type]
    first = EMPTY.note(1.0, "TARN-1200", "w", "0 to 1").note(1.0, "TARN-1100", "w-0001", "")
    first = first.decided(Decision(1.0, 1, 1, "scale", "")).with_instances((ASKED,))
    teller.tell(EMPTY, first)
    second = first.with_instances((STARTING,))
    teller.tell(first, second)
    teller.tell(second, second.with_instances((attrs.evolve(STARTING, busy_s=1.0),)))
    over = second.with_instances((STARTING.become(InstanceState.FAILED, 2.0, "crash"),))
    teller.tell(second, over)
    teller.tell(over, over)
    teller.close()
    assert listener.heard == [
        ("event", "TARN-1200"),
        ("event", "TARN-1100"),
        ("decision", 1),
        ("instance", ("w-0001", None, "requested")),
        ("instance", ("w-0001", "requested", "starting")),
        ("instance", ("w-0001", "starting", "failed")),
    ]


def test_an_event_that_happens_again_is_told_again() -> None:
    """With its count."""
    listener = Listener()
    teller = Announcer(listener)  # type: ignore[arg-type]
    once = EMPTY.note(1.0, "TARN-1105", "w-0001", "crash")
    teller.tell(once, once.note(2.0, "TARN-1105", "w-0001", "crash"))
    teller.close()
    assert listener.heard == [("event", "TARN-1105")]


def test_a_slow_plugin_loses_announcements_and_they_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The queue is bounded, and telling never blocks."""
    monkeypatch.setattr(journal, "ANNOUNCEMENTS", 2)
    listener = Slow()
    teller = Announcer(listener)  # type: ignore[arg-type]
    teller.tell(EMPTY, EMPTY.note(1.0, "TARN-1000", "w", "first"))
    assert listener.begun.wait(5.0)
    many = EMPTY
    for number in range(5):
        many = many.note(1.0, f"TARN-{number}", "w", "")
    teller.tell(EMPTY, many)
    assert teller.lost == 3
    teller.close()  # full: the thread is left behind
    listener.going.set()
    until(lambda: len(listener.heard) == 3)
    assert [code for _, code in listener.heard] == ["TARN-1000", "TARN-0", "TARN-1"]
    teller.close()


def test_a_plugin_that_raises_costs_nobody_else_their_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged."""

    class Angry(Listener):
        def event(self, event: Any) -> None:
            raise ValueError("no")

    listener = Angry()
    teller = Announcer(listener)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR, logger="tarn.control.journal"):
        after = EMPTY.note(1.0, "TARN-1000", "w", "").decided(Decision(1.0, 1, 1, "scale", ""))
        teller.tell(EMPTY, after)
        teller.close()
    assert listener.heard == [("decision", 1)]
    assert "a plugin raised" in caplog.text
