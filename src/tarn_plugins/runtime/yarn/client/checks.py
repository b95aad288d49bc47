"""What would keep a cluster from starting on this YARN, found before anything starts. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import attrs

from tarn.domain import ClusterSpec
from tarn.errors import TarnError
from tarn.interfaces import Finding
from tarn.triton import settings
from tarn_plugins.runtime.yarn.environment import INTERPRETER

__all__ = ["Land", "Queue", "findings", "from_error"]

_ANY_LABEL = "*"
_MEMORY, _VCORES = "memory-mb", "vcores"


@attrs.frozen
class Queue:
    """One queue, as the ResourceManager shows it to this user."""

    name: str
    running: bool = True
    may_submit: bool = True
    labels: tuple[str, ...] = (_ANY_LABEL,)
    """Node labels that its applications may use; ``*``: every one."""


@attrs.frozen
class Land:
    """What a client sees of YARN and HDFS before it submits."""

    user: str = ""
    queues: tuple[Queue, ...] = ()
    """Leaf queues; a full path and its last part name the same one."""
    maximum: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """The largest container: ``memory-mb``, ``vcores``, and every other resource type."""
    labels: tuple[str, ...] = ()
    """Node labels of the whole YARN."""
    am_max_attempts: int | None = None
    """The RM's cap on a master's attempts; None: not told."""
    staging: str = ""
    staging_problem: str = ""
    """Why nothing can be written there; empty when it can."""
    placement: str = "scheduling"
    placement_reason: str = ""
    repository: tuple[Finding, ...] = ()
    """What is wrong with a repository that the nodes fetch by themselves."""


def findings(spec: ClusterSpec, queue: str, python: str, land: Land) -> Iterator[Finding]:
    """Yield everything that this YARN has against *spec*."""
    yield from settings.findings(spec)
    yield from _queue(queue, land)
    yield from _resources(spec, land)
    yield from _labels(spec, queue, land)
    yield from _attempts(spec, land)
    yield from _staging(land)
    yield from _python(python)
    yield from _placement(spec, land)
    yield from land.repository


def from_error(error: TarnError) -> Finding:
    """Return the finding that an *error* of the first question to YARN is."""
    found = f"{error.found}. {error.right}" if error.right else error.found
    return Finding(
        error.code if error.code != TarnError.default_code else "TARN-3130",
        error.where or "yarn",
        found,
        error.next_step,
    )


def _queue(name: str, land: Land) -> Iterator[Finding]:
    where = f"runtime.options.queue = '{name}'"
    queue = _named(name, land)
    usable = sorted(q.name for q in land.queues if q.running and q.may_submit)
    listed = (
        f"Use one of these: {', '.join(usable)}"
        if usable
        else (
            f"No queue takes applications of {land.user or 'this user'}: ask YARN's administrator"
        )
    )
    if not land.queues:
        return  # the RM showed none, so nothing is known
    if queue is None:
        yield Finding("TARN-3133", where, "there is no such leaf queue", listed)
    elif not queue.running:
        yield Finding("TARN-3133", where, "is stopped: it takes no applications", listed)
    elif not queue.may_submit:
        yield Finding("TARN-3133", where, f"{land.user} may not submit applications to it", listed)


def _named(name: str, land: Land) -> Queue | None:
    for queue in land.queues:
        if name in (queue.name, queue.name.rpartition(".")[2]):
            return queue
    return None


def _resources(spec: ClusterSpec, land: Land) -> Iterator[Finding]:
    resources = spec.instance.resources
    asked = (
        ("instance.resources.memory", _MEMORY, resources.memory_mib, "MiB"),
        ("instance.resources.vcores", _VCORES, resources.vcores, ""),
        ("master.memory", _MEMORY, spec.master.memory_mib, "MiB"),
        ("master.vcores", _VCORES, spec.master.vcores, ""),
    )
    for key, kind, wanted, unit in asked:
        most = land.maximum.get(kind)
        if most is not None and wanted > most:
            yield Finding(
                "TARN-3134",
                f"{key} = {wanted}{unit}",
                f"YARN's largest container has {most}{unit}",
                f"Lower {key}, or have the property {_property(kind)} raised",
            )
    yield from _accelerators(resources.gpus, resources.gpu_resource, land)


def _accelerators(count: int, kind: str, land: Land) -> Iterator[Finding]:
    if not count or not land.maximum:
        return
    most = land.maximum.get(kind)
    if most is None:
        others = sorted(set(land.maximum) - {_MEMORY, _VCORES})
        known = f"it knows {', '.join(others)}" if others else "it knows memory and vcores only"
        yield Finding(
            "TARN-3135",
            f"instance.resources.gpu_resource = '{kind}'",
            f"YARN has no such resource type; {known}",
            "Name one that it knows, set gpus to 0, or have it added to yarn.resource-types",
        )
    elif count > most:
        yield Finding(
            "TARN-3135",
            f"instance.resources.gpus = {count}",
            f"YARN's largest container has {most} of {kind}",
            f"Lower instance.resources.gpus, or have {_property(kind)} raised",
        )


def _property(kind: str) -> str:
    names = {
        _MEMORY: "yarn.scheduler.maximum-allocation-mb",
        _VCORES: "yarn.scheduler.maximum-allocation-vcores",
    }
    return names.get(kind, f"yarn.resource-types.{kind}.maximum-allocation")


def _labels(spec: ClusterSpec, queue: str, land: Land) -> Iterator[Finding]:
    here = _named(queue, land)
    allowed = (_ANY_LABEL,) if here is None else here.labels
    for key, label in (
        ("placement.node_label", spec.placement.node_label),
        ("master.node_label", spec.master.node_label),
    ):
        if label and label not in land.labels:
            known = ", ".join(land.labels) or "none"
            yield Finding(
                "TARN-3136",
                f"{key} = '{label}'",
                f"YARN has no such node label (it has: {known})",
                "Mend it, or leave it empty for the default partition",
            )
        elif label and _ANY_LABEL not in allowed and label not in allowed:
            yield Finding(
                "TARN-3136",
                f"{key} = '{label}'",
                f"the queue '{queue}' may not use it (it may use: {', '.join(allowed) or 'none'})",
                "Choose another queue or label, or have accessible-node-labels changed",
            )


def _attempts(spec: ClusterSpec, land: Land) -> Iterator[Finding]:
    cap, wanted = land.am_max_attempts, spec.master.max_attempts
    if cap is not None and cap < wanted:
        yield Finding(
            "TARN-3137",
            f"master.max_attempts = {wanted}",
            f"YARN allows {cap}; a master that is lost more often within ten minutes ends the "
            "cluster",
            "Have yarn.resourcemanager.am.max-attempts (or yarn.resourcemanager.am."
            "global.max-attempts) raised",
            fatal=False,
        )


def _staging(land: Land) -> Iterator[Finding]:
    if land.staging_problem:
        yield Finding(
            "TARN-3138",
            f"runtime.options.staging = '{land.staging}'",
            land.staging_problem,
            "Name a directory that you may write in runtime.options.staging",
        )


def _python(python: str) -> Iterator[Finding]:
    if python == INTERPRETER:
        return  # a packed environment is looked at by itself
    path = PurePosixPath(python)
    if not path.is_absolute():
        yield Finding(
            "TARN-3139",
            f"runtime.options.python = '{python}'",
            "is no absolute path; the nodes have no working directory to look it up in",
            "Name the interpreter on the nodes by its whole path",
        )
    elif path.parts[1:2] in (("home",), ("tmp",), ("Users",)):
        yield Finding(
            "TARN-3139",
            f"runtime.options.python = '{python}'",
            "looks like a path of this machine; every node must have it too, with tarn installed",
            "Where it is not shared, name the interpreter on the nodes in runtime.options.python",
            fatal=False,
        )


def _placement(spec: ClusterSpec, land: Land) -> Iterator[Finding]:
    if land.placement == "plain" and spec.placement.spread == "node":
        yield Finding(
            "TARN-3140",
            "placement.spread = 'node'",
            f"YARN takes no placement constraints ({land.placement_reason}); TARN keeps its "
            "instances apart itself, but not from those of other clusters",
            "Have yarn.resourcemanager.placement-constraints.handler set to scheduler",
            fatal=False,
        )
