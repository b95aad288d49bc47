"""Scaling policies with one fault each."""

import threading

import attrs

from tarn.domain import FleetView, Known, Unknown, Wish
from tarn.testing.fakes import FakePolicy


class Counts(FakePolicy):
    """Wants one more each time it is asked."""

    def wanted(self, fleet: FleetView) -> Wish:
        asked = self.__dict__["asked"] = self.__dict__.get("asked", 0) + 1
        wish = super().wanted(fleet)
        return Wish(None if wish.replicas is None else wish.replicas + asked, wish.reason)


class RemembersTheMost(FakePolicy):
    """Never wants fewer than it ever wanted."""

    def wanted(self, fleet: FleetView) -> Wish:
        wish = super().wanted(fleet)
        most = self.__dict__["most"] = max(self.__dict__.get("most", 0), wish.replicas or 0)
        return Wish(None if wish.replicas is None else most, wish.reason)


class TakesUnknownForZero(FakePolicy):
    """Shrinks a fleet that it cannot see."""

    def wanted(self, fleet: FleetView) -> Wish:
        wish = super().wanted(fleet)
        return Wish(wish.replicas or 0, wish.reason)


class RaisesOnUnknown(FakePolicy):
    """Reads the value of what has none."""

    def wanted(self, fleet: FleetView) -> Wish:
        sample = fleet.latest(self.settings.signal)
        return Wish(int(sample.value), "as read")  # type: ignore[union-attr]


class RaisesOnAnEmptyFleet(FakePolicy):
    """Looks at the first instance of none."""

    def wanted(self, fleet: FleetView) -> Wish:
        fleet.instances[0].id  # noqa: B018
        return super().wanted(fleet)


class WantsLessThanNothing(FakePolicy):
    """Wants one fewer than it should, even of none."""

    def wanted(self, fleet: FleetView) -> Wish:
        wish = super().wanted(fleet)
        return Wish(None if wish.replicas is None else wish.replicas - 1, wish.reason)


class WantsHalves(FakePolicy):
    """Wants a fraction of a replica."""

    def wanted(self, fleet: FleetView) -> Wish:
        sample = fleet.latest(self.settings.signal)
        if isinstance(sample, Unknown):
            return super().wanted(fleet)
        return Wish(sample.value / 2, "half of it")  # type: ignore[arg-type]


class WantsTrue(FakePolicy):
    """Takes a bool for a number."""

    def wanted(self, fleet: FleetView) -> Wish:
        wish = super().wanted(fleet)
        return Wish(None if wish.replicas is None else wish.replicas > 0, wish.reason)


class GivesNoReason(FakePolicy):
    """Wants without a word."""

    def wanted(self, fleet: FleetView) -> Wish:
        return attrs.evolve(super().wanted(fleet), reason=" ")


class CleansUpTheView(FakePolicy):
    """Throws away the samples that it has read."""

    def wanted(self, fleet: FleetView) -> Wish:
        wish = super().wanted(fleet)
        fleet.signals.clear()
        return wish


class AnswersANumber(FakePolicy):
    """Gives a number where a wish is asked for."""

    def wanted(self, fleet: FleetView) -> Wish:
        return super().wanted(fleet).replicas  # type: ignore[return-value]


class Thinks(FakePolicy):
    """Waits before it answers."""

    def wanted(self, fleet: FleetView) -> Wish:
        if fleet.now_s == 100.0:
            threading.Event().wait(0.01)
        return super().wanted(fleet)


class AsksTheClock(FakePolicy):
    """Decides by something that is not in the view."""

    moments = iter(range(10**9))

    def wanted(self, fleet: FleetView) -> Wish:
        sample = fleet.latest(self.settings.signal)
        if isinstance(sample, Known):
            return Wish(next(self.moments), "by the clock")
        return super().wanted(fleet)
