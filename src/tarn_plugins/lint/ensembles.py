"""Ensembles: every step names a model that is there, and every tensor comes from somewhere."""

from collections.abc import Iterator, Mapping

from tarn.domain.lint import Config, LintFinding, Model, Node, Place, Repository, printable
from tarn.triton.lint import nearest

__all__ = ["check"]

_ANY = -1


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what keeps each ensemble from loading."""
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
            yield from _types(repository, config, root, each)
    yield from _circles(repository, steps)


def _head(config: Config, root: Node, schedule: Node) -> Iterator[LintFinding]:
    platform = root.first("platform")
    if platform is None or platform.value != "ensemble":
        found = "has ensemble_scheduling, and its platform is not 'ensemble'"
        place = config.place(platform or root.first("backend") or schedule)
        yield LintFinding("TARN-2370", place, found, 'Right would be platform: "ensemble"')
    group = root.first("instance_group")
    if group is not None:
        found = "an ensemble has no instance_group: its steps have"
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
        hint = f"Did you mean '{guess}'?" if guess else "Add the model, or mend the name."
        yield LintFinding("TARN-2371", config.place(named), found, next_step=hint)
        return
    version = step.number("model_version", default=_ANY)
    if version != _ANY and model.versions and str(version) not in model.versions:
        found = f"the step wants version {version} of '{model.name}', which is not there"
        hint = f"There is {', '.join(model.versions)}; -1 takes the highest that is served."
        place = config.place(step.first("model_version"))
        yield LintFinding("TARN-2371", place, found, next_step=hint)
    yield from _mapped(config, step, model)


def _mapped(config: Config, step: Node, model: Model) -> Iterator[LintFinding]:
    """Yield keys that the step's model does not have, and inputs of it that get nothing."""
    for key, side in (("input_map", "input"), ("output_map", "output")):
        names = [tensor.text("name") for tensor in model.root.all(side)]
        if not names:
            continue  # it completes its configuration itself
        given = step.pairs(key)
        for name, entry in given.items():
            if name not in names:
                found = f"'{model.name}' has no {side} '{printable(name)}'"
                place = config.place(entry.first("key") or entry)
                yield LintFinding("TARN-2372", place, found, f"It has {', '.join(names)}")
        if side == "input" and given:
            yield from _unfed(config, step, model, set(given))


def _unfed(config: Config, step: Node, model: Model, given: set[str]) -> Iterator[LintFinding]:
    for tensor in model.root.all("input"):
        name = tensor.text("name")
        if name not in given and tensor.text("optional") not in {"true", "True", "t", "1"}:
            found = f"the step '{model.name}' gets nothing for its input '{printable(name)}'"
            yield LintFinding("TARN-2372", config.place(step), found)


def _flow(config: Config, root: Node, steps: tuple[Node, ...]) -> Iterator[LintFinding]:
    """Yield tensors that nobody makes, that are made twice, and those that nobody uses."""
    given = {tensor.text("name"): tensor for tensor in root.all("input")}
    made: dict[str, Node] = {}
    for entry in (entry for step in steps for entry in step.all("output_map")):
        name = entry.text("value")
        if name in given or name in made:
            found = f"the tensor '{printable(name)}' is made twice"
            yield LintFinding("TARN-2373", config.place(entry.first("value")), found)
        made[name] = entry
    used = {entry.text("value"): entry for step in steps for entry in step.all("input_map")}
    yield from _unmade(config, used, {**given, **made})
    yield from _ends(config, root, used, made)


def _ends(
    config: Config, root: Node, used: Mapping[str, Node], made: Mapping[str, Node]
) -> Iterator[LintFinding]:
    """Yield inputs and tensors that go nowhere, and outputs that come from nowhere."""
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


def _unmade(
    config: Config, used: Mapping[str, Node], made: Mapping[str, Node]
) -> Iterator[LintFinding]:
    for name, entry in used.items():
        if name not in made:
            found = f"nothing makes the tensor '{printable(name)}'"
            guess = nearest(name, made)
            step = f"Did you mean '{guess}'?" if guess else "Map an output to it."
            place = config.place(entry.first("value"))
            yield LintFinding("TARN-2373", place, found, next_step=step)


def _types(
    repository: Repository, config: Config, root: Node, steps: tuple[Node, ...]
) -> Iterator[LintFinding]:
    """Yield tensors that one end takes for another data type than the other."""
    known = {
        tensor.text("name"): (tensor.text("data_type"), "the ensemble")
        for tensor in (*root.all("input"), *root.all("output"))
    }
    for step in steps:
        model = repository.model(step.text("model_name"))
        for entry, kind in _mapped_types(step, model) if model else ():
            who = f"'{printable(step.text('model_name'))}'"
            meant, other = known.setdefault(entry.text("value"), (kind, who))
            if kind and meant and kind != meant:
                tensor = printable(entry.text("value"))
                found = f"'{tensor}' is {kind} for {who}, and {meant} for {other}"
                yield LintFinding("TARN-2375", config.place(entry.first("value")), found)


def _mapped_types(step: Node, model: Model) -> Iterator[tuple[Node, str]]:
    """Yield the entries of a step's maps, each with the data type that its model gives it."""
    for key, side in (("input_map", "input"), ("output_map", "output")):
        types = {each.text("name"): each.text("data_type") for each in model.root.all(side)}
        for entry in step.all(key):
            yield entry, types.get(entry.text("key"), "")


def _circles(
    repository: Repository, steps: Mapping[str, tuple[tuple[Node, str], ...]]
) -> Iterator[LintFinding]:
    """Yield each ensemble that leads back to itself."""
    for name, own in steps.items():
        for step, target in own:
            way = _way(steps, target, name)
            model = repository.model(name)
            if way and model is not None and model.config is not None:
                found = f"the ensemble leads back to itself: {' -> '.join((name, *way))}"
                place: Place = model.config.place(step.first("model_name"))
                yield LintFinding("TARN-2374", place, found)


def _way(
    steps: Mapping[str, tuple[tuple[Node, str], ...]], start: str, goal: str
) -> tuple[str, ...]:
    """Return the names from *start* to *goal*; nothing when no way leads there."""
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
