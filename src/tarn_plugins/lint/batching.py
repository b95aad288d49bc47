"""``max_batch_size``, and the schedulers that depend on it."""

from collections.abc import Iterator

from tarn.domain.lint import Config, LintFinding, Node, Repository
from tarn.triton.lint import backend_of

__all__ = ["check"]

_PREFERRED = (
    ("dynamic_batching",),
    ("sequence_batching", "oldest"),
)
"""Where preferred batch sizes may stand."""


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield contradictions of batch sizes and priorities."""
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
        if dynamic is not None:
            if root.first("max_batch_size") is not None or backend_of(model) == "python":
                yield from _useless(config, dynamic, most)  # others may complete it themselves
            yield from _priorities(config, dynamic)


def _preferred(
    config: Config, scheduler: Node | None, path: tuple[str, ...], most: int
) -> Iterator[LintFinding]:
    """Yield the sizes that a batch never has."""
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


def _useless(config: Config, dynamic: Node, most: int) -> Iterator[LintFinding]:
    if most == 0 and not dynamic.all("preferred_batch_size"):
        found = "dynamic_batching has no effect: max_batch_size is 0, so there are no batches"
        step = "Set max_batch_size, or remove dynamic_batching."
        yield LintFinding("TARN-2341", config.place(dynamic), found, next_step=step)


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
