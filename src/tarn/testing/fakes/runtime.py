"""A runtime over a `FakeWorld`."""

from tarn.domain import Epoch, Fact, Recovered, Running, RuntimeWish
from tarn.interfaces import Clock, LogTail
from tarn.testing.fakes.clock import FakeClock
from tarn.testing.fakes.world import FakeWorld

__all__ = ["FakeRuntime"]


class FakeRuntime:
    """Whole-state facts of a world that outlives this runtime; no thread of its own.

    Args:
        world: What runs; pass the same one to a second runtime to test recovery.
        clock: Decides when late grants come.
        epoch: Of the master that this runtime works for.
    """

    def __init__(
        self,
        world: FakeWorld | None = None,
        clock: Clock | None = None,
        epoch: Epoch | None = None,
    ) -> None:
        self.world = world or FakeWorld()
        self.clock = clock or FakeClock()
        self.epoch = epoch or Epoch(1, 1)
        self.api_url = ""
        self.closed = False
        self.notes: tuple[str, ...] = ()
        """Said by `warnings`."""

    def start(self, api_url: str) -> Recovered:
        """Adopt what runs in the world."""
        self.world.check_epoch(self.epoch)
        self.api_url = api_url
        found = self.world.facts(self.epoch)
        return Recovered(tuple(fact for fact in found if isinstance(fact, Running)))

    def apply(self, wish: RuntimeWish) -> None:
        """Hand *wish* to the world."""
        self.world.apply_wish(wish, self.clock.now_s())

    def facts(self) -> tuple[Fact, ...]:
        """Return what the world says now."""
        self.world.settle(self.clock.now_s())
        return self.world.facts(self.epoch)

    def heard_s(self) -> float:
        """Return now, or the second since which the world is silent."""
        self.world.check_epoch(self.epoch)
        since_s = self.world.silent_since_s
        return self.clock.now_s() if since_s is None else since_s

    def warnings(self) -> tuple[str, ...]:
        """Return `notes`."""
        return self.notes

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the end of what the world wrote for it."""
        written = self.world.log(instance_id)
        return LogTail(written[max(0, len(written) - lines) :], truncated=len(written) > lines)

    def finish(self) -> None:
        """Empty the world."""
        self.world.clear()

    def close(self) -> None:
        """Leave the world as it is."""
        self.closed = True
