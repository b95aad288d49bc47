"""State stores with one fault each."""

import attrs

from tarn.domain import Epoch, SavedState
from tarn.errors import Superseded, TarnError
from tarn.testing.fakes import FakeStateStore

Loaded = tuple[SavedState | None, tuple[str, ...]]


class IgnoresEpochs(FakeStateStore):
    """Lets an old master save over its successor's state."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        self.shelf.highest = None
        super().save(state, epoch)


class FencesAfterTheAct(FakeStateStore):
    """Raises Superseded when the state is already overwritten."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        highest = self.shelf.highest
        self.shelf.highest = None
        super().save(state, epoch)
        if highest is not None and epoch < highest:
            self.shelf.highest = highest
            raise Superseded(str(epoch), str(highest))


class KeepsOne(FakeStateStore):
    """Has nothing to fall back to."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        super().save(state, epoch)
        del self.shelf.kept[:-1]


class SwallowsDamage(FakeStateStore):
    """Uses an older state without an alert."""

    def load(self) -> Loaded:
        return super().load()[0], ()


class FailsOnDamage(FakeStateStore):
    """Raises instead of using the older state."""

    def load(self) -> Loaded:
        state, alerts = super().load()
        if alerts:
            raise TarnError(alerts[0])
        return state, alerts


class GuessesNewerSchemas(FakeStateStore):
    """Reads what a later TARN wrote."""

    def load(self) -> Loaded:
        self.shelf.kept = [attrs.evolve(kept, schema=1) for kept in self.shelf.kept]
        return super().load()


class SkipsNewerSchemas(FakeStateStore):
    """Uses an older state when a later TARN wrote the newest one."""

    def load(self) -> Loaded:
        self.shelf.kept = [kept for kept in self.shelf.kept if kept.schema == 1]
        return super().load()


class LoadsTheOldest(FakeStateStore):
    """Gives the older of the two states."""

    def load(self) -> Loaded:
        state, alerts = super().load()
        return (self.shelf.kept[0].state if state else None), alerts


class ForgetsDrains(FakeStateStore):
    """Loses one field."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        super().save(attrs.evolve(state, drains=()), epoch)


class LosesUmlauts(FakeStateStore):
    """Writes ASCII."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        plain = state.halted.encode("ascii", "replace").decode()
        super().save(attrs.evolve(state, halted=plain), epoch)


class RoundsTimes(FakeStateStore):
    """Keeps whole seconds."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        super().save(attrs.evolve(state, retry_at=float(int(state.retry_at))), epoch)


class TakesNoneForZero(FakeStateStore):
    """Loses the difference between no manual size and the manual size 0."""

    def save(self, state: SavedState, epoch: Epoch) -> None:
        super().save(attrs.evolve(state, manual=state.manual or None), epoch)


class InventsAState(FakeStateStore):
    """Gives a state where nothing was saved."""

    def load(self) -> Loaded:
        state, alerts = super().load()
        return state or SavedState(1), alerts


class AlarmsAboutNothing(FakeStateStore):
    """Alerts when there is nothing to load."""

    def load(self) -> Loaded:
        state, alerts = super().load()
        return state, alerts or (() if state else ("there is no state",))


class KeepsForEverybody(FakeStateStore):
    """Lets an old master write over what its successor kept."""

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        self.shelf.things.pop(name, None)
        super().keep(name, data, epoch)


class KeepsOneThing(FakeStateStore):
    """Puts everything under one name."""

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        super().keep("it", data, epoch)

    def kept(self, name: str) -> bytes | None:
        return super().kept("it")


class KeepsTheFirst(FakeStateStore):
    """Never replaces what was kept."""

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        if super().kept(name) is None:
            super().keep(name, data, epoch)
