"""``config.pbtxt`` as a file: there, text, and of Triton's schema."""

import re
from collections.abc import Iterator

from tarn.domain import Severity
from tarn.domain.lint import (
    CONFIG,
    Config,
    Edit,
    Entry,
    Kind,
    LintFinding,
    Location,
    Model,
    Rename,
    Repository,
)
from tarn.triton.lint import BACKENDS, backend_of

__all__ = ["check"]

_NEAR = re.compile(
    r"config\.(pbtxt|pbtext|pbtx|prototxt|textproto|txt|pb)(\.txt|\.bak)?", re.IGNORECASE
)


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield the flaws of each configuration, and where one is missing."""
    for model in repository.models:
        if model.config is not None:
            yield from _flaws(model.config)
        else:
            yield from _missing(model)
        yield from _in_versions(model)


def _flaws(config: Config) -> Iterator[LintFinding]:
    for flaw in config.flaws:
        place = Location(config.file, flaw.line, flaw.column)
        repair = Edit(config.file, 0, 1) if flaw.code == "TARN-2326" else None
        yield LintFinding(flaw.code, place, flaw.found, flaw.right, flaw.next_step, repair)


def _missing(model: Model) -> Iterator[LintFinding]:
    near = next((entry for entry in model.at() if _is_near(entry)), None)
    if near is not None:
        yield _misnamed(model, near)
        return
    if model.versions and not backend_of(model):
        found = f"has no {CONFIG}, and no file that tells Triton which back end to use"
        step = f'Write {model.name}/{CONFIG} with `backend: "…"`.'
        yield LintFinding("TARN-2328", Location(model.name), found, next_step=step)


def _is_near(entry: Entry) -> bool:
    return entry.kind is Kind.FILE and _NEAR.fullmatch(entry.name) is not None


def _misnamed(model: Model, near: Entry) -> LintFinding:
    only_case = near.name.lower() == CONFIG
    right = f"{model.name}/{CONFIG}"
    return LintFinding(
        "TARN-2327",
        Location(near.path),
        f"is not read: its name is not {CONFIG}",
        f"Expected {right}",
        "`tarn lint --fix` renames it." if only_case else "Rename it.",
        Rename(near.path, right) if only_case else None,
        _harm(model),
    )


def _harm(model: Model) -> Severity | None:
    """Say how bad it is: a model whose file tells its back end is served all the same."""
    known = BACKENDS.get(backend_of(model))
    return Severity.WARNING if known is not None and known.guessed else None


def _in_versions(model: Model) -> Iterator[LintFinding]:
    """Yield configurations that lie in a version, where nobody reads them."""
    for version in model.versions:
        entry = model.find(f"{version}/{CONFIG}")
        if entry is not None and model.config is None:
            found = "is not read: it lies in a version"
            right = f"Expected {model.name}/{CONFIG}"
            level = _harm(model)
            yield LintFinding(
                "TARN-2327", Location(entry.path), found, right, "Move it.", None, level
            )
