"""Rules for the files of a repository: its top, the names, the versions, each model's file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from tarn.domain import Severity
from tarn.interfaces.lint import (
    HIGHEST_VERSION,
    Config,
    Edit,
    Entry,
    Kind,
    LintFinding,
    Location,
    Model,
    Node,
    Rename,
    Repository,
    is_version,
    printable,
)
from tarn.triton.lint import BACKENDS, backend_of, file_of, nearest, served_versions
from tarn.triton.repository import examine, is_junk, is_model_name, misnamed

__all__ = ["check_files", "check_layout", "check_names", "check_versions"]

# endings of files that Triton does not find at the top of a repository
_MODEL_FILES = (".onnx", ".pt", ".plan", ".graphdef", ".savedmodel", ".engine", ".pbtxt")


def check_layout(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems of the directory, its links and its models' directories."""
    yield from _whole(repository)
    for entry in repository.entries:
        if entry.kind in _ODD:
            yield _odd(entry)
        elif "/" not in entry.path:
            yield from _top(entry)
        elif entry.is_directory and entry.name.startswith("."):
            found = "was left by a tool; Triton ignores it, and TARN does not copy it"
            step = "Nothing, or remove it."
            yield LintFinding("TARN-2307", Location(entry.path), found, next_step=step)
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
            continue  # `check_names` reports each model
        if finding.code != "TARN-2201" or not repository.models:
            yield LintFinding(
                finding.code, Location(""), finding.found, next_step=finding.next_step
            )


def _listing(repository: Repository) -> Iterator[str]:
    """Yield paths as `examine` takes them: of directories, only the empty ones."""
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
        harm = {  # seen on Triton 2.51
            0: ": with it Triton loads no model at all",
            1: ": with it Triton does not load the model",
        }
        said = f"is {said}{harm.get(entry.path.count('/'), '')}"
    elif entry.kind is Kind.CIRCLE:
        said = f"is {said}"
    # Triton follows a circle no further than it needs, and looks at links two levels deep.
    harmless = {Kind.LOST: 1, Kind.CIRCLE: 0}.get(entry.kind)
    deep = harmless is not None and entry.path.count("/") > harmless
    level = Severity.WARNING if deep else None
    step = steps[entry.kind]
    return LintFinding(_ODD[entry.kind], Location(entry.path), said, "", step, None, level)


def _top(entry: Entry) -> Iterator[LintFinding]:
    if entry.is_directory and is_junk(entry.name):
        found = "is not a model, but Triton would take it for one"
        yield LintFinding("TARN-2304", Location(entry.path), found, next_step="Remove or move it.")
    elif entry.kind is Kind.FILE and (
        entry.name.endswith(_MODEL_FILES) or entry.name == "model.py"
    ):
        found = "lies at the top of the repository, where Triton does not look"
        right = "Expected <model>/config.pbtxt or <model>/<version>/<file>"
        yield LintFinding("TARN-2306", Location(entry.path), found, right, "Move or remove it.")


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
    """Return whether the model is one level too deep: ``ocr/ocr/1``."""
    inner = model.at(model.name)
    holds = any(each.name == "config.pbtxt" or is_version(each.name) for each in inner)
    return holds and not model.versions


def _is_near(model: Model) -> bool:
    """Return whether another rule explains the problem: a misnamed configuration or version."""
    names = [entry.name.lower() for entry in model.at()]
    meant = ("config", "model.")
    return any(name.startswith(meant) or any(c.isdigit() for c in name) for name in names)


