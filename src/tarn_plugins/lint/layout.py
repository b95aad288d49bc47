"""What lies at the top of a repository."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tarn.domain import Severity
from tarn.domain.lint import Entry, Kind, LintFinding, Location, Model, Repository, is_version
from tarn.triton.repository import examine, is_junk

__all__ = ["check"]

_MODEL_FILES = (".onnx", ".pt", ".plan", ".graphdef", ".savedmodel", ".engine", ".pbtxt")
_STRAY_PYTHON = "model.py"


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what is wrong with the directory as a whole."""
    yield from _whole(repository)
    for entry in repository.entries:
        if entry.kind in _ODD:
            yield _odd(entry)
        elif "/" not in entry.path:
            yield from _top(entry)
        elif entry.is_directory and entry.name.startswith("."):
            yield _junk_inside(entry)
    for model in repository.models:
        yield from _model(model)


def _whole(repository: Repository) -> Iterator[LintFinding]:
    if not repository.complete:
        found = f"holds more than {len(repository.entries):,} files; only these were looked at"
        yield LintFinding("TARN-2305", Location(""), found, next_step="Name the repository itself.")
    if any(_nested(model) for model in repository.models):
        return
    for finding in examine(_listing(repository)):
        if finding.code == "TARN-3335":
            continue  # the rule of names says it of each model
        if finding.code != "TARN-2201" or not repository.models:
            yield LintFinding(
                finding.code, Location(""), finding.found, next_step=finding.next_step
            )


def _listing(repository: Repository) -> Iterator[str]:
    """Yield the listing that `examine` wants: directories only where they are empty."""
    holders = {entry.parent for entry in repository.entries}
    for entry in repository.entries:
        if not entry.is_directory:
            yield entry.path
        elif entry.path not in holders:
            yield f"{entry.path}/"


_ODD: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.LOST: "TARN-2302",
        Kind.CIRCLE: "TARN-2303",
        Kind.UNREADABLE: "TARN-2301",
    }
)


def _odd(entry: Entry) -> LintFinding:
    steps = {
        Kind.LOST: "Remove the link, or bring its target back.",
        Kind.CIRCLE: "Remove the link.",
        Kind.UNREADABLE: "Give the user of tritonserver the right to read it: chmod -R a+rX.",
    }
    said = {Kind.UNREADABLE: "cannot be read by this user"}.get(entry.kind, entry.kind.value)
    if entry.kind is Kind.LOST:
        said = f"is {said}{_harm(entry)}"
    elif entry.kind is Kind.CIRCLE:
        said = f"is {said}"
    # Triton follows a circle no further than it needs, and looks at links two levels deep.
    harmless = {Kind.LOST: 1, Kind.CIRCLE: 0}.get(entry.kind)
    deep = harmless is not None and entry.path.count("/") > harmless
    level = Severity.WARNING if deep else None
    step = steps[entry.kind]
    return LintFinding(_ODD[entry.kind], Location(entry.path), said, "", step, None, level)


def _harm(entry: Entry) -> str:
    """Say what a lost link costs (seen on Triton 2.51)."""
    match entry.path.count("/"):
        case 0:
            return ": with it Triton loads no model at all"
        case 1:
            return ": with it Triton does not load the model"
    return ""


def _top(entry: Entry) -> Iterator[LintFinding]:
    if entry.is_directory and is_junk(entry.name):
        found = "is not a model, but Triton would take it for one"
        yield LintFinding("TARN-2304", Location(entry.path), found, next_step="Remove or move it.")
    elif entry.kind is Kind.FILE and (
        entry.name.endswith(_MODEL_FILES) or entry.name == _STRAY_PYTHON
    ):
        found = "lies at the top of the repository, where Triton does not look"
        right = "Expected <model>/config.pbtxt or <model>/<version>/<file>"
        yield LintFinding("TARN-2306", Location(entry.path), found, right, "Move or remove it.")


def _junk_inside(entry: Entry) -> LintFinding:
    found = "was left by a tool; Triton ignores it, and TARN does not copy it"
    return LintFinding("TARN-2307", Location(entry.path), found, next_step="Nothing, or remove it.")


def _model(model: Model) -> Iterator[LintFinding]:
    if _nested(model):
        found = f"holds another '{model.name}', which has the configuration or the versions"
        step = f"Move what is in {model.name}/{model.name} one level up."
        yield LintFinding("TARN-2310", Location(model.name), found, next_step=step)
    elif not model.entries:
        yield LintFinding("TARN-2308", Location(model.name), "is empty")
    elif model.config is None and not model.versions and not _is_near(model):
        held = ", ".join(sorted(entry.name for entry in model.at())[:5])
        found = f"has neither a configuration nor a version, only {held}"
        yield LintFinding("TARN-2309", Location(model.name), found)


def _nested(model: Model) -> bool:
    """Say whether the model lies in itself: ``ocr/ocr/1``."""
    inner = model.at(model.name)
    holds = any(each.name == "config.pbtxt" or is_version(each.name) for each in inner)
    return holds and not model.versions


def _is_near(model: Model) -> bool:
    """Say whether another rule knows what was meant: a name of a configuration or a version."""
    names = [entry.name.lower() for entry in model.at()]
    meant = ("config", "model.")
    return any(name.startswith(meant) or any(c.isdigit() for c in name) for name in names)
