"""A plugin of a stranger's, laid into a folder as an installation would."""

from pathlib import Path


def install(folder: Path, name: str, source: str) -> str:
    """Lay the plugin *name* with its entry point into *folder*; return it as a PYTHONPATH."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}_plugin.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tarn]\n{name} = {name}_plugin\n")
    return str(folder)
