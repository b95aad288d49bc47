"""``parameters``, and the files that a configuration names."""

from collections.abc import Iterator

from tarn.domain.lint import Config, LintFinding, Model, Node, Repository, printable
from tarn.triton.lint import FOREST_FILES, backend_of, nearest

__all__ = ["check"]

_HERE = "$$TRITON_MODEL_DIRECTORY/"
_YES_NO = frozenset({"yes", "no"})


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what a configuration names, and is not there."""
    for model, config, root in repository.readable():
        yield from _twice(config, root)
        parameters = root.pairs("parameters")
        if backend_of(model) == "python":
            yield from _environment(model, config, parameters.get("EXECUTION_ENV_PATH"))
            yield from _force(config, parameters.get("FORCE_CPU_ONLY_INPUT_TENSORS"))
        if backend_of(model) == "fil":
            yield from _forest(config, parameters.get("model_type"))
        for output in root.all("output"):
            yield from _labels(model, config, output)
        for warmup in root.all("model_warmup"):
            yield from _warmup(model, config, warmup)


def _twice(config: Config, root: Node) -> Iterator[LintFinding]:
    seen: dict[str, Node] = {}
    for entry in root.all("parameters"):
        key = entry.text("key")
        before = seen.setdefault(key, entry)
        if before is not entry:
            found = f"parameter '{printable(key)}' is there twice; the last counts"
            step = f"Remove the one in line {before.line}."
            yield LintFinding("TARN-2381", config.place(entry), found, next_step=step)


def _environment(model: Model, config: Config, entry: Node | None) -> Iterator[LintFinding]:
    path = entry.text("value", "string_value") if entry else ""
    if entry is None or not path:
        return
    place = config.place(entry.first("value", "string_value"))
    if not path.startswith(("/", _HERE)):
        inside = path.removeprefix("$TRITON_MODEL_DIRECTORY/").removeprefix("./")
        found = f"EXECUTION_ENV_PATH = '{printable(path)}', which Triton does not find"
        right = f"Expected {_HERE}{printable(inside)} (two $), or a path from /"
        yield LintFinding("TARN-2382", place, found, right)
        return
    if path.startswith("/"):
        return  # of the machine where it runs
    inside = path.removeprefix(_HERE)
    if ".." not in inside.split("/") and model.find(inside) is None:
        found = f"EXECUTION_ENV_PATH names {printable(inside)}, which is not in the model"
        step = f"Put the packed environment at {model.name}/{printable(inside)}."
        yield LintFinding("TARN-2380", place, found, next_step=step)


def _force(config: Config, entry: Node | None) -> Iterator[LintFinding]:
    value = entry.first("value", "string_value") if entry else None
    if value is not None and (value.value or "").lower() not in _YES_NO:
        found = f"FORCE_CPU_ONLY_INPUT_TENSORS = '{printable(value.value or '')}'"
        yield LintFinding("TARN-2382", config.place(value), found, 'Expected "yes" or "no"')


def _forest(config: Config, entry: Node | None) -> Iterator[LintFinding]:
    value = entry.first("value", "string_value") if entry else None
    if value is not None and (value.value or "") not in FOREST_FILES:
        found = f"model_type = '{printable(value.value or '')}'"
        guess = nearest(value.value or "", FOREST_FILES)
        right = f"Expected {guess or ', '.join(FOREST_FILES)}"
        yield LintFinding("TARN-2382", config.place(value), found, right)


def _labels(model: Model, config: Config, output: Node) -> Iterator[LintFinding]:
    named = output.first("label_filename")
    if named is not None and named.value and model.find(named.value) is None:
        found = f"label_filename names {printable(named.value)}, which is not in the model"
        step = f"Put it at {model.name}/{printable(named.value)}, next to the configuration."
        yield LintFinding("TARN-2380", config.place(named), found, next_step=step)


def _warmup(model: Model, config: Config, warmup: Node) -> Iterator[LintFinding]:
    for entry in warmup.all("inputs"):
        named = entry.first("value", "input_data_file")
        if named is not None and named.value and model.find(f"warmup/{named.value}") is None:
            found = f"input_data_file names {printable(named.value)}, which is not in the model"
            step = f"Put it at {model.name}/warmup/{printable(named.value)}."
            yield LintFinding("TARN-2380", config.place(named), found, next_step=step)
