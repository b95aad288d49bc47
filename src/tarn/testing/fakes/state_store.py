"""A state store in memory."""

import threading

import attrs

from tarn.domain import Epoch, SavedState
from tarn.domain.state import SCHEMA
from tarn.errors import Superseded, TarnError

__all__ = ["FakeShelf", "FakeStateStore"]

_KEEP = 2


@attrs.frozen
class _Kept:
    epoch: Epoch
    state: SavedState
    schema: int = SCHEMA
    damaged: bool = False


class FakeShelf:
    """What outlives a store: the last two states, and the highest epoch that saved."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: list[_Kept] = []
        self.highest: Epoch | None = None
        self.things: dict[str, tuple[Epoch, bytes]] = {}
        """What is kept besides the states, and by whom."""
        self.saves = 0
        """How many saves there were."""
        self.broken = ""
        """While set, a save raises ``OSError`` with this text."""

    def damage_newest(self) -> None:
        """Make the newest sound state unreadable, as a bad disk would."""
        with self.lock:
            for index in reversed(range(len(self.kept))):
                if not self.kept[index].damaged:
                    self.kept[index] = attrs.evolve(self.kept[index], damaged=True)
                    return

    def make_newer(self) -> None:
        """Give the newest state the schema of a later TARN."""
        with self.lock:
            self.kept[-1] = attrs.evolve(self.kept[-1], schema=SCHEMA + 1)


class FakeStateStore:
    """Keeps states on a `FakeShelf`."""

    def __init__(self, shelf: FakeShelf | None = None) -> None:
        self.shelf = shelf or FakeShelf()

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        """Return the newest sound state, and a line for each damaged one."""
        alerts = []
        with self.shelf.lock:
            for kept in reversed(self.shelf.kept):
                if kept.damaged:
                    alerts.append(f"the state of epoch {kept.epoch} cannot be read")
                elif kept.schema > SCHEMA:
                    found = f"the state has schema {kept.schema}, this TARN knows {SCHEMA}"
                    raise TarnError(found, code="TARN-1007", next_step="Use the newer TARN.")
                else:
                    return kept.state, tuple(alerts)
        return None, tuple(alerts)

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Keep *state*, and the one before it."""
        with self.shelf.lock:
            if self.shelf.broken:
                raise OSError(self.shelf.broken)
            highest = self.shelf.highest
            if highest is not None and epoch < highest:
                raise Superseded(str(epoch), str(highest))
            self.shelf.highest = epoch
            self.shelf.kept = [*self.shelf.kept, _Kept(epoch, state)][-_KEEP:]
            self.shelf.saves += 1

    def keep(self, name: str, data: bytes, epoch: Epoch) -> None:
        """Keep *data* in place of what was kept as *name*."""
        with self.shelf.lock:
            if self.shelf.broken:
                raise OSError(self.shelf.broken)
            kept = self.shelf.things.get(name)
            if kept is not None and epoch < kept[0]:
                raise Superseded(str(epoch), str(kept[0]))
            self.shelf.things[name] = (epoch, data)

    def kept(self, name: str) -> bytes | None:
        """Return what was kept last as *name*."""
        with self.shelf.lock:
            kept = self.shelf.things.get(name)
        return None if kept is None else kept[1]
