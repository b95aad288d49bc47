"""Discoveries with one fault each."""

import threading

import attrs

from tarn.domain import Applied, DiscoveryView
from tarn.errors import DiscoveryError
from tarn.testing.fakes import FakeDiscovery


class RemovesOnIncompleteViews(FakeDiscovery):
    """Takes an incomplete view for the whole truth."""

    def publish(self, view: DiscoveryView) -> None:
        super().publish(attrs.evolve(view, complete=True))


class NeverRemoves(FakeDiscovery):
    """Takes every view for an incomplete one."""

    def publish(self, view: DiscoveryView) -> None:
        super().publish(attrs.evolve(view, complete=False))


class IgnoresEmptyViews(FakeDiscovery):
    """Takes an empty complete view for a mistake."""

    def publish(self, view: DiscoveryView) -> None:
        if view.members:
            super().publish(view)


class IgnoresEpochs(FakeDiscovery):
    """Obeys an old master."""

    def sync(self, view: DiscoveryView) -> None:
        self.registry.epoch = min(self.registry.epoch, view.epoch)
        super().sync(view)


class FencesAfterTheAct(FakeDiscovery):
    """Refuses a lower epoch once it has published it."""

    def sync(self, view: DiscoveryView) -> None:
        if view.epoch < self.registry.epoch:
            self.publish(view)
        super().sync(view)


class GoesByRevisionAlone(FakeDiscovery):
    """Ignores a new master whose revisions begin anew."""

    def publish(self, view: DiscoveryView) -> None:
        last = self.registry.__dict__.get("last", -1)
        if view.revision >= last:
            self.registry.__dict__["last"] = view.revision
            super().publish(view)


class AcknowledgesBeforeTheAct(FakeDiscovery):
    """Acknowledges what it then fails to do."""

    def sync(self, view: DiscoveryView) -> None:
        self._done = Applied(self.name, view.epoch, view.revision, self.clock.at())
        super().sync(view)


class SwallowsFailures(FakeDiscovery):
    """Says nothing when the outside world is down."""

    def sync(self, view: DiscoveryView) -> None:
        try:
            super().sync(view)
        except DiscoveryError:
            return


class ReachesNothing(FakeDiscovery):
    """Finds everything reachable."""

    def reach(self, within_s: float) -> None:
        return None


class AcknowledgesNothing(FakeDiscovery):
    """Never says what it did."""

    def applied(self) -> Applied | None:
        return None


class AcknowledgesAtBirth(FakeDiscovery):
    """Acknowledges a view before there was one."""

    def applied(self) -> Applied | None:
        return super().applied() or Applied(self.name, self.registry.epoch, 0, 0.0)


class BlocksReaders(FakeDiscovery):
    """Waits for the outside world when asked what it did."""

    def applied(self) -> Applied | None:
        threading.Event().wait(0.8)
        return super().applied()


class WithdrawsAlways(FakeDiscovery):
    """Takes the traffic away when a master leaves."""

    def close(self, *, withdraw: bool) -> None:
        super().close(withdraw=True)


class WithdrawsNever(FakeDiscovery):
    """Leaves what `down` should take away."""

    def close(self, *, withdraw: bool) -> None:
        super().close(withdraw=False)


class ClosesOnce(FakeDiscovery):
    """Raises at the second close."""

    def close(self, *, withdraw: bool) -> None:
        if self.__dict__.get("closed"):
            raise DiscoveryError(self.name, "closed already")
        self.__dict__["closed"] = True
        super().close(withdraw=withdraw)


class ClosesSlowly(FakeDiscovery):
    """Takes longer to leave than it may."""

    def close(self, *, withdraw: bool) -> None:
        threading.Event().wait(0.8)
        super().close(withdraw=withdraw)


class KeepsOldPlaces(FakeDiscovery):
    """Does not notice that an id has a new endpoint."""

    def publish(self, view: DiscoveryView) -> None:
        old = self.registry.members
        kept = tuple(old.get(m.instance_id, m) for m in view.members)
        super().publish(attrs.evolve(view, members=kept))


class PublishesHttpOnly(FakeDiscovery):
    """Loses two of the three ports."""

    def publish(self, view: DiscoveryView) -> None:
        poor = tuple(
            attrs.evolve(m, endpoint=attrs.evolve(m.endpoint, grpc_port=0, metrics_port=0))
            for m in view.members
        )
        super().publish(attrs.evolve(view, members=poor))


class Toggles(FakeDiscovery):
    """Removes what it is told a second time."""

    def publish(self, view: DiscoveryView) -> None:
        again = view.members and self.views and self.views[-1] == view
        super().publish(attrs.evolve(view, members=()) if again else view)
