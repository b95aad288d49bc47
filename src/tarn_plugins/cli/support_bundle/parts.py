"""The parts of a support bundle: a text each, or the reason why it is missing.

The parts come from the master, from the files that this machine keeps of the cluster, from logs,
and from `tarn doctor` and `tarn lint`.
"""

import json
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import attrs

from tarn.domain import ClusterSpec
from tarn.domain.events import EVENTS_FILE
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.interfaces import ClusterInspection
from tarn.plain import redact, unstructure
from tarn.plain.master_files import SPEC, STAGED
from tarn_plugins.cli.support_bundle.known import NEVER_READ

__all__ = [
    "MOST",
    "MasterPages",
    "Offer",
    "Part",
    "examined_offers",
    "gathered",
    "kept_offers",
    "left_out",
    "of_files",
    "of_json",
    "of_runtime",
    "of_text",
    "shape",
    "tail",
]

# Logs in one bundle, the newest ones.
MOST = 40
# An estimate of the bytes in a line: a runtime is asked for a number of lines.
_LINE = 400
_JSON = {
    "instances": "each instance: state, reason, addresses, models",
    "events": "what happened",
    "decisions": "the last decisions about the size",
    "scaling": "why the size is what it is",
    "models": "each model on each instance",
    "alerts": "what is wrong now, and what to do",
    "history": "size, load and requests over time",
}
_TEXTS = {
    "metrics": ("metrics", "txt", "the metrics as Prometheus gets them"),
    "health": ("health", "txt", "health, and every fault"),
    "config": ("config", "txt", "the spec as the master has it, redacted by itself"),
}
# A master that failed in this way would do so again for each page, after a timeout each.
_SILENT = (UnreachableError, TimedOutError, NotAuthorizedError)
# Small files without secrets.
_NOTES = ("ref.json", "keeper.json", "epoch", STAGED)
_STATES = "state-*.json"
# What a master records over time, next to its state.
_HISTORIES = (f"{EVENTS_FILE}*", "history*.json*")
_DOCTOR = "what `tarn doctor` finds around the cluster"
_LINT = "what `tarn lint` finds in the model repository"


@attrs.frozen
class Part:
    """A file of the bundle, or one that is missing from it."""

    path: str
    """Path in the archive, below its only folder."""
    what: str
    """What it contains, for the manifest."""
    text: str = attrs.field(default="", repr=False)
    cut: str = ""
    """Which part of it was left out, in words; empty: it is complete."""
    left_out: str = ""
    """Why it is missing; empty: it is present."""


@attrs.frozen
class Offer:
    """One or more parts that can be gathered."""

    path: str
    what: str
    make: Callable[[], Iterator[Part] | Part]


def as_json(value: object) -> str:
    """Return *value* as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def of_json(path: str, what: str, value: object) -> Part:
    """Return a part with *value* as indented JSON."""
    return Part(path, what, as_json(value))


def of_text(path: str, what: str, text: str) -> Part:
    """Return a part with *text*, to which a missing newline is added."""
    return Part(path, what, text if text.endswith("\n") or not text else f"{text}\n")


def left_out(path: str, what: str, why: str) -> Part:
    """Return a part that only the manifest mentions."""
    return Part(path, what, left_out=why)


def gathered(offer: Offer) -> tuple[Part, ...]:
    """Return the parts of *offer*; an exception becomes a part that is left out."""
    try:
        made = offer.make()
        return (made,) if isinstance(made, Part) else tuple(made)
    except TarnError as error:
        return (left_out(offer.path, offer.what, f"[{error.code}] {error}"),)
    except Exception as error:  # noqa: BLE001 (a bundle is needed most when something is broken)
        why = f"gathering it raised {type(error).__name__}: {error}"
        return (left_out(offer.path, offer.what, why),)


def shape(value: object, depth: int = 6) -> object:
    """Return the structure of *value*: keys, types and lengths, without content."""
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        fields = all(isinstance(key, str) and key.isidentifier() for key in value)
        if fields:
            return {key: shape(item, depth - 1) for key, item in value.items()}
        return {f"{len(value)} keys": shape(next(iter(value.values())), depth - 1)}
    if isinstance(value, list | tuple):
        return [f"{len(value)} items", *(shape(item, depth - 1) for item in value[:1])]
    return "null" if value is None else type(value).__name__


def of_files(folder: Path, within: str, most_bytes: int) -> Iterator[Part]:
    """Yield the end of each log file below *folder*, the newest files first.

    Args:
        folder: The folder with the logs; links are not followed.
        within: Folder of the bundle.
        most_bytes: Limit for each file.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: (-path.stat().st_mtime, str(path)))
    for path in files[:MOST]:
        name = f"{within}/{path.relative_to(folder)}"
        text, cut = tail(path, most_bytes)
        part = of_text(name, "log, as it was written", text)
        yield Part(part.path, part.what, part.text, cut)
    if len(files) > MOST:
        why = f"there are {len(files)} logs; the newest {MOST} are here"
        yield left_out(f"{within}/…", "older logs", why)


