"""Version directories, and the policy that chooses among them."""

import re
from collections.abc import Iterator

from tarn.domain import Severity
from tarn.domain.lint import (
    HIGHEST_VERSION,
    LintFinding,
    Location,
    Model,
    Repository,
    is_version,
    printable,
)
from tarn.triton.lint import served_versions

__all__ = ["check"]

_LIKE = re.compile(r"[-+]?\d.*|v\d+([._-]\d+)*|latest|version.*", re.IGNORECASE)
"""What people write for a version, and Triton does not take for one."""
_RIGHT = "Expected a whole number without a leading zero: 1, 2, …"
_READ = re.compile(r"[-+]?\d+")
"""What Triton reads of a name for the version's number, unless it begins with a zero."""


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what is wrong with the versions of each model."""
    for model in repository.models:
        yield from _directories(model)
        if model.is_readable:
            yield from _policy(model)
        if model.is_readable and not model.versions and not _wrong(model):
            found = "has no version directory"
            step = f"Make {model.name}/1; an ensemble's may be empty."
            yield LintFinding("TARN-2311", Location(model.name), found, next_step=step)


def _wrong(model: Model) -> bool:
    """Say whether another finding tells why there is none: a wrong name, a model in itself."""
    names = [entry.name for entry in model.at() if entry.is_directory]
    return model.name in names or any(map(_LIKE.fullmatch, names))


def _directories(model: Model) -> Iterator[LintFinding]:
    for entry in model.at():
        if is_version(entry.name):
            if not entry.is_directory:
                found = "is not a directory, although it has the name of a version"
                yield LintFinding("TARN-2312", Location(entry.path), found, _RIGHT)
        elif entry.is_directory and _LIKE.fullmatch(entry.name):
            guess = entry.name.lstrip("vV0") or "1"
            guess = guess if is_version(guess) and not model.find(guess) else ""
            step = f"Rename it to {model.name}/{guess}." if guess else "Rename it, or remove it."
            found = f"'{printable(entry.name)}' is not the name of a version"
            if entry.name.isascii() and entry.name.isdecimal() and entry.name[0] != "0":
                found += f": Triton ends where one is above {HIGHEST_VERSION}"
            level = _level(model, entry.name)
            yield LintFinding("TARN-2312", Location(entry.path), found, _RIGHT, step, None, level)


def _level(model: Model, name: str) -> Severity:
    """Say how bad it is: Triton reads ``2-old`` as version 2, and then does not find it."""
    read = None if name.startswith("0") or not name.isascii() else _READ.match(name)
    if read is None:
        return Severity.WARNING if model.versions else Severity.ALERT
    number = str(int(read[0]))
    if int(number) > HIGHEST_VERSION:
        return Severity.ALERT
    numbers = tuple(sorted({*model.versions, number}, key=int))
    misled = number not in model.versions and number in served_versions(model, numbers)
    return Severity.ALERT if misled else Severity.WARNING


def _policy(model: Model) -> Iterator[LintFinding]:
    root = model.root
    policy = root.first("version_policy")
    if model.config is None or policy is None:
        return
    specific = policy.first("specific")
    named = specific.all("versions") if specific else ()
    for node in named:
        if model.versions and node.value not in model.versions:
            found = f"version_policy names version {node.value}, which does not exist"
            step = f"Existing versions: {', '.join(model.versions)}."
            level = None if served_versions(model) else Severity.ALERT
            place = model.config.place(node)
            yield LintFinding("TARN-2314", place, found, "", step, None, level)
    latest = policy.first("latest")
    wrong = latest if latest and latest.number("num_versions", default=1) < 1 else None
    if wrong is None and specific is not None and not named:
        wrong = specific
    if wrong is not None:
        found = "version_policy chooses no version at all"
        step = "Name a version, or leave the policy out: then the highest is served."
        yield LintFinding("TARN-2315", model.config.place(wrong), found, next_step=step)
    elif not served_versions(model) and model.versions and not named:
        found = "version_policy chooses none of the existing versions"
        yield LintFinding("TARN-2315", model.config.place(policy), found)
