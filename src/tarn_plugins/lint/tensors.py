"""Rules for inputs and outputs, and for the ensembles that connect them."""

import math
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain import Severity
from tarn.interfaces.lint import Config, LintFinding, Location, Model, Node, Repository, printable
from tarn.triton.lint import completes_itself, nearest, served_versions

__all__ = ["check_ensembles", "check_tensors"]

_DIMS_OF_A_PICTURE = 3


def check_tensors(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems of ``input`` and ``output``, also those that Triton accepts."""
    for model, config, root in repository.readable():
        for side in ("input", "output"):
            tensors = root.all(side)
            yield from _twice(config, side, tensors)
            for tensor in tensors:
                yield from _incomplete(config, side, tensor)
                yield from _shape(config, side, tensor, root.number("max_batch_size"))
        yield from _silent(repository, model, config)


def _named(side: str, tensor: Node) -> str:
    name = tensor.text("name")
    return f"{side} '{printable(name)}'" if name else side


def _twice(config: Config, side: str, tensors: tuple[Node, ...]) -> Iterator[LintFinding]:
    seen: dict[str, Node] = {}
    for tensor in tensors:
        name = tensor.text("name")
        before = seen.setdefault(name, tensor)
        if name and before is not tensor:
            found = f"{_named(side, tensor)} is there twice; the first is in line {before.line}"
            step = "Remove one, or give it another name."
            place = config.place(tensor.first("name"))
            labelled = all(each.first("label_filename") for each in (before, tensor))
            level = Severity.ALERT if labelled else None  # Triton 2.51 accepts the others
            yield LintFinding("TARN-2361", place, found, "", step, None, level)


def _incomplete(config: Config, side: str, tensor: Node) -> Iterator[LintFinding]:
    rights = {
        "name": 'Expected name: "…"',
        "data_type": "Expected e.g. data_type: TYPE_FP32",
        "dims": "Expected e.g. dims: [ -1 ]",
    }
    for key, right in rights.items():
        if tensor.text(key) in {"", "TYPE_INVALID"}:
            found = f"{_named(side, tensor)} has no {key}"
            yield LintFinding("TARN-2360", config.place(tensor), found, right)


def _shape(config: Config, side: str, tensor: Node, batch: int) -> Iterator[LintFinding]:
    dims = tensor.all("dims")
    for dim in dims:
        if dim.whole(default=1) < -1 or dim.whole(default=1) == 0:
            found = f"{_named(side, tensor)} has the dimension {dim.value}"
            right = "Expected 1 or more, or -1 for any size"
            yield LintFinding("TARN-2362", config.place(dim), found, right)
    form = tensor.first("format")
    pictures = form is not None and form.value in {"FORMAT_NHWC", "FORMAT_NCHW"}
    if form is not None and pictures and len(dims) != _DIMS_OF_A_PICTURE:
        found = f"{_named(side, tensor)} is of {form.value}, and has {len(dims)} dimensions"
        yield LintFinding("TARN-2363", config.place(form), found, "Expected 3")
    reshape = tensor.first("reshape")
    if reshape is not None:
        yield from _reshape(config, side, tensor, reshape, batch)


def _reshape(
    config: Config, side: str, tensor: Node, reshape: Node, batch: int
) -> Iterator[LintFinding]:
    old = [dim.whole() for dim in tensor.all("dims")]
    new = [dim.whole() for dim in reshape.all("shape")]
    place = config.place(reshape)
    if not new and batch == 0:
        found = f"{_named(side, tensor)} is reshaped to a scalar, which needs max_batch_size"
        yield LintFinding("TARN-2364", place, found)
    elif min((*old, *new), default=1) > 0 and math.prod(old) != math.prod(new):
        found = f"{_named(side, tensor)} has {math.prod(old)} elements, reshaped {math.prod(new)}"
        yield LintFinding("TARN-2364", place, found, "Expected the same number")


def _silent(repository: Repository, model: Model, config: Config) -> Iterator[LintFinding]:
    """Yield a Python model without inputs or outputs: no client can use it."""
    lacks = [side for side in ("input", "output") if not model.root.all(side)]
    if lacks and served_versions(model) and not completes_itself(repository, model):
        found = f"has no {' and no '.join(lacks)}, and its model.py has no auto_complete_config"
        step = "Write input and output with name, data_type and dims."
        yield LintFinding("TARN-2365", config.place(), found, next_step=step)


_ANY = -1  # in a shape: any size; as a version: the highest that is served


def check_ensembles(repository: Repository) -> Iterator[LintFinding]:
    """Yield the problems that keep an ensemble from loading."""
    steps: dict[str, tuple[tuple[Node, str], ...]] = {}
    for model, config, root in repository.readable():
        schedule = root.first("ensemble_scheduling")
        if schedule is None:
            if root.text("platform") == "ensemble":
                found, right = "platform = 'ensemble', and there is no ensemble_scheduling", ""
                yield LintFinding("TARN-2370", config.place(root.first("platform")), found, right)
            continue
        each = schedule.all("step")
        steps[model.name] = tuple((step, step.text("model_name")) for step in each)
        yield from _head(config, root, schedule)
        for step in each:
            yield from _step(repository, config, step)
        if each:
            yield from _flow(config, root, each)
            yield from _fits(repository, config, root, each)
    yield from _circles(repository, steps)


def _head(config: Config, root: Node, schedule: Node) -> Iterator[LintFinding]:
    platform = root.first("platform")
    if platform is None or platform.value != "ensemble":
        found = "has ensemble_scheduling, and its platform is not 'ensemble'"
        place = config.place(platform or root.first("backend") or schedule)
        yield LintFinding("TARN-2370", place, found, 'Expected platform: "ensemble"')
    group = root.first("instance_group")
    if group is not None:
        found = "an ensemble has no instance_group; its steps have theirs"
        yield LintFinding("TARN-2370", config.place(group), found, next_step="Remove it.")
    if not schedule.all("step"):
        found = "ensemble_scheduling has no step"
        yield LintFinding("TARN-2370", config.place(schedule), found)


def _step(repository: Repository, config: Config, step: Node) -> Iterator[LintFinding]:
    named = step.first("model_name")
    if named is None or not named.value:
        yield LintFinding("TARN-2370", config.place(step), "a step has no model_name")
        return
    for key in ("input_map", "output_map"):
        if not step.all(key):
            found = f"the step '{printable(named.value)}' has no {key}"
            yield LintFinding("TARN-2370", config.place(step), found)
    model = repository.model(named.value)
    if model is None:
        guess = nearest(named.value, [each.name for each in repository.models])
        found = f"the step names '{printable(named.value)}', and there is no such model"
        hint = f"Did you mean '{guess}'?" if guess else "Add the model, or correct the name."
        yield LintFinding("TARN-2371", config.place(named), found, next_step=hint)
        return
    yield from _version(config, step, model)
    yield from _mapped(repository, config, step, model)


def _version(config: Config, step: Node, model: Model) -> Iterator[LintFinding]:
    """Yield a step whose version is not served."""
    # a step without model_version means version 0, which is protobuf's default
    written, served = step.first("model_version"), served_versions(model)
    version = step.number("model_version")
    if version == _ANY or not served or str(version) in served:
        return
    if written is None:
        found = f"the step has no model_version, which means version 0 of '{model.name}'"
    else:
        found = f"the step wants version {version} of '{model.name}'"
    there = str(version) in model.versions
    found += ", which is not served" if there else ", which is not there"
    hint = f"Write model_version: -1, the highest that is served; served is {', '.join(served)}."
    yield LintFinding("TARN-2371", config.place(written or step), found, next_step=hint)


def _mapped(
    repository: Repository, config: Config, step: Node, model: Model
) -> Iterator[LintFinding]:
    """Yield tensors that the step's model lacks, and its inputs without a value."""
    for key, side in (("input_map", "input"), ("output_map", "output")):
        names = [tensor.text("name") for tensor in model.root.all(side)]
        if not names and completes_itself(repository, model):
            continue
        given = step.pairs(key)
        for name, entry in given.items():
            if name not in names:
                found = f"'{model.name}' has no {side} '{printable(name)}'"
                place = config.place(entry.first("key") or entry)
                yield LintFinding("TARN-2372", place, found, f"It has {', '.join(names) or 'none'}")
            elif side == "output" and names.count(name) > 1:  # Triton serves such a model alone
                found = f"'{model.name}' has several outputs '{printable(name)}'"
                place = config.place(entry.first("key") or entry)
                yield LintFinding("TARN-2372", place, found, next_step="Remove all but one.")
    given = step.pairs("input_map")
    for tensor in model.root.all("input") if given else ():
        name = tensor.text("name")
        if name not in given and tensor.text("optional") not in {"true", "True", "t", "1"}:
            found = f"the step '{model.name}' gets nothing for its input '{printable(name)}'"
            yield LintFinding("TARN-2372", config.place(step), found)


def _flow(config: Config, root: Node, steps: tuple[Node, ...]) -> Iterator[LintFinding]:
    """Yield tensors that are made twice, never made, or never used."""
    given = {tensor.text("name"): tensor for tensor in root.all("input")}
    made: dict[str, Node] = {}
    for entry in (entry for step in steps for entry in step.all("output_map")):
        name = entry.text("value")
        if name in given or name in made:
            found = f"the tensor '{printable(name)}' is made twice"
            yield LintFinding("TARN-2373", config.place(entry.first("value")), found)
        made[name] = entry
    used = {entry.text("value"): entry for step in steps for entry in step.all("input_map")}
    for name, entry in used.items():
        if name not in given and name not in made:
            found = f"nothing makes the tensor '{printable(name)}'"
            guess = nearest(name, {**given, **made})
            hint = f"Did you mean '{guess}'?" if guess else "Map an output to it."
            yield LintFinding(
                "TARN-2373", config.place(entry.first("value")), found, next_step=hint
            )
    yield from _ends(config, root, used, made)


def _ends(
    config: Config, root: Node, used: Mapping[str, Node], made: Mapping[str, Node]
) -> Iterator[LintFinding]:
    """Yield inputs and tensors that no step uses, and outputs that no step makes."""
    outputs = {tensor.text("name"): tensor for tensor in root.all("output")}
    for tensor in root.all("input"):
        if tensor.text("name") not in used:
            found = f"the input '{printable(tensor.text('name'))}' of the ensemble goes to no step"
            yield LintFinding("TARN-2373", config.place(tensor), found)
    for name, entry in made.items():
        if name not in used and name not in outputs:
            found = f"the tensor '{printable(name)}' goes nowhere"
            step = "Remove it from the output_map, or use it."
            place = config.place(entry.first("value"))
            yield LintFinding("TARN-2373", place, found, next_step=step)
    for name, tensor in outputs.items():
        if name not in made:
            found = f"the output '{printable(name)}' of the ensemble is made by no step"
            yield LintFinding("TARN-2373", config.place(tensor), found)


@attrs.frozen
class _EnsembleTensor:
    """A tensor of an ensemble, as the configuration of one model or of the ensemble has it."""

    kind: str
    """Its data type; '' if not given."""
    shape: tuple[int, ...]
    who: str
    batches: bool | None
    """Whether the dimension of a batch precedes *shape*; None: the model decides when it loads."""

    def fits(self, other: "_EnsembleTensor") -> bool:
        """Return whether Triton accepts the shapes as equal, with or without the batch's."""
        if not self.shape or not other.shape or _equal(self.shape, other.shape):
            return True
        return any(_equal(one, two) for one in self.whole() for two in other.whole())

    def whole(self) -> tuple[tuple[int, ...], ...]:
        """Return the possible shapes with the dimension of a batch, if it has one."""
        batched = (_ANY, *self.shape)
        if self.batches is None:
            return (self.shape, batched)
        return (batched,) if self.batches else (self.shape,)


def _equal(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    pairs = zip(one, two, strict=False)
    return len(one) == len(two) and all(a == b or _ANY in {a, b} for a, b in pairs)


def _fits(
    repository: Repository, config: Config, root: Node, steps: tuple[Node, ...]
) -> Iterator[LintFinding]:
    """Yield batches too large for a step, and tensors with two types or shapes."""
    most = root.number("max_batch_size")
    ends = [*root.all("input"), *root.all("output")]
    known = {
        tensor.text("name"): _tensor(tensor, "the ensemble", batches=most > 0, reshaped=True)
        for tensor in reversed(ends)
    }
    for step in steps:
        model = repository.model(step.text("model_name"))
        if model is None or not model.is_readable:
            continue
        own = model.root.number("max_batch_size")
        if 0 < own < most:
            found = f"max_batch_size = {most}, but its step '{model.name}' takes at most {own}"
            place = config.place(root.first("max_batch_size"))
            yield LintFinding("TARN-2375", place, found, f"Expected at most {own}")
        settled = own > 0 or not completes_itself(repository, model)
        for entry, end in _mapped_ends(step, model, batches=own > 0 if settled else None):
            # the first type and shape of a tensor decide, as in Triton
            yield from _differ(config, entry, end, known.setdefault(entry.text("value"), end))


def _tensor(tensor: Node, who: str, *, batches: bool | None, reshaped: bool) -> _EnsembleTensor:
    reshape = tensor.first("reshape") if reshaped else None
    dims = tensor.all("dims") if reshape is None else reshape.all("shape")
    shape = tuple(dim.whole() for dim in dims)
    return _EnsembleTensor(tensor.text("data_type"), shape, who, batches)


def _mapped_ends(
    step: Node, model: Model, *, batches: bool | None
) -> Iterator[tuple[Node, _EnsembleTensor]]:
    """Yield the entries of a step's maps, each with its model's own tensor."""
    who = f"'{printable(model.name)}'"
    for key, side in (("input_map", "input"), ("output_map", "output")):
        tensors = {each.text("name"): each for each in model.root.all(side)}
        for entry in step.all(key):
            tensor = tensors.get(entry.text("key"))
            if tensor is not None:
                yield entry, _tensor(tensor, who, batches=batches, reshaped=False)


def _differ(
    config: Config, entry: Node, end: _EnsembleTensor, other: _EnsembleTensor
) -> Iterator[LintFinding]:
    name, place = printable(entry.text("value")), config.place(entry.first("value"))
    if end.kind and other.kind and end.kind != other.kind:
        found = f"'{name}' is {end.kind} for {end.who}, and {other.kind} for {other.who}"
        yield LintFinding("TARN-2375", place, found)
    elif not end.fits(other):
        shapes = [f"[{', '.join(map(str, one.shape))}]" for one in (end, other)]
        found = f"'{name}' is {shapes[0]} for {end.who}, and {shapes[1]} for {other.who}"
        yield LintFinding("TARN-2375", place, found)


def _circles(
    repository: Repository, steps: Mapping[str, tuple[tuple[Node, str], ...]]
) -> Iterator[LintFinding]:
    """Yield each ensemble that has itself among its steps, directly or not."""
    for name, own in steps.items():
        for step, target in own:
            way = _way(steps, target, name)
            model = repository.model(name)
            if way and model is not None and model.config is not None:
                found = f"the ensemble leads back to itself: {' -> '.join((name, *way))}"
                place: Location = model.config.place(step.first("model_name"))
                yield LintFinding("TARN-2374", place, found)


def _way(
    steps: Mapping[str, tuple[tuple[Node, str], ...]], start: str, goal: str
) -> tuple[str, ...]:
    """Return the names on a path from *start* to *goal*; () if there is none."""
    pending: list[tuple[str, ...]] = [(start,)]
    seen = {start}
    while pending:
        way = pending.pop()
        if way[-1] == goal:
            return way
        for _, target in steps.get(way[-1], ()):
            if target not in seen:
                seen.add(target)
                pending.append((*way, target))
    return ()
