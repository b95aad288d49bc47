"""``instance_group``: how many copies of a model there are, and on what."""

from collections.abc import Iterator

from tarn.domain.lint import Config, LintFinding, Location, Node, Repository
from tarn.triton.lint import stubs

__all__ = ["check"]

MOST_STUBS = 16
"""Copies of Python models in one server; before 23.09 each took 64 MB of shared memory at once."""
STUB_MB = 1
"""What a copy takes at the start since 23.09; it grows with the tensors."""


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what is wrong with the groups, and what they ask of the machine."""
    for _, config, root in repository.readable():
        if root.first("ensemble_scheduling") is not None:
            continue
        for group in root.all("instance_group"):
            yield from _count(config, group)
            yield from _gpus(config, group, repository)
    yield from _shared_memory(repository)


def _count(config: Config, group: Node) -> Iterator[LintFinding]:
    count = group.first("count")
    if count is not None and count.whole() < 1:
        found = f"instance_group.count = {count.value}, which Triton takes for 1"
        right = "Expected 1 or more"
        step = "Not to serve the model, leave it out of models.serve."
        yield LintFinding("TARN-2350", config.place(count), found, right, step)


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
    """Yield one note when the stubs of Python models want more /dev/shm than containers have."""
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
