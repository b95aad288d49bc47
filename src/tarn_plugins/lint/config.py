"""Rules for ``config.pbtxt``, and for all of its keys except the tensors."""

import re
from collections.abc import Iterator

from tarn.domain import Severity
from tarn.interfaces.lint import (
    CONFIG,
    Config,
    Edit,
    Kind,
    LintFinding,
    Location,
    Model,
    Node,
    Rename,
    Repository,
    printable,
)
from tarn.triton.lint import (
    BACKENDS,
    FOREST_FILES,
    PLATFORMS,
    backend_of,
    nearest,
    stubs,
    traits_in,
)
from tarn.triton.response_cache import is_true, uses_cache

__all__ = [
    "check_backend",
    "check_batching",
    "check_cache",
    "check_config",
    "check_instances",
    "check_parameters",
    "check_sequences",
]

_NEAR = re.compile(
    r"config\.(pbtxt|pbtext|pbtx|prototxt|textproto|txt|pb)(\.txt|\.bak)?", re.IGNORECASE
)


def check_config(repository: Repository) -> Iterator[LintFinding]:
    """Yield the errors in each configuration, and the models without one."""
    for model in repository.models:
        if model.config is None:
            yield from _missing(model)
            continue
        config = model.config
        for flaw in config.flaws:
            place = Location(config.file, flaw.line, flaw.column)
            repair = Edit(config.file, 0, 1) if flaw.code == "TARN-2326" else None  # the BOM
            yield LintFinding(flaw.code, place, flaw.found, flaw.right, flaw.next_step, repair)


def _missing(model: Model) -> Iterator[LintFinding]:
    """Yield why *model* has no configuration: it has another name, or is in a version."""
    # Triton can tell the back end of such a model from its file, and serves it nevertheless.
    known, right = BACKENDS.get(backend_of(model)), f"{model.name}/{CONFIG}"
    level = Severity.WARNING if known is not None and known.guessed else None
    files = (entry for entry in model.at() if entry.kind is Kind.FILE)
    near = next((entry for entry in files if _NEAR.fullmatch(entry.name)), None)
    if near is not None:
        only_case = near.name.lower() == CONFIG
        yield LintFinding(
            "TARN-2327",
            Location(near.path),
            f"is not read: its name is not {CONFIG}",
            f"Expected {right}",
            "`tarn lint --fix` renames it." if only_case else "Rename it.",
            Rename(near.path, right) if only_case else None,
            level,
        )
    elif model.versions and not backend_of(model):
        found = f"has no {CONFIG}, and no file that tells Triton which back end to use"
        step = f'Write {right} with `backend: "…"`.'
        yield LintFinding("TARN-2328", Location(model.name), found, next_step=step)
    for entry in filter(None, (model.find(f"{version}/{CONFIG}") for version in model.versions)):
        found, place = "is not read: it lies in a version", Location(entry.path)
        yield LintFinding("TARN-2327", place, found, f"Expected {right}", "Move it.", None, level)


