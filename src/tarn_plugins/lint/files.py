"""The model file, in every version that Triton will load."""

from collections.abc import Iterator, Sequence

from tarn.domain.lint import (
    Entry,
    Kind,
    LintFinding,
    Location,
    Model,
    Rename,
    Repository,
    is_version,
)
from tarn.triton.lint import BACKENDS, backend_of, file_of, nearest, served_versions
from tarn.triton.repository import is_junk

__all__ = ["check"]

_SAVED, _SAVED_AT = "saved_model.pb", "model.savedmodel"
"""TensorFlow's model is a directory; its content is often put where the directory should be."""


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what each version lacks."""
    for model in repository.models:
        backend = backend_of(model)
        wanted = file_of(model, backend) if backend else _known()
        if not wanted or not (model.is_readable or model.config is None):
            continue
        served = served_versions(model)
        if not backend:
            yield from _without_backend(model, served)
            continue
        lacking = [v for v in served if not any(_is_there(model, v, file) for file in wanted)]
        for version in lacking:
            yield _lack(model, version, wanted, backend)
        if lacking or not model.versions:
            yield from _at_top(model, wanted)


def _known() -> tuple[str, ...]:
    return tuple(file for backend in BACKENDS.values() if backend.guessed for file in backend.files)


def _without_backend(model: Model, served: Sequence[str]) -> Iterator[LintFinding]:
    """No configuration, and no file that tells the back end: look for what was meant."""
    for version in served:
        finding = _lack(model, version, _known(), "")
        if finding.code != "TARN-2318":
            yield finding
    if not model.versions:
        yield from _at_top(model, _known())


def _lack(model: Model, version: str, wanted: Sequence[str], backend: str) -> LintFinding:
    held = [entry for entry in model.at(version) if not is_junk(entry.name)]
    place = Location(f"{model.name}/{version}")
    consequence = ": Triton stays up and is never ready" if backend == "python" else ""
    if not held:
        want = f"Put {' or '.join(wanted)} into it" if backend else ""
        return LintFinding("TARN-2316", place, f"is empty{consequence}", next_step=want)
    for entry in held:
        if entry.kind is Kind.LOST and entry.name in wanted:
            found = f"has no {entry.name}, only a link without a target{consequence}"
            step = "Bring its target back, or put the file itself there."
            return LintFinding("TARN-2318", place, found, next_step=step)
    if any(entry.name == _SAVED for entry in held) and _SAVED_AT in wanted:
        found = f"has no {_SAVED_AT}: what should be in that directory lies next to it"
        step = (
            f"Make the directory {place.file}/{_SAVED_AT}, and move {_SAVED} and the rest into it."
        )
        return LintFinding("TARN-2318", place, found, next_step=step)
    nested = _nested(model, version, wanted)
    if nested:
        step = f"Move what is in {nested.path} to {place.file}."
        found = f"the model lies in it one level deeper, in {nested.name}/"
        return LintFinding("TARN-2317", place, found, next_step=step)
    for entry in held:
        if entry.name.lower() in {file.lower() for file in wanted}:
            return _case(entry, next(f for f in wanted if f.lower() == entry.name.lower()))
    names = ", ".join(sorted(entry.name for entry in held)[:5])
    guess = next((file for file in wanted if nearest(file, [e.name for e in held])), "")
    found = f"has no {' or '.join(wanted)}, only {names}{consequence}"
    step = f"Rename it to {guess}" if guess else "Add it"
    step += ", or name the file in default_model_filename." if backend else "."
    return LintFinding("TARN-2318", place, found, next_step=step)


def _is_there(model: Model, version: str, file: str) -> bool:
    entry = model.find(f"{version}/{file}")
    return entry is not None and entry.kind is not Kind.LOST


def _nested(model: Model, version: str, wanted: Sequence[str]) -> Entry | None:
    """Return a numbered directory, or one named as the model, that has what is wanted."""
    for entry in model.at(version):
        likely = is_version(entry.name) or entry.name == model.name
        inside = f"{version}/{entry.name}"
        if entry.is_directory and likely and any(model.find(f"{inside}/{f}") for f in wanted):
            return entry
    return None


def _case(entry: Entry, right: str) -> LintFinding:
    return LintFinding(
        "TARN-2319",
        Location(entry.path),
        f"'{entry.name}' differs from '{right}' in case",
        f"Expected {right}",
        "`tarn lint --fix` renames it.",
        Rename(entry.path, f"{entry.parent}/{right}"),
    )


def _at_top(model: Model, wanted: Sequence[str]) -> Iterator[LintFinding]:
    for entry in model.at():
        if entry.name in wanted and entry.kind in {Kind.FILE, Kind.DIRECTORY}:
            found = "lies next to the versions, where Triton does not look"
            step = f"Move it to {model.name}/1/{entry.name}."
            yield LintFinding("TARN-2313", Location(entry.path), found, next_step=step)
