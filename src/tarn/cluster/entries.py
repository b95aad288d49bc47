"""The clusters that this machine knows: a directory with a ``ref.json`` for each.

The directories are in ``clusters/`` of `TARN_HOME`.
"""

import json
from pathlib import Path
from typing import Any

import attrs

from tarn import config
from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import ClusterSpec, Epoch
from tarn.errors import ConfigError, NotFoundError, TarnError
from tarn.follow import Trust
from tarn.interfaces import ClusterRef
from tarn.plain.master_files import SPEC, TLS_CA

__all__ = ["ClusterEntry", "choose", "entries", "kept_ref", "kept_spec", "reference", "trust"]


@attrs.frozen
class ClusterEntry:
    """One cluster as its ``ref.json`` describes it; it may have ended since."""

    name: str
    directory: Path
    runtime: str = ""
    url: str | None = None
    started_at: float = 0.0


def reference(directory: Path) -> ClusterEntry | None:
    """Return the ``ref.json`` in *directory*; None if it is missing or damaged."""
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


def kept_spec(directory: Path) -> ClusterSpec:
    """Return the spec with which the cluster in *directory* was started.

    Raises:
        NotFoundError: This machine did not start it.
    """
    path = directory / "spec.yaml"
    if not path.is_file():
        raise NotFoundError(
            f"this machine does not know a cluster '{directory.name}'",
            next_step="`tarn status` lists known clusters; -f names the spec of another one",
        )
    return config.load(path, environ={}).spec


def kept_ref(directory: Path) -> ClusterRef | None:
    """Return the reference in *directory*, with the fields that `Deployer.end` needs, or None."""
    plain = _plain(directory)
    if plain is None:
        return None
    try:
        epoch = Epoch.parse(str(plain.get("epoch")))
    except ValueError:
        epoch = Epoch(0, 0)  # damaged; the other fields may suffice
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
    """Return the clusters that were started and not ended, sorted by name."""
    root = environment.paths.home / "clusters"
    try:
        directories = sorted(path for path in root.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise TarnError(f"cannot be read ({error.strerror})", where=str(root)) from error
    return tuple(found for path in directories if (found := reference(path)) is not None)


def choose(environment: ClusterEnvironment, folder: Path = Path()) -> str:
    """Return the cluster of a command that names none.

    It is the one in *folder*'s ``tarn.yaml``, or else this user's only cluster.

    Raises:
        NotFoundError: There is no cluster.
        ConfigError: There are several clusters.
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


def trust(directory: Path, url: str) -> Trust:
    """Return the authorities to trust for the master at *url* of the cluster in *directory*.

    They are those that `tarn up` kept or the runtime fetched, or else ``api.tls.ca`` of the spec
    if that file is on this machine, or else the system's.
    """
    if not url.startswith("https:"):
        return Trust()
    kept = directory / TLS_CA
    if kept.is_file():
        return Trust(kept)
    try:
        tls = config.load(directory / SPEC, environ={}).spec.api.tls
    except (TarnError, OSError):  # without a readable spec the system's authorities decide
        return Trust()
    named = Path(tls.ca) if tls is not None and tls.ca else None
    return Trust(named if named is not None and named.is_file() else None)