def check_backend(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems of ``backend`` and ``platform``."""
    for model in repository.models:
        lack = repository.lacks(model) if backend_of(model) in BACKENDS else ""
        if lack:
            place = model.config.place(model.root.first("backend")) if model.config else None
            step = (
                "Nothing, if it is meant for another tritonserver: `tarn doctor` checks the one "
                "in the spec."
            )
            yield LintFinding("TARN-2345", place or Location(model.name), lack, next_step=step)
    for model, config, root in repository.readable():
        backend, platform = root.first("backend"), root.first("platform")
        if root.first("ensemble_scheduling") is not None:
            continue  # `check_ensembles` reports those
        if backend is not None and backend.value:
            yield from _backend(config, backend)
        if platform is not None and platform.value:
            yield from _platform(config, platform, backend)
        if not backend_of(model) and platform is None and model.versions:
            found = "names no backend, and no file in a version tells which one is meant"
            step = f'Write backend: "python", or what {model.name} needs.'
            yield LintFinding("TARN-2334", config.place(), found, next_step=step)


def _backend(config: Config, node: Node) -> Iterator[LintFinding]:
    name = node.value or ""
    if name in BACKENDS:
        return
    guess = PLATFORMS.get(name) or nearest(name, BACKENDS)
    found = f"backend = '{printable(name)}': Triton has no back end of this name"
    if guess:
        step = f"Did you mean '{guess}'?"
        yield LintFinding("TARN-2335", config.place(node), found, next_step=step)
    else:
        step = "Nothing, if you provide it: name its directory in triton.args backend-directory."
        yield LintFinding("TARN-2336", config.place(node), found, next_step=step)


def _platform(config: Config, node: Node, backend: Node | None) -> Iterator[LintFinding]:
    name = node.value or ""
    meant = PLATFORMS.get(name)
    if meant is None and backend is None:
        guess = nearest(name, PLATFORMS)
        if name in BACKENDS:
            step = f'Write backend: "{name}" instead.'
        else:
            step = f"Did you mean '{guess}'?" if guess else "Write `backend` instead."
        found = f"platform = '{printable(name)}': there is no platform of this name"
        yield LintFinding("TARN-2335", config.place(node), found, next_step=step)
    elif meant is not None and backend is not None and backend.value not in {meant, "", None}:
        found = f"platform = '{name}' means the back end '{meant}', not '{backend.value}'"
        step = "Remove `platform`: `backend` wins."
        yield LintFinding("TARN-2337", config.place(node), found, next_step=step)


_PREFERRED = (
    ("dynamic_batching",),
    ("sequence_batching", "oldest"),
)  # the paths at which preferred batch sizes may be given


def check_batching(repository: Repository) -> Iterator[LintFinding]:
    """Yield contradictions in batch sizes and priorities."""
    for model, config, root in repository.readable():
        most = root.number("max_batch_size")
        if most < 0:
            found, right = f"max_batch_size = {most}", "Expected 0 (no batching) or more"
            place = config.place(root.first("max_batch_size"))
            yield LintFinding("TARN-2343", place, found, right)
            continue
        for path in _PREFERRED:
            yield from _preferred(config, root.first(*path), path, most)
        dynamic = root.first("dynamic_batching")
        if dynamic is None:
            continue
        # without the key, other back ends may complete max_batch_size themselves
        known = root.first("max_batch_size") is not None or backend_of(model) == "python"
        if known and most == 0 and not dynamic.all("preferred_batch_size"):
            found = "dynamic_batching has no effect: max_batch_size is 0, so there are no batches"
            step = "Set max_batch_size, or remove dynamic_batching."
            yield LintFinding("TARN-2341", config.place(dynamic), found, next_step=step)
        yield from _priorities(config, dynamic)


def check_sequences(repository: Repository) -> Iterator[LintFinding]:
    """Yield each Python model that calls a model with sequences, which only its code says."""
    kept = [traits.name for traits in traits_in(repository) if traits.sequence_batching]
    for model, _, _ in repository.readable() if kept else ():
        if model.name in kept or backend_of(model) != "python":
            continue
        for version in model.versions:
            path = f"{model.name}/{version}/model.py"
            code = repository.read(path).decode("utf-8", "replace")
            called = [name for name in kept if _calls(code, name)]
            if called:
                found = f"calls {printable(called[0])}, which keeps sequences"
                step = (
                    f"If callers send it sequences, write `affinity: {{use: sequence, options: "
                    f"{{models: [{printable(model.name)}]}}}}` in tarn.yaml."
                )
                yield LintFinding("TARN-2349", Location(path), found, next_step=step)


def _calls(code: str, model: str) -> bool:
    quoted = re.escape(model)
    return "InferenceRequest" in code and bool(re.search(rf"""(["\']){quoted}\1""", code))


def _preferred(
    config: Config, scheduler: Node | None, path: tuple[str, ...], most: int
) -> Iterator[LintFinding]:
    """Yield the preferred sizes that no batch can have."""
    for node in scheduler.all("preferred_batch_size") if scheduler else ():
        size = node.whole()
        if 1 <= size <= most:
            continue
        found = f"{'.'.join(path)}.preferred_batch_size = {size}"
        if size < 1:
            right, step = "Expected 1 or more", ""
        else:
            found += f" is above max_batch_size = {most}"
            right, step = "", "Raise the one or lower the other."
        yield LintFinding("TARN-2340", config.place(node), found, right, step)


def _priorities(config: Config, dynamic: Node) -> Iterator[LintFinding]:
    levels = dynamic.number("priority_levels")
    if levels < 1:
        return
    right = f"Expected 1 to {levels}, as priority_levels says"
    default = dynamic.first("default_priority_level")
    if default is None or not 1 <= default.whole() <= levels:
        said = default.value if default else "not given"
        place = config.place(default or dynamic.first("priority_levels"))
        found = f"default_priority_level is {said}"
        yield LintFinding("TARN-2342", place, found, right)
    for entry in dynamic.all("priority_queue_policy"):
        key = entry.first("key")
        if key is not None and not 1 <= key.whole() <= levels:
            found = f"priority_queue_policy is for level {key.value}"
            yield LintFinding("TARN-2342", config.place(key), found, right)


def check_cache(repository: Repository) -> Iterator[LintFinding]:
    """Yield the models that use the response cache in vain, and a cache that no model uses."""
    using = [model for model in repository.models if uses_cache(model)]
    for model in using:
        config, asked = model.config, model.root.first("response_cache")
        place = config.place(asked) if config else Location(model.name)
        scheduler = "sequence_batching" if model.root.first("sequence_batching") else ""
        if not scheduler and is_true(model.root.text("model_transaction_policy", "decoupled")):
            scheduler = "decoupled responses"
        if scheduler:
            found = f"response_cache with {scheduler}: Triton does not load such a model"
            yield LintFinding("TARN-2346", place, found, next_step="Remove response_cache.")
        elif repository.keeps_answers is False:
            found = "response_cache is enabled, but the spec has no triton.cache: nothing is kept"
            step = "Set triton.cache, such as {size: 256MiB}, or remove response_cache."
            yield LintFinding("TARN-2347", place, found, next_step=step)
    if repository.keeps_answers and repository.models and not using:
        found = "no model has response_cache { enable: true }, but the spec has a response cache"
        step = "Enable it in a model's config.pbtxt, or remove triton.cache."
        yield LintFinding("TARN-2348", Location(""), found, next_step=step)


MOST_STUBS = 16
"""Copies of Python models that need no note; before Triton 23.09 each took 64 MB of /dev/shm."""
STUB_MB = 1
"""Shared memory of a copy at its start since Triton 23.09; it grows with the tensors."""


def check_instances(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems of instance groups, and what the machine cannot give them."""
    for _, config, root in repository.readable():
        if root.first("ensemble_scheduling") is not None:
            continue
        for group in root.all("instance_group"):
            count = group.first("count")
            if count is not None and count.whole() < 1:
                found = f"instance_group.count = {count.value}, which Triton takes for 1"
                step = "Not to serve the model, leave it out of models.serve."
                place = config.place(count)
                yield LintFinding("TARN-2350", place, found, "Expected 1 or more", step)
            yield from _gpus(config, group, repository)
    yield from _shared_memory(repository)


def _gpus(config: Config, group: Node, repository: Repository) -> Iterator[LintFinding]:
    kind, listed = group.text("kind"), group.first("gpus")
    if listed is not None and kind in {"KIND_CPU", "KIND_MODEL"}:
        found = f"instance_group is of {kind} and lists GPUs"
        step = "Remove `gpus`, or make it KIND_GPU."
        yield LintFinding("TARN-2351", config.place(listed), found, next_step=step)
    elif repository.gpu_present is False and (kind == "KIND_GPU" or listed is not None):
        found = "asks for a GPU, and this machine has none: the model would be unavailable here"
        step = "Nothing, if it is meant for another machine; else KIND_CPU."
        place = config.place(group.first("kind") or listed)
        yield LintFinding("TARN-2352", place, found, next_step=step)


def _shared_memory(repository: Repository) -> Iterator[LintFinding]:
    """Yield a note if the Python models need more /dev/shm than containers have."""
    found = tuple(stubs(repository.models))
    copies = sum(each.on(gpus=1) for each in found)
    if copies <= MOST_STUBS:
        return
    said = (
        f"{len(found)} Python models have {copies} copies: at least {copies * STUB_MB} MB of "
        f"shared memory, {copies * 64} MB before Triton 23.09; a container has 64 MB"
    )
    step = (
        "On YARN a Docker container gets more automatically: instance.resources.memory must "
        "include it. Elsewhere give the container more (docker run --shm-size), or serve fewer "
        "models."
    )
    yield LintFinding("TARN-2353", Location(""), said, next_step=step)


_HERE = "$$TRITON_MODEL_DIRECTORY/"
_YES_NO = frozenset({"yes", "no"})


def check_parameters(repository: Repository) -> Iterator[LintFinding]:
    """Yield wrong parameters, and files that a configuration names but the model lacks."""
    for model, config, root in repository.readable():
        yield from _twice(config, root)
        parameters = root.pairs("parameters")
        if backend_of(model) == "python":
            yield from _environment(model, config, parameters.get("EXECUTION_ENV_PATH"))
            yield from _force(config, parameters.get("FORCE_CPU_ONLY_INPUT_TENSORS"))
        if backend_of(model) == "fil":
            yield from _forest(config, parameters.get("model_type"))
        yield from _named_files(model, config, root)


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
        return  # on the machine of the instance, which this one cannot check
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


def _named_files(model: Model, config: Config, root: Node) -> Iterator[LintFinding]:
    """Yield the files of labels and of warm-up data that the model lacks."""
    for output in root.all("output"):
        named = output.first("label_filename")
        if named is not None and named.value and model.find(named.value) is None:
            found = f"label_filename names {printable(named.value)}, which is not in the model"
            step = f"Put it at {model.name}/{printable(named.value)}, next to the configuration."
            yield LintFinding("TARN-2380", config.place(named), found, next_step=step)
    for entry in (entry for warmup in root.all("model_warmup") for entry in warmup.all("inputs")):
        named = entry.first("value", "input_data_file")
        if named is not None and named.value and model.find(f"warmup/{named.value}") is None:
            found = f"input_data_file names {printable(named.value)}, which is not in the model"
            step = f"Put it at {model.name}/warmup/{printable(named.value)}."
            yield LintFinding("TARN-2380", config.place(named), found, next_step=step)
