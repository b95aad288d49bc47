"""What this machine keeps of a cluster: its spec, its state's shape, its files by name."""

import json
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tarn import config
from tarn.cluster.bundle import logs
from tarn.cluster.bundle.known import NEVER_READ
from tarn.cluster.bundle.part import Offer, Part, left_out, of_json, of_text, shape
from tarn.domain import ClusterSpec
from tarn.domain.events import EVENTS_FILE
from tarn.domain.master_files import SPEC, STAGED
from tarn.errors import NotFoundError

__all__ = ["offers"]

_NOTES = ("ref.json", "keeper.json", "epoch", STAGED)
"""Small files that hold no secret."""
_STATES = "state-*.json"
_HISTORIES = (f"{EVENTS_FILE}*", "history*.json*")
"""What a master writes down over time, next to its state."""


def offers(directory: Path | None, spec: ClusterSpec | None, most_bytes: int) -> Iterator[Offer]:
    """Yield what can be told without anybody's answer.

    Args:
        directory: Of the cluster; None: no cluster is meant.
        spec: What was asked for, as far as this machine knows.
        most_bytes: Of each file that grows.
    """
    what = "the spec: what was asked for, secrets masked"
    yield Offer("config/spec.json", what, lambda: _spec(spec, what))
    if directory is not None:
        yield Offer(
            "kept/files.txt",
            "the files that are kept with the cluster: size, mode, time, name",
            lambda: of_text("kept/files.txt", "files kept with the cluster", _listing(directory)),
        )
        yield Offer("kept/", "notes of the runtime", lambda: _notes(directory, most_bytes))
        yield Offer("kept/state-*", "the saved state's shape", lambda: _states(directory))


def _spec(spec: ClusterSpec | None, what: str) -> Part:
    if spec is None:
        raise NotFoundError("no spec of it is kept here, and there is no tarn.yaml")
    return of_json("config/spec.json", what, config.redact(config.dump(spec)))


def _listing(directory: Path) -> str:
    if not directory.is_dir():
        raise NotFoundError("nothing of the cluster is kept on this machine")
    return "\n".join(_row(path, directory) for path in sorted(directory.rglob("*")))


def _row(path: Path, directory: Path) -> str:
    about = path.lstat()
    at = datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="seconds")
    mode, name = stat.filemode(about.st_mode), path.relative_to(directory)
    return f"{mode} {about.st_size:>12} {at} {name}"


def _notes(directory: Path, most_bytes: int) -> Iterator[Part]:
    for name in _NOTES:
        path = directory / name
        if path.is_file():
            yield of_text(f"kept/{name}", "note of the runtime", logs.tail(path, most_bytes)[0])
    for pattern in _HISTORIES:
        for path in sorted(directory.glob(pattern)):
            text, cut = logs.tail(path, most_bytes)
            yield Part(f"kept/{path.name}", "what the master wrote down", text, cut)
    for name in sorted({*NEVER_READ, SPEC}):
        if (directory / name).exists():
            why = "config/spec.json has it, redacted" if name == SPEC else "it is a secret"
            yield left_out(f"kept/{name}", "brought by `tarn up`", why)


def _states(directory: Path) -> Iterator[Part]:
    for path in sorted(directory.glob(_STATES)):
        name = f"kept/{path.stem}.shape.json"
        what = "what the saved state is made of: keys and types, no content"
        try:
            yield of_json(name, what, shape(json.loads(path.read_bytes())))
        except ValueError as error:
            yield left_out(name, what, f"it is not JSON: {error}")
