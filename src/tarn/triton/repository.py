"""The layout of a model repository: ``<repository>/<model>/<version>/<file>``.

`listing` reads a directory. Everything else works on the listing alone, so that the checks are the
same for a local directory, a bucket and a zip archive.
"""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from tarn.interfaces import Finding

__all__ = [
    "MOST_ENTRIES",
    "examine",
    "is_junk",
    "is_model_name",
    "listing",
    "misnamed",
    "models",
    "nearest",
]

MOST_ENTRIES = 200_000
"""The limit of a listing: a larger directory is not a repository (``/`` given by mistake)."""

_JUNK = frozenset({"__pycache__", "lost+found", "_SUCCESS", "_temporary"})
_JUNK_SUFFIXES = (".crc", ".pyc", ".tmp", "~", "._COPYING_")

# Every reader of a request's path reads these names in the same way, even if it decodes the path.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
# Triton's ``/v2/models/stats`` is about all models.
_TAKEN = "stats"

Parts = tuple[str, ...]


def is_junk(name: str) -> bool:
    """Return whether a file or directory of this name comes from a tool, not from a model.

    These are hidden names (``.git``, ``.ipynb_checkpoints``, Hadoop's ``.model.crc``), caches and
    leftovers (Spark's ``_SUCCESS``, ``model.onnx._COPYING_`` of an unfinished `put`).
    """
    return name.startswith(".") or name in _JUNK or name.endswith(_JUNK_SUFFIXES)


def listing(path: Path, most: int = MOST_ENTRIES) -> tuple[str, ...]:
    """Return the files below *path* as relative POSIX paths, sorted, without junk.

    A directory without files has a trailing slash. Links are followed, but no directory is entered
    twice on one way down, so that circles end. There are at most *most* files.

    Raises:
        OSError: A directory cannot be read.
    """
    found: list[str] = []
    for entry in _walk(path):
        found.append(entry)
        if len(found) >= most:
            break
    return tuple(sorted(found))