def of_runtime(
    read: Callable[[str, int | None], Iterator[str]],
    instances: tuple[str, ...],
    within: str,
    most_bytes: int,
) -> Iterator[Part]:
    """Yield the log of the master, then that of each instance.

    Args:
        read: Returns the last lines of a log, given an instance's id (empty: the master) and the
            number of lines.
        instances: Ids, the most important ones first.
        within: Folder of the bundle.
        most_bytes: Limit for each log.
    """
    for one in ("", *instances[: MOST - 1]):
        name = f"{within}/{one or 'master'}.log"
        what = f"log of {one or 'the master'}"
        try:
            lines = deque(read(one, most_bytes // _LINE + 1))
        except TarnError as error:
            yield left_out(name, what, f"[{error.code}] {error}")
            continue
        text, dropped = _last(lines, most_bytes)
        part = of_text(name, what, text)
        yield Part(name, what, part.text, f"{dropped} lines before it" if dropped else "")


def tail(path: Path, most_bytes: int) -> tuple[str, str]:
    """Return whole lines from the last *most_bytes* of a file, and what was cut."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - most_bytes))
        data = file.read(most_bytes)
    if size <= most_bytes:
        return data.decode("utf-8", "replace"), ""
    _, _, whole = data.partition(b"\n")  # half a line may begin with half a secret
    cut = f"the last {len(whole)} of {size} bytes"
    return whole.decode("utf-8", "replace"), cut


def _last(lines: deque[str], most_bytes: int) -> tuple[str, int]:
    """Return as many of the last *lines* as fit, and the number of the others."""
    kept, size = deque[str](), 0
    for line in reversed(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > most_bytes:
            break
        kept.appendleft(line)
    return "\n".join(kept), len(lines) - len(kept)


class MasterPages:
    """The pages of one master; after the first that it does not answer, it is asked no more.

    Args:
        subject: The cluster, if there is one.
        why_not: Why the master cannot be asked; empty: it can.
    """

    def __init__(self, subject: ClusterInspection, why_not: str = "") -> None:
        self._subject = subject
        self._silent = why_not or ("" if subject.asks else "there is no cluster to ask")

    def offers(self) -> Iterator[Offer]:
        """Yield an offer for each page, or a single one if there is no cluster to ask."""
        if not self._subject.asks:
            what = "what the master says"
            yield Offer("cluster/…", what, lambda: left_out("cluster/…", what, self._silent))
            return
        for name, what in _JSON.items():
            path = f"cluster/{name}.json"
            yield Offer(path, what, partial(self._part, path, what, partial(self._json, name)))
        for name, (page, ending, what) in _TEXTS.items():
            path = f"cluster/{name}.{ending}"
            ask = partial(self._subject.text, f"/{page}")
            yield Offer(path, what, partial(self._part, path, what, ask))

    def _json(self, name: str) -> str:
        return as_json(self._subject.get(f"/api/v1/{name}"))

    def _part(self, path: str, what: str, ask: Callable[[], str]) -> Part:
        if self._silent:
            return left_out(path, what, self._silent)
        try:
            return of_text(path, what, ask())
        except _SILENT as error:
            self._silent = f"the master did not say: [{error.code}] {error}"
            return left_out(path, what, self._silent)
        except NotFoundError as error:
            return left_out(path, what, f"this master does not have that page: {error.found}")
        except TarnError as error:
            return left_out(path, what, f"[{error.code}] {error}")


def kept_offers(
    directory: Path | None, spec: ClusterSpec | None, most_bytes: int
) -> Iterator[Offer]:
    """Yield the parts that this machine has without asking the cluster.

    Args:
        directory: The cluster's directory; None: there is no cluster.
        spec: The spec, if it is kept here.
        most_bytes: Limit for each file that grows.
    """
    what = "the spec: what was asked for, secrets masked"
    yield Offer("config/spec.json", what, lambda: _spec(spec, what))
    if directory is not None:
        yield Offer(
            "kept/files.txt",
            "the files that are kept with the cluster: size, mode, time, name",
            lambda: _listing(directory),
        )
        yield Offer("kept/", "notes of the runtime", lambda: _notes(directory, most_bytes))
        yield Offer("kept/state-*", "the saved state's shape", lambda: _states(directory))


def _spec(spec: ClusterSpec | None, what: str) -> Part:
    if spec is None:
        raise NotFoundError("no spec of it is kept here, and there is no tarn.yaml")
    return of_json("config/spec.json", what, redact(unstructure(spec)))


def _listing(directory: Path) -> Part:
    if not directory.is_dir():
        raise NotFoundError("nothing of the cluster is kept on this machine")
    rows = []
    for path in sorted(directory.rglob("*")):
        about = path.lstat()
        at = datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="seconds")
        mode, name = stat.filemode(about.st_mode), path.relative_to(directory)
        rows.append(f"{mode} {about.st_size:>12} {at} {name}")
    return of_text("kept/files.txt", "files kept with the cluster", "\n".join(rows))


def _notes(directory: Path, most_bytes: int) -> Iterator[Part]:
    for name in _NOTES:
        path = directory / name
        if path.is_file():
            yield of_text(f"kept/{name}", "note of the runtime", tail(path, most_bytes)[0])
    for pattern in _HISTORIES:
        for path in sorted(directory.glob(pattern)):
            text, cut = tail(path, most_bytes)
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


def examined_offers(subject: ClusterInspection) -> Iterator[Offer]:
    """Yield the findings of `tarn doctor` and `tarn lint` for the cluster's spec."""
    yield Offer("doctor/doctor.json", _DOCTOR, lambda: _doctor(subject))
    yield Offer("doctor/lint.json", _LINT, lambda: _lint(subject))


def _doctor(subject: ClusterInspection) -> Iterator[Part]:
    if subject.spec is None:
        yield left_out("doctor/doctor.json", _DOCTOR, "without a spec nothing says what to examine")
        return
    rows, text = subject.doctor()
    yield of_json("doctor/doctor.json", _DOCTOR, rows)
    yield of_text("doctor/doctor.txt", "the same, for people", text)


def _lint(subject: ClusterInspection) -> Part:
    path = "doctor/lint.json"
    where = subject.spec.models.repository if subject.spec is not None else ""
    if not where:
        return left_out(path, _LINT, "no model repository is known")
    if "://" in where:
        why_not = "what a URI names would be copied for it: send the output of `tarn lint URI`"
        return left_out(path, _LINT, why_not)
    return of_json(path, _LINT, subject.lint())
