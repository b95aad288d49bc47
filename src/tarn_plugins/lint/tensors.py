"""Inputs and outputs."""

import math
from collections.abc import Iterator

from tarn.domain import Severity
from tarn.domain.lint import Config, LintFinding, Model, Node, Repository, printable
from tarn.triton.lint import completes_itself, served_versions

__all__ = ["check"]

_DIMS_OF_A_PICTURE = 3


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what Triton refuses in ``input`` and ``output``, and what it takes and cannot mean."""
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
            level = Severity.ALERT if labelled else None  # the others Triton 2.51 takes
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
    """Yield a Python model that says nowhere what it takes or gives: no client can ask it."""
    lacks = [side for side in ("input", "output") if not model.root.all(side)]
    if lacks and served_versions(model) and not completes_itself(repository, model):
        found = f"has no {' and no '.join(lacks)}, and its model.py has no auto_complete_config"
        step = "Write input and output with name, data_type and dims."
        yield LintFinding("TARN-2365", config.place(), found, next_step=step)
