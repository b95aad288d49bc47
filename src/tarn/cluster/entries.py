"""Which clusters this user has: the directories below ``clusters/`` that hold a ``ref.json``."""

import json
from pathlib import Path
from typing import Any

import attrs

from tarn import config
from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import Epoch
from tarn.errors import ConfigError, NotFoundError, TarnError
from tarn.interfaces import ClusterRef

__all__ = ["ClusterEntry", "choose", "entries", "kept_ref", "reference"]


@attrs.frozen
class ClusterEntry:
    """One cluster as its ``ref.json`` tells of it; whether it still runs is another question."""

    name: str
    directory: Path
    runtime: str = ""
    url: str | None = None
    started_at: float = 0.0


def reference(directory: Path) -> ClusterEntry | None:
    """Return what ``ref.json`` in *directory* says; None when there is none, or it is half."""
    plain = _plain(directory)
    if plain is None:
        return None
    return ClusterEntry(
        directory.name,
        directory,
        str(plain.get("runtime") or ""),
        plain.get("url"),
        float(plain.get("started_at") or 0.0),
    )


def kept_ref(directory: Path) -> ClusterRef | None:
    """Return the reference in *directory* as far as `Deployer.end` needs it; None as `reference`.

    A part that cannot be read is left out: what it named cannot be meant any more.
    """
    plain = _plain(directory)
    if plain is None:
        return None
    try:
        epoch = Epoch.parse(str(plain.get("epoch")))
    except ValueError:
        epoch = Epoch(0, 0)
    return ClusterRef(
        directory.name,
        str(plain.get("runtime") or ""),
        epoch,
        application_id=plain.get("application_id"),
        pid=plain.get("pid"),
        pid_started=plain.get("pid_started"),
    )


def _plain(directory: Path) -> dict[str, Any] | None:
    try:
        plain: Any = json.loads((directory / "ref.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise TarnError(
            f"cannot be read ({error.strerror})", where=str(directory / "ref.json")
        ) from error
    return plain if isinstance(plain, dict) else None


def entries(environment: ClusterEnvironment) -> tuple[ClusterEntry, ...]:
    """Return the clusters that were started and not ended, by name."""
    root = environment.paths.home / "clusters"
    try:
        directories = sorted(path for path in root.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise TarnError(f"cannot be read ({error.strerror})", where=str(root)) from error
    return tuple(found for path in directories if (found := reference(path)) is not None)


def choose(environment: ClusterEnvironment, folder: Path = Path()) -> str:
    """Return the cluster that is meant when none is named.

    The name in *folder*'s ``tarn.yaml``; else the only one that this user has.

    Raises:
        NotFoundError: There is none.
        ConfigError: There are several.
    """
    if (folder / "tarn.yaml").is_file():
        loaded = config.load(folder / "tarn.yaml", environ=environment.environ)
        return loaded.spec.name
    names = [one.name for one in entries(environment)]
    if not names:
        raise NotFoundError(
            "no cluster runs, and there is no tarn.yaml here",
            next_step="`tarn up -f FILE` starts one",
        )
    if len(names) > 1:
        raise ConfigError(
            f"several clusters run: {', '.join(names)}",
            right="Name one of them.",
            next_step=f"For example: -c {names[0]}",
        )
    return names[0]
