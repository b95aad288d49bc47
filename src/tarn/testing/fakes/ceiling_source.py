"""A farm in memory."""

import copy
import threading
from collections.abc import Mapping

import attrs

from tarn.domain import Known, Sample, Unknown
from tarn.hookspecs import Factory
from tarn.interfaces import CeilingSource, MasterContext

__all__ = [
    "FakeCeilingSource",
    "FakeCeilingSourceSettings",
    "FakeFarm",
    "fake_ceiling_source_factory",
]


class FakeFarm:
    """What outlives a source: what was registered, and what is granted."""

    def __init__(self, granted: int = 4) -> None:
        self.lock = threading.Lock()
        self.granted = granted
        self.statuses: list[Mapping[str, object]] = []
        self.away = ""
        """Why the farm does not answer; empty while it does."""


class FakeCeilingSource:
    """Asks a `FakeFarm`; usable from any thread."""

    def __init__(self, farm: FakeFarm | None = None) -> None:
        self.farm = farm or FakeFarm()

    def register(self, status: Mapping[str, object]) -> None:
        """Keep a copy of *status*; a farm that is away hears nothing."""
        with self.farm.lock:
            if not self.farm.away:
                self.farm.statuses.append(copy.deepcopy(dict(status)))

    def ceiling(self) -> Sample[int]:
        """Return what is granted; Unknown before the first registration and while it is away."""
        with self.farm.lock:
            if self.farm.away:
                return Unknown(self.farm.away)
            if not self.farm.statuses:
                return Unknown("not registered yet")
            return Known(self.farm.granted)


@attrs.frozen
class FakeCeilingSourceSettings:
    """The fake source has nothing to set."""


def fake_ceiling_source_factory(
    farm: FakeFarm, kind: type[FakeCeilingSource] = FakeCeilingSource
) -> Factory[CeilingSource]:
    """Return a factory of sources that ask *farm*."""

    def create(_settings: FakeCeilingSourceSettings, _context: MasterContext) -> CeilingSource:
        return kind(farm)

    return Factory(FakeCeilingSourceSettings, create, "a farm in memory, for tests")
