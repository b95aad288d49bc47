"""The shared memory that Triton's Python models need, and that a container can have.

Each copy of a Python model has a region in ``/dev/shm``. It has 1 MiB at the start from Triton
23.09 on, and 64 MiB before; it grows with the tensors and never shrinks. Facts, measured on YARN
3.4:

- Docker gives a container 64 MB, and YARN has no setting for another size. It accepts a tmpfs at
  ``/dev/shm`` (see ``docker``), without a size, which may grow to half of the node's memory. Its
  pages count as the container's memory.
- Without Docker, a container uses the node's own ``/dev/shm``, which all processes share.

So ``instance.resources.shm`` cannot be requested: it must fit into ``instance.resources.memory``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from tarn.domain import ClusterSpec
from tarn.domain.spec import TritonSpec
from tarn.interfaces import Finding
from tarn.interfaces.lint import CONFIG, Entry, Flaw, Kind, Node
from tarn.triton.lint import Stubs, pbtxt, scan, stubs
from tarn.triton.lint.scan import BIGGEST_BYTES, assemble
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.messages import FileEntry

__all__ = ["findings", "stubs_at", "stubs_in"]

_TAG = re.compile(r":(?P<year>\d{2})\.(?P<month>\d{2})(?!\d)[^/]*$")
# The first release of Triton's image whose Python models begin with 1 MiB each, not 64.
_SMALLER_SINCE = (23, 9)
_SMALL_MIB, _LARGE_MIB = 1.0, 64.0
_GIVEN = re.compile(r"python,shm-default-byte-size=(?P<bytes>\d+)")
_MIB = 2**20
_KEY = "instance.resources.shm"

# Most configurations to fetch, one by one; a repository with more is not checked.
MOST_READ = 200


@attrs.frozen
class SharedMemoryNeed:
    """The shared memory of an instance's Python models before the first request."""

    copies: int
    region_mib: float

    @property
    def mib(self) -> float:
        """The size of all regions."""
        return self.copies * self.region_mib


def region_mib(triton: TritonSpec) -> float:
    """Return the size of a region at the start: as set, else by the version in the image's tag.

    An image without a version in its tag counts as a new one.
    """
    value = triton.args.get("backend-config", triton.args.get("backend_config", ()))
    texts = value if isinstance(value, (list, tuple)) else (value,)
    if given := [found for found in map(_GIVEN.fullmatch, map(str, texts)) if found]:
        return int(given[-1]["bytes"]) / _MIB
    tag = _TAG.search(triton.image)
    old = tag is not None and (int(tag["year"]), int(tag["month"])) < _SMALLER_SINCE
    return _LARGE_MIB if old else _SMALL_MIB


def need(spec: ClusterSpec, stubs: Sequence[Stubs]) -> SharedMemoryNeed:
    """Return the need of those models of *stubs* that Triton will load."""
    only = spec.models.serve if spec.models.control == "explicit" else ()
    gpus = spec.instance.resources.gpus
    copies = sum(each.on(gpus) for each in stubs if not only or each.model in only)
    return SharedMemoryNeed(copies, region_mib(spec.triton))


def findings(
    spec: ClusterSpec, docker: Docker | None, stubs: Sequence[Stubs] = (), largest_mib: int = 0
) -> Iterator[Finding]:
    """Yield a finding for shared memory, set or needed, that a container cannot have.

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
    # Linux limits a tmpfs without a given size to half of the machine's memory.
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


def stubs_at(path: Path) -> tuple[Stubs, ...]:
    """Return the Python models of the directory *path*; none if it is not on this machine."""
    try:
        return tuple(stubs(scan(path, str(path), _parse).models))
    except OSError:
        return ()


def stubs_in(entries: Sequence[FileEntry], read: Callable[[str], bytes]) -> tuple[Stubs, ...]:
    """Return the Python models in *entries*; *read* fetches a file by its URI.

    Raises:
        ProviderError: The file system did not answer.
    """
    wanted = {
        e.path: e.uri
        for e in entries
        if e.path.split("/")[1:] == [CONFIG] and e.bytes <= BIGGEST_BYTES
    }
    if len(wanted) > MOST_READ:
        return ()
    found = assemble(
        sorted(_entries(entries), key=lambda entry: entry.path),
        "",
        lambda path: read(wanted[path]) if path in wanted else b"",
        _parse,
    )
    return tuple(stubs(found.models))


def _entries(entries: Sequence[FileEntry]) -> Iterator[Entry]:
    """Yield the files, and every directory above them once."""
    above: set[str] = set()
    for entry in entries:
        yield Entry(entry.path, Kind.FILE, entry.bytes)
        parts = entry.path.split("/")[:-1]
        above |= {"/".join(parts[: at + 1]) for at in range(len(parts))}
    for path in above:
        yield Entry(path, Kind.DIRECTORY)


def _parse(text: str) -> tuple[Node | None, tuple[Flaw, ...]]:
    try:
        return pbtxt.read(text), ()
    except pbtxt.Broken as broken:
        return None, (broken.flaw,)
