"""A discovery that publishes into memory."""

import threading

import attrs

from tarn.domain import Applied, DiscoveryView, Epoch, Member
from tarn.errors import DiscoveryError, Superseded
from tarn.hookspecs import Factory
from tarn.interfaces import Clock, Discovery, MasterContext
from tarn.testing.fakes.clock import FakeClock

__all__ = ["FakeDiscovery", "FakeDiscoverySettings", "FakeRegistry", "fake_discovery_factory"]


class FakeRegistry:
    """What outlives a discovery: the members that clients would find."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members: dict[str, Member] = {}
        self.epoch = Epoch(0, 0)
        """The highest that published."""


class FakeDiscovery:
    """Publishes into a `FakeRegistry`; usable from any thread.

    Attributes:
        views: Every view that was synced, in order, refused ones left out.
        late: While set, `applied` still says what it said before.
        broken: While set, `sync` raises ``DiscoveryError`` with this text.
    """

    def __init__(
        self, registry: FakeRegistry | None = None, clock: Clock | None = None, name: str = "fake"
    ) -> None:
        self.registry = registry or FakeRegistry()
        self.clock = clock or FakeClock()
        self.name = name
        self.views: list[DiscoveryView] = []
        self.late = False
        self.broken = ""
        self._done: Applied | None = None
        self._said: Applied | None = None

    def reach(self, within_s: float) -> None:
        """Answer at once, unless `broken`."""
        if self.broken:
            raise DiscoveryError(self.name, self.broken, retry_after_s=1.0)

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view* at once."""
        self.reach(0.0)
        with self.registry.lock:
            if view.epoch < self.registry.epoch:
                raise Superseded(str(view.epoch), str(self.registry.epoch))
            self.registry.epoch = view.epoch
            self.publish(view)
            self.views.append(view)
            self._done = Applied(self.name, view.epoch, view.revision, self.clock.at())

    def publish(self, view: DiscoveryView) -> None:
        """Change the members; called with the registry's lock held."""
        wanted = {member.instance_id: member for member in view.members}
        old = {} if view.complete else self.registry.members
        self.registry.members = {**old, **wanted}

    def applied(self) -> Applied | None:
        """Return the last acknowledged view, or an older one while `late`."""
        if not self.late:
            self._said = self._done
        return self._said

    def close(self, *, withdraw: bool) -> None:
        """Leave; with *withdraw* take every member out."""
        if withdraw:
            with self.registry.lock:
                self.registry.members = {}


@attrs.frozen
class FakeDiscoverySettings:
    """What can be set on the fake discovery."""

    name: str = "fake"


def fake_discovery_factory(
    registry: FakeRegistry, kind: type[FakeDiscovery] = FakeDiscovery
) -> Factory[Discovery]:
    """Return a factory of discoveries that publish into *registry*."""

    def create(settings: FakeDiscoverySettings, context: MasterContext) -> Discovery:
        return kind(registry, context.clock, settings.name)

    return Factory(FakeDiscoverySettings, create, "publishes into memory, for tests")
