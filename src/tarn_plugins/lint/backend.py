"""Which back end runs a model."""

from collections.abc import Iterator

from tarn.domain.lint import Config, LintFinding, Location, Model, Node, Repository, printable
from tarn.triton.lint import BACKENDS, PLATFORMS, backend_of, nearest

__all__ = ["check"]


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what is wrong with ``backend`` and ``platform``."""
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
            continue  # the rule of ensembles knows more
        if backend is not None and backend.value:
            yield from _backend(config, backend)
        if platform is not None and platform.value:
            yield from _platform(config, platform, backend)
        if not backend_of(model) and platform is None and model.versions:
            yield _none(model, config)


def _none(model: Model, config: Config) -> LintFinding:
    found = "names no backend, and no file in a version tells which one is meant"
    step = f'Write backend: "python", or what {model.name} needs.'
    return LintFinding("TARN-2334", config.place(), found, next_step=step)


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
