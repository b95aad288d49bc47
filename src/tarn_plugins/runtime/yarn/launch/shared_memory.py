"""The shared memory of Triton's Python models: what they need, and what a container can have. Pure.

Each copy of a Python model has a region in ``/dev/shm``: 1 MiB at the start from Triton 23.09 on,
64 MiB before; it grows with the tensors and never shrinks. Facts, measured on YARN 3.4:

- Docker gives a container 64 MB, and YARN has no setting for another size. It takes a tmpfs at
  ``/dev/shm`` (``docker`` asks for one), which takes no size, and so may hold half of the node's
  memory. Its pages count as the container's memory.
- Without Docker there is the node's own ``/dev/shm``, which all processes share.

So ``instance.resources.shm`` is not a size that anybody could be asked for: it is what must fit
into ``instance.resources.memory``.
"""

import re
from collections.abc import Iterator, Sequence

import attrs

from tarn.domain import ClusterSpec
from tarn.domain.spec import TritonSpec
from tarn.interfaces import Finding
from tarn.triton.lint import Stubs
from tarn_plugins.runtime.yarn import Docker

__all__ = ["SharedMemoryNeed", "findings", "need", "region_mib"]

_TAG = re.compile(r":(?P<year>\d{2})\.(?P<month>\d{2})(?!\d)[^/]*$")
_SMALLER_SINCE = (23, 9)
_SMALL_MIB, _LARGE_MIB = 1.0, 64.0
_GIVEN = re.compile(r"python,shm-default-byte-size=(?P<bytes>\d+)")
_MIB = 2**20
_KEY = "instance.resources.shm"


@attrs.frozen
class SharedMemoryNeed:
    """What the Python models of one instance take before the first request."""

    copies: int
    region_mib: float

    @property
    def mib(self) -> float:
        """All of them together."""
        return self.copies * self.region_mib


def region_mib(triton: TritonSpec) -> float:
    """Return the size of a region at the start: as asked, else by the version in the image's tag.

    An image whose tag tells no version counts as a new one.
    """
    value = triton.args.get("backend-config", triton.args.get("backend_config", ()))
    texts = value if isinstance(value, (list, tuple)) else (value,)
    if given := [found for found in map(_GIVEN.fullmatch, map(str, texts)) if found]:
        return int(given[-1]["bytes"]) / _MIB
    tag = _TAG.search(triton.image)
    old = tag is not None and (int(tag["year"]), int(tag["month"])) < _SMALLER_SINCE
    return _LARGE_MIB if old else _SMALL_MIB


def need(spec: ClusterSpec, stubs: Sequence[Stubs]) -> SharedMemoryNeed:
    """Return what the models of *stubs* that Triton will load take."""
    only = spec.models.serve if spec.models.control == "explicit" else ()
    gpus = spec.instance.resources.gpus
    copies = sum(each.on(gpus) for each in stubs if not only or each.model in only)
    return SharedMemoryNeed(copies, region_mib(spec.triton))


def findings(
    spec: ClusterSpec, docker: Docker | None, stubs: Sequence[Stubs] = (), largest_mib: int = 0
) -> Iterator[Finding]:
    """Yield where the shared memory that is asked for, or needed, cannot be had.

    Args:
        spec: The cluster.
        docker: ``runtime.options.docker``.
        stubs: The copies of Python models, as far as they are known.
        largest_mib: Memory of the largest container that YARN grants; 0: unknown.
    """
    needed = need(spec, stubs)
    yield from _asked(spec, docker, needed, largest_mib)
    memory = spec.instance.resources.memory_mib
    if needed.mib >= memory:
        found = (
            f"is not enough: {_copies(needed)} take {needed.mib:,.0f} MiB of shared memory at the "
            "start, which counts as the container's memory"
        )
        yield _finding(f"instance.resources.memory = {memory}MiB", found, "Raise it, or lower the "
                       "copies (instance_group) of Python models", fatal=False)  # fmt: skip


def _asked(
    spec: ClusterSpec, docker: Docker | None, needed: SharedMemoryNeed, largest_mib: int
) -> Iterator[Finding]:
    resources = spec.instance.resources
    shm, memory = resources.shm_mib, resources.memory_mib
    if shm is None:
        return
    where = f"{_KEY} = {shm}MiB"
    if docker is None:
        found = (
            "has no effect without Docker: instances use the node's own /dev/shm, which all its "
            "processes share"
        )
        step = "Remove it; `df -h /dev/shm` on a node shows what there is"
        yield _finding(where, found, step, fatal=False)
    elif shm >= memory:
        found = f"does not fit into instance.resources.memory = {memory}MiB, which includes it"
        step = (
            "Raise instance.resources.memory to this size plus what Triton itself needs; or "
            "lower it"
        )
        yield _finding(where, found, step, fatal=True)
    elif 2 * shm > largest_mib > 0:
        found = (
            "may be more than a node can give: YARN cannot set its size, and a container's "
            "/dev/shm holds half of its node's memory"
        )
        yield _finding(where, found, "Lower it, or use nodes with more memory", fatal=False)
    if docker is not None and needed.mib > shm:
        found = f"is less than what {_copies(needed)} take at the start: {needed.mib:,.0f} MiB"
        yield _finding(where, found, "Raise it, and the memory with it", fatal=False)


def _copies(needed: SharedMemoryNeed) -> str:
    what = "copy of a Python model" if needed.copies == 1 else "copies of Python models"
    return f"{needed.copies} {what} of {needed.region_mib:g} MiB"


def _finding(where: str, found: str, step: str, *, fatal: bool) -> Finding:
    return Finding("TARN-3159", where, found, step, fatal=fatal)
