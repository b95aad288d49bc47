"""The signals of plugins are read on the policy's thread; they are foreign code, too."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from desk import Policy

from tarn.control import mailbox
from tarn.control.policy import PolicyRunner
from tarn.domain import FleetView, Known, Limits, Sample, Unknown, Wish
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import Samples
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until

VIEW = FleetView(7.0, 1, Limits(0, 8), signals={"pending": ((7.0, Known(1.0)),)})
SAMPLES: Samples = {"fleet-0001": ((6.0, {"pending": Known(2.0)}),)}


class Recording(Policy):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[FleetView] = []

    def wanted(self, fleet: FleetView) -> Wish:
        self.shown.append(fleet)
        return super().wanted(fleet)


@contextmanager
def desk_with(signals: PluginSignals) -> Iterator[tuple[PolicyRunner, Recording, FakeClock]]:
    policy, clock = Recording(), FakeClock()
    desk = PolicyRunner(policy, clock, lambda: None, signals)
    yield desk, policy, clock
    policy.going.set()
    desk.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "RETRY_S", 0.01)


def test_the_policy_finds_them_beside_the_others() -> None:
    """Made of what each instance said, with the history so far."""

    def read(samples: Samples, window_s: float) -> Sample[float]:
        assert samples == SAMPLES
        return Known(window_s)

    with desk_with(PluginSignals({"mine": read}, 9.0)) as (desk, policy, _):
        for asked in (1, 2):
            desk.ask(VIEW, SAMPLES)
            until(lambda asked=asked: len(policy.shown) == asked)  # type: ignore[misc]
        newest = policy.shown[-1]
        assert newest.latest("mine") == Known(9.0)
        assert newest.signals["mine"] == desk.signals()["mine"] == ((7.0, Known(9.0)),) * 2
        assert newest.latest("pending") == Known(1.0)


def test_without_any_the_view_is_passed_on() -> None:
    """No copy, no thread's time."""
    with desk_with(PluginSignals()) as (desk, policy, _):
        desk.ask(VIEW)
        until(lambda: policy.shown)
        assert policy.shown[0] is VIEW
        assert desk.signals() == {}


def test_one_that_raises_is_unknown_and_the_policy_is_asked() -> None:
    """Its answer counts: the other signals are right."""

    def read(samples: Samples, window_s: float) -> Sample[float]:
        raise LookupError("no such GPU")

    with desk_with(PluginSignals({"mine": read})) as (desk, policy, _):
        policy.answer = Wish(3, "load")
        desk.ask(VIEW, SAMPLES)
        until(lambda: desk.answer() == Known(Wish(3, "load")))
        reason = "the signal mine raised LookupError: no such GPU"
        assert policy.shown[0].latest("mine") == Unknown(reason)


def test_one_that_hangs_is_named_and_can_be_revived() -> None:
    """It counts among the policy's five seconds; after that it is not the policy's fault."""
    going = threading.Event()

    def read(samples: Samples, window_s: float) -> Sample[float]:
        going.wait(10.0)
        return Known(1.0)

    with desk_with(PluginSignals({"mine": read})) as (desk, policy, clock):
        desk.ask(VIEW, SAMPLES)
        until(lambda: desk._asked == "the signal mine")
        clock.advance(6.0)
        hangs = "the signal mine has not answered for 6 s; `tarn resume` retries"
        assert desk.failure() == hangs
        assert desk.answer() == Unknown(hangs)
        abandoned = desk._worker
        desk.revive()
        going.set()
        assert abandoned.close(5.0)
        desk.ask(VIEW, SAMPLES)
        until(lambda: isinstance(desk.answer(), Known))
        assert len(desk.signals()["mine"]) == 1
        assert policy.shown[-1].latest("mine") == Known(1.0)
