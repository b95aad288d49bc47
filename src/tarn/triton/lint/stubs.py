"""How many processes Triton's Python back end starts for a repository. Pure.

Each copy of a Python model is a process (a *stub*) with a region of shared memory of its own.
"""

from collections.abc import Iterable, Iterator

import attrs

from tarn.domain.lint import Model, Node
from tarn.triton.lint.backends import backend_of

__all__ = ["Stubs", "stubs"]

_NO_GROUP = Node("", 1, 1, 0, 0)
"""What Triton makes of a model without ``instance_group``: a copy for each GPU, or one."""
_NEVER_GPU = frozenset({"KIND_CPU", "KIND_MODEL"})


@attrs.frozen
class Stubs:
    """The copies of one Python model in one server."""

    model: str
    fixed: int = 0
    """As many as the machine has."""
    per_gpu: int = 0
    """For each GPU of the container; once where there is none."""

    def on(self, gpus: int) -> int:
        """Return how many there are with *gpus* GPUs."""
        return self.fixed + self.per_gpu * max(1, gpus)


def stubs(models: Iterable[Model]) -> Iterator[Stubs]:
    """Yield the copies of each model that the Python back end will run."""
    for model in models:
        if backend_of(model) != "python":
            continue
        groups = model.root.all("instance_group") or (_NO_GROUP,)
        fixed = sum(_count(group) * _places(group) for group in groups)
        per_gpu = sum(_count(group) for group in groups if not _places(group))
        yield Stubs(model.name, fixed, per_gpu)


def _count(group: Node) -> int:
    return max(1, group.number("count", default=1))


def _places(group: Node) -> int:
    """Return in how many places a group is; 0: on each GPU, however many there are."""
    listed = len(group.all("gpus"))
    return listed or int(group.text("kind") in _NEVER_GPU)
