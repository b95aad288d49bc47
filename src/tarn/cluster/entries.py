"""Which clusters this user has: the directories below ``clusters/`` that hold a ``ref.json``."""

import json
from pathlib import Path
from typing import Any

import attrs

from tarn import config
from tarn.cluster.surroundings import Surroundings
from tarn.errors import ConfigError, NotFoundError, TarnError

__all__ = ["Entry", "choose", "entries", "reference"]


@attrs.frozen
class Entry:
    """One cluster as its ``ref.json`` tells of it; whether it still runs is another question."""

    name: str
    directory: Path
    runtime: str = ""
    url: str | None = None
    started_at: float = 0.0


def reference(directory: Path) -> Entry | None:
    """Return what ``ref.json`` in *directory* says; None when there is none, or it is half."""
    try:
        plain: Any = json.loads((directory / "ref.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise TarnError(
            f"cannot be read ({error.strerror})", where=str(directory / "ref.json")
        ) from error
    if not isinstance(plain, dict):
        return None
    return Entry(
        directory.name,
        directory,
        str(plain.get("runtime") or ""),
        plain.get("url"),
        float(plain.get("started_at") or 0.0),
    )


def entries(surroundings: Surroundings) -> tuple[Entry, ...]:
    """Return the clusters that were started and not ended, by name."""
    root = surroundings.paths.home / "clusters"
    try:
        directories = sorted(path for path in root.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise TarnError(f"cannot be read ({error.strerror})", where=str(root)) from error
    return tuple(found for path in directories if (found := reference(path)) is not None)


def choose(surroundings: Surroundings, folder: Path = Path()) -> str:
    """Return the cluster that is meant when none is named.

    The name in *folder*'s ``tarn.yaml``; else the only one that this user has.

    Raises:
        NotFoundError: There is none.
        ConfigError: There are several.
    """
    if (folder / "tarn.yaml").is_file():
        loaded = config.load(folder / "tarn.yaml", environ=surroundings.environ)
        return loaded.spec.name
    names = [one.name for one in entries(surroundings)]
    if not names:
        raise NotFoundError(
            "no cluster runs, and there is no tarn.yaml here",
            next_step="`tarn up -f FILE` starts one",
        )
    if len(names) > 1:
        raise ConfigError(
            f"several clusters run: {', '.join(names)}",
            right="One must be named.",
            next_step=f"For example: -c {names[0]}",
        )
    return names[0]