def models(files: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the models in a listing, sorted.

    A model is a top-level directory with ``config.pbtxt`` or a numeric version directory; other
    entries at the top are ignored, as by Triton.
    """
    return _models(_clean(files))


def examine(
    files: Iterable[str] | None, serve: Sequence[str] = (), where: str = ""
) -> tuple[Finding, ...]:
    """Return what would keep instances from serving the repository.

    Args:
        files: The listing, relative to the repository; None if the repository does not exist.
        serve: Models that it must have (``models.serve``).
        where: The path or URI for messages, without credentials.
    """
    if files is None:
        return (_absent(where),)
    paths = _clean(files)
    names = _models(paths)
    if names:
        missing = [_missing(model, names, where) for model in serve if model not in names]
        wrong = [misnamed(model, where) for model in names if not is_model_name(model)]
        return (*missing, *wrong)
    return (_misplaced(paths, where) or _empty(where, _some(sorted({p[0] for p in paths}))),)


def _walk(top: Path) -> Iterator[str]:
    pending: list[tuple[Path, str, frozenset[tuple[int, int]]]] = [(top, "", frozenset())]
    while pending:
        directory, prefix, above = pending.pop()
        stat = directory.stat()
        identity = (stat.st_dev, stat.st_ino)
        if identity in above:
            continue
        with os.scandir(directory) as scan:
            entries = [entry for entry in scan if not is_junk(entry.name)]
        if prefix and not entries:
            yield prefix
        for entry in entries:
            if entry.is_dir():
                pending.append(
                    (directory / entry.name, f"{prefix}{entry.name}/", above | {identity})
                )
            else:
                yield prefix + entry.name


def _clean(files: Iterable[str]) -> list[Parts]:
    return [parts for parts in map(_parts, files) if not any(map(is_junk, parts))]


def _parts(file: str) -> Parts:
    """Split a path; a directory has an empty last part, which a file has not."""
    parts = PurePosixPath(file).parts
    return (*parts, "") if file.endswith("/") else parts


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _models(paths: Sequence[Parts]) -> tuple[str, ...]:
    return tuple(sorted({parts[0] for parts in paths if _in_model(parts)}))


def _in_model(parts: Parts) -> bool:
    """Return whether *parts* are a configuration or a version of a model ``parts[0]``."""
    match parts:
        case (_, "config.pbtxt"):
            return True
        # In a numeric directory it would be the content of a version, such as ``1/2/weights``.
        case (model, version, _, *_):
            return _is_version(version) and not _is_version(model)
    return False


def _misplaced(paths: Sequence[Parts], where: str) -> Finding | None:
    """Return a finding if *where*, without models, is one level too deep or too high."""
    versions = [parts for parts in paths if len(parts) > 1 and _is_version(parts[0])]
    configuration: Parts = ("config.pbtxt",)
    seen = [configuration] if configuration in paths else sorted(versions)
    if seen:
        file = "/".join(seen[0][:2])
        return _one_level_off(where, file, "a model directory", "its parent directory")
    inner = {parts[0]: "/".join(parts) for parts in sorted(paths) if _in_model(parts[1:])}
    if not inner:
        return None
    first = min(inner)
    meant = _join(where, first) if len(inner) == 1 else f"one of its folders ({_some(list(inner))})"
    return _one_level_off(where, inner[first], "a folder of repositories", meant)


def nearest(path: Path) -> str:
    """Return an existing path with almost the spelling of *path*; empty if there is none."""
    missing = next((one for one in (path, *path.parents) if one.parent.exists()), path)
    try:
        names = [one.name for one in missing.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(missing.name, names, n=1)
    meant = missing.parent.joinpath(*near, *path.parts[len(missing.parts) :])
    return str(meant) if near and meant.exists() else ""


def _absent(where: str) -> Finding:
    near = "" if "://" in where or not where.startswith("/") else nearest(Path(where))
    right = "Correct models.repository; a relative path starts at the folder of tarn.yaml."
    return Finding(
        code="TARN-2200",
        where=where,
        found="does not exist",
        next_step=f"Did you mean '{near}'? {right}" if near else right,
    )


def _one_level_off(where: str, file: str, what: str, meant: str) -> Finding:
    return Finding(
        code="TARN-2202",
        where=where,
        found=f"{_join(where, file)} -> looks like {what} was given as the repository",
        next_step=f"Set models.repository to {meant}: it must hold <model>/<version>/<file>.",
    )


def _empty(where: str, instead: str = "") -> Finding:
    return Finding(
        code="TARN-2201",
        where=where,
        found=f"holds no model, only {instead}" if instead else "is empty",
        next_step="Put models in it: <repository>/<model>/<version>/<file>.",
    )


def _missing(model: str, names: Sequence[str], where: str) -> Finding:
    near = difflib.get_close_matches(model, names, n=1)
    return Finding(
        code="TARN-2203",
        where=where,
        found=f"models.serve names '{model}', which is not in the repository ({_some(names)})",
        next_step=f"Did you mean '{near[0]}'?" if near else "Correct the name, or add the model.",
    )


def is_model_name(model: str) -> bool:
    """Return whether *model* is a valid name, which is safe in paths that rights depend on."""
    return _NAME.fullmatch(model) is not None and model != _TAKEN


def misnamed(model: str, where: str) -> Finding:
    """Return the finding about an invalid name of a model."""
    return Finding(
        code="TARN-3335",
        where=_join(where, model),
        found="cannot be a model's name: /v2/models/stats is a path of Triton's API"
        if model == _TAKEN
        else "is not a valid model name: use at most 255 letters, digits, '_', '-' and '.', not "
        "beginning with '.'",
        next_step="Rename the folder, and `name` in its config.pbtxt where it has one.",
    )


def _some(names: Sequence[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _join(where: str, file: str) -> str:
    return f"{where.rstrip('/')}/{file}" if where else file