LONGEST = 128
"""Characters of a model's name; longer ones are cut in shared memory, metrics and logs."""
_ODD_FILE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def check_names(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems of names of models and files."""
    for model in repository.models:
        yield from _directory(model.name)
        is_model = model.config is not None or bool(model.versions)
        if is_model and not is_model_name(model.name) and not _ODD_FILE.search(model.name):
            wrong = misnamed(model.name, "")
            place = Location(model.name)
            yield LintFinding(wrong.code, place, wrong.found, next_step=wrong.next_step)
        for entry in model.entries:
            if _ODD_FILE.search(entry.name):
                found = "has a name with control characters, or with bytes that are not UTF-8 text"
                yield LintFinding("TARN-2331", Location(entry.path), found, next_step="Rename it.")
    for model, config, root in repository.readable():
        yield from _written(model.name, config, root)


def _directory(name: str) -> Iterator[LintFinding]:
    place = Location(name)
    step = "Rename the directory; clients then ask for the new name."
    if _ODD_FILE.search(name):
        found = "has a name with control characters, or with bytes that are not UTF-8 text"
        yield LintFinding("TARN-2331", place, found, next_step=step)
    elif len(name) > LONGEST:
        found = f"has a name of {len(name)} characters"
        yield LintFinding("TARN-2332", place, found, f"Expected at most {LONGEST}", step)


def _written(name: str, config: Config, root: Node) -> Iterator[LintFinding]:
    written = root.first("name")
    if written is None or written.value in {name, ""}:
        return
    yield LintFinding(
        "TARN-2330",
        config.place(written),
        f"name = '{printable(written.value or '')}', and the directory is '{printable(name)}'",
        "Expected the same name, or none: Triton takes the directory's",
        "`tarn lint --fix` removes the line.",
        Edit(config.file, *_span(config.text, written)),
    )


def _span(text: str, node: Node) -> tuple[int, int]:
    """Return the whole line if it holds only the field, else the field and its separator."""
    begin = text.rfind("\n", 0, node.start) + 1
    newline = text.find("\n", node.end)
    end = len(text) if newline < 0 else newline + 1
    alone = not text[begin : node.start].strip("\ufeff \t")
    if alone and not text[node.end : end].strip(" \t\r\n,;"):
        return begin + text[begin:].startswith("\ufeff"), end
    rest = re.compile(r"[ \t]*[,;]?[ \t]*").match(text, node.end)
    return node.start, rest.end() if rest else node.end


# names that people give to versions; Triton takes only whole numbers
_LIKE = re.compile(r"[-+]?\d.*|v\d+([._-]\d+)*|latest|version.*", re.IGNORECASE)
_RIGHT = "Expected a whole number without a leading zero: 1, 2, …"
# the part of a name that Triton reads as the version's number, unless the name begins with a zero
_READ = re.compile(r"[-+]?\d+")


def check_versions(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems of each model's versions."""
    for model in repository.models:
        yield from _directories(model)
        if model.is_readable:
            yield from _policy(model)
        if model.is_readable and not model.versions and not _wrong(model):
            found = "has no version directory"
            step = f"Make {model.name}/1; an ensemble's may be empty."
            yield LintFinding("TARN-2311", Location(model.name), found, next_step=step)


def _wrong(model: Model) -> bool:
    """Return whether another finding explains the missing version."""
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
    """Return the severity of a wrong version name: an alert if Triton stops serving."""
    # Triton reads `2-old` as version 2, and then does not find that directory.
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


# TensorFlow's model is a directory, whose content is often put where the directory should be
_SAVED, _SAVED_AT = "saved_model.pb", "model.savedmodel"


def check_files(repository: Repository) -> Iterator[LintFinding]:
    """Yield the versions without a file that the back end needs."""
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
    """Yield files that seem to be meant for a back end, in a model that names none."""
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
    nested = _nested_file(model, version, wanted)
    if nested:
        step = f"Move what is in {nested.path} to {place.file}."
        found = f"the model lies in it one level deeper, in {nested.name}/"
        return LintFinding("TARN-2317", place, found, next_step=step)
    lower = {file.lower(): file for file in reversed(wanted)}
    for entry in held:
        if right := lower.get(entry.name.lower()):
            return LintFinding(
                "TARN-2319",
                Location(entry.path),
                f"'{entry.name}' differs from '{right}' in case",
                f"Expected {right}",
                "`tarn lint --fix` renames it.",
                Rename(entry.path, f"{entry.parent}/{right}"),
            )
    names = ", ".join(sorted(entry.name for entry in held)[:5])
    guess = next((file for file in wanted if nearest(file, [e.name for e in held])), "")
    found = f"has no {' or '.join(wanted)}, only {names}{consequence}"
    step = f"Rename it to {guess}" if guess else "Add it"
    step += ", or name the file in default_model_filename." if backend else "."
    return LintFinding("TARN-2318", place, found, next_step=step)


def _is_there(model: Model, version: str, file: str) -> bool:
    entry = model.find(f"{version}/{file}")
    return entry is not None and entry.kind is not Kind.LOST


def _nested_file(model: Model, version: str, wanted: Sequence[str]) -> Entry | None:
    """Return a directory in the version that has a wanted file and a likely name."""
    for entry in model.at(version):
        likely = is_version(entry.name) or entry.name == model.name
        inside = f"{version}/{entry.name}"
        if entry.is_directory and likely and any(model.find(f"{inside}/{f}") for f in wanted):
            return entry
    return None


def _at_top(model: Model, wanted: Sequence[str]) -> Iterator[LintFinding]:
    for entry in model.at():
        if entry.name in wanted and entry.kind in {Kind.FILE, Kind.DIRECTORY}:
            found = "lies next to the versions, where Triton does not look"
            step = f"Move it to {model.name}/1/{entry.name}."
            yield LintFinding("TARN-2313", Location(entry.path), found, next_step=step)
