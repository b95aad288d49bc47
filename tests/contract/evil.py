"""The siblings of example 02 that nobody should install: one plugin, a fault for each manner."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import FleetView, Wish
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy

__all__ = ["install"]

POINTS = "[tarn]\nevil = contract_evil\n"
METADATA = "Metadata-Version: 2.1\nName: contract-evil\nVersion: 1.0\n"


def install(folder: Path) -> Path:
    """Install this very file into *folder*, a directory for ``PYTHONPATH``, as pip would."""
    about = folder / "contract_evil-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(POINTS)
    (folder / "contract_evil.py").write_bytes(Path(__file__).read_bytes())
    return folder


@attrs.frozen
class Settings:
    """How it misbehaves, and until when."""

    manner: str
    """``raises``, ``hangs``, or whatever it should answer."""
    until: Path
    """Once this file exists it wants two replicas, as a good policy might."""


@attrs.frozen
class Evil:
    """Breaks every rule: it reads files, and worse."""

    settings: Settings

    def wanted(self, _fleet: FleetView) -> Wish:
        """Misbehave, or want two."""
        if self.settings.until.exists():
            return Wish(2, "it has come to its senses")
        if self.settings.manner == "raises":
            raise RuntimeError("division by cucumber")
        if self.settings.manner == "hangs":
            threading.Event().wait()
        answer: Any = self.settings.manner
        return answer


def create(settings: Settings, _context: MasterContext) -> ScalingPolicy:
    return Evil(settings)


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    return {"evil": Factory(Settings, create, "misbehaves")}
