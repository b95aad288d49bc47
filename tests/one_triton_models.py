"""The models of tests/one_triton: what they keep in mind is what one door must not lose."""

import shutil
from pathlib import Path

__all__ = ["IDLE_S", "MODELS", "repository"]

MODELS = Path(__file__).parent / "one_triton" / "models"
IDLE_S = 20.0
"""For so long a sequence may pause before Triton forgets it, where a test says nothing else."""
_IDLE = "max_sequence_idle_microseconds: {:.0f}"


def repository(root: Path, *names: str, idle_s: float = IDLE_S) -> Path:
    """Copy models into a new folder ``models`` below *root*; return the folder.

    Args:
        root: Where the folder is made.
        names: Of the models; none: all of them.
        idle_s: For so long a sequence may pause.
    """
    target = root / "models"
    for source in sorted(MODELS.iterdir()):
        if names and source.name not in names:
            continue
        shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        config = target / source.name / "config.pbtxt"
        text = config.read_text().replace(_IDLE.format(IDLE_S * 1e6), _IDLE.format(idle_s * 1e6))
        config.write_text(text)
    return target
