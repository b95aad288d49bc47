"""The rules for a cluster on this YARN, checked before anything starts. Pure.

A start checks `findings`. `tarn doctor` uses each rule by itself, besides others of its own.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from tarn.domain import ClusterSpec
from tarn.errors import TarnError
from tarn.interfaces import Finding
from tarn.triton import command, response_cache
from tarn.triton.lint import Stubs
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.environment import INTERPRETER
from tarn_plugins.runtime.yarn.launch import shared_memory
from tarn_plugins.runtime.yarn.launch.docker import notes, problems
from tarn_plugins.runtime.yarn.launch.instance import wanted_ports
from tarn_plugins.runtime.yarn.survey import (
    MEMORY,
    VCORES,
    Amounts,
    Queue,
    YarnNode,
    YarnOverview,
    amounts_text,
    listed,
)

__all__ = [
    "IN_RM",
    "Queue",
    "YarnOverview",
    "accelerators",
    "attempts",
    "container_findings",
    "enough_nodes",
    "findings",
    "fitting",
    "from_error",
    "instance_ask",
    "label_access",
    "master_ask",
    "nodes",
    "placement",
    "python_path",
    "queue_use",
    "sizes",
    "staging_written",
    "usable_labels",
]

IN_RM = "in yarn-site.xml of the ResourceManager, and it restarted"
IN_TYPES = "in resource-types.xml (or yarn-site.xml) of the ResourceManager, and it restarted"
_IN_QUEUES = "in capacity-scheduler.xml of the ResourceManager, then `yarn rmadmin -refreshQueues`"


def findings(
    spec: ClusterSpec, queue: str, python: str, overview: YarnOverview
) -> Iterator[Finding]:
    """Yield everything that prevents or hampers *spec* on this YARN."""
    yield from command.findings(spec, spec.triton.bind or "")
    yield from queue_use(queue, overview)
    yield from sizes(spec, overview)
    yield from accelerators(spec, overview)
    yield from nodes(spec, queue, overview)
    yield from enough_nodes(spec, queue, overview)
    yield from label_access(spec, queue, overview)
    yield from attempts(spec, overview)
    yield from staging_written(overview.staging, overview.staging_problem)
    yield from python_path(python)
    yield from placement(spec, overview)
    yield from overview.repository


def container_findings(
    spec: ClusterSpec, docker: Docker | None, overview: YarnOverview, local: Sequence[Stubs] = ()
) -> Iterator[Finding]:
    """Yield the settings with which no container could start.

    Args:
        spec: The cluster.
        docker: ``runtime.options.docker``.
        overview: YARN's overview, or an empty one.
        local: Python models of a repository at a path, if this machine can read it.
    """
    if docker is not None:
        ports = [port for port in wanted_ports(spec.triton) if port]
        yield from problems(docker, spec.triton, spec.models.repository, ports)
        yield from response_cache.image_findings(spec.triton)
        yield from notes(docker, spec)
    largest_mib = overview.maximum.get(MEMORY, 0)
    yield from shared_memory.findings(spec, docker, overview.python or local, largest_mib)


def from_error(error: TarnError) -> Finding:
    """Return the finding for an *error* of the first question to YARN."""
    found = f"{error.found}. {error.right}" if error.right else error.found
    return Finding(
        error.code if error.code != TarnError.default_code else "TARN-3130",
        error.where or "yarn",
        found,
        error.next_step,
    )


def instance_ask(spec: ClusterSpec) -> Amounts:
    """Return the resources that one instance requests."""
    resources = spec.instance.resources
    gpus = {resources.gpu_resource: resources.gpus} if resources.gpus else {}
    return {MEMORY: resources.memory_mib, VCORES: resources.vcores, **gpus}


def master_ask(spec: ClusterSpec) -> Amounts:
    """Return the resources that the master requests."""
    return {MEMORY: spec.master.memory_mib, VCORES: spec.master.vcores}


def queue_use(name: str, overview: YarnOverview) -> Iterator[Finding]:
    """Yield why this user's applications cannot be submitted to the queue *name*."""
    where = f"runtime.options.queue = '{name}'"
    queue = overview.queue(name)
    usable = sorted(q.name for q in overview.queues if q.running and q.may_submit)
    step = (
        f"Use one of these: {', '.join(usable)}"
        if usable
        else f"No queue takes applications of {overview.user or 'this user'}: "
        "ask YARN's administrator"
    )
    if not overview.queues:
        return  # the RM did not show its queues
    if queue is None:
        yield Finding("TARN-3133", where, "there is no such leaf queue", step)
    elif not queue.running:
        have = f"yarn.scheduler.capacity.{queue.name}.state = RUNNING {_IN_QUEUES}"
        yield Finding(
            "TARN-3133", where, "is stopped: it takes no applications", f"{step}, or have {have}"
        )
    elif not queue.may_submit:
        have = (
            f"{overview.user} added to yarn.scheduler.capacity.{queue.name}"
            f".acl_submit_applications {_IN_QUEUES}"
        )
        found = f"{overview.user} may not submit applications to it"
        yield Finding("TARN-3133", where, found, f"{step}, or have {have}")


def sizes(spec: ClusterSpec, overview: YarnOverview) -> Iterator[Finding]:
    """Yield which memory and vcores are more than YARN puts into one container.

    Where no node has as much, `nodes` says it: no property would help.
    """
    resources = spec.instance.resources
    asked = (
        ("instance.resources.memory", MEMORY, resources.memory_mib, "MiB"),
        ("instance.resources.vcores", VCORES, resources.vcores, ""),
        ("master.memory", MEMORY, spec.master.memory_mib, "MiB"),
        ("master.vcores", VCORES, spec.master.vcores, ""),
    )
    for key, kind, wanted, unit in asked:
        most = overview.maximum.get(kind)
        if most is None or wanted <= most or _beyond_nodes(kind, wanted, overview):
            continue
        name = {MEMORY: "mb", VCORES: "vcores"}[kind]
        yield Finding(
            "TARN-3134",
            f"{key} = {wanted}{unit}",
            f"YARN's largest container has {most}{unit}",
            f"Lower {key}, or have yarn.scheduler.maximum-allocation-{name} = {wanted} or more "
            f"{IN_RM}",
        )


def accelerators(spec: ClusterSpec, overview: YarnOverview) -> Iterator[Finding]:
    """Yield why YARN grants no such accelerators, or not so many in one container."""
    count, kind = spec.instance.resources.gpus, spec.instance.resources.gpu_resource
    if not count or not overview.maximum:
        return
    most = overview.maximum.get(kind)
    if most is None:
        others = sorted(set(overview.maximum) - {MEMORY, VCORES})
        known = f"it knows {', '.join(others)}" if others else "it knows memory and vcores only"
        yield Finding(
            "TARN-3135",
            f"instance.resources.gpu_resource = '{kind}'",
            f"YARN has no such resource type; {known}",
            f"Name one that it knows, set gpus to 0, or have it added to yarn.resource-types "
            f"{IN_TYPES}; the nodes need yarn.nodemanager.resource-plugins = {kind} too",
        )
    elif count > most and not _beyond_nodes(kind, count, overview):
        yield Finding(
            "TARN-3135",
            f"instance.resources.gpus = {count}",
            f"YARN's largest container has {most} of {kind}",
            f"Lower instance.resources.gpus, or have yarn.resource-types.{kind}.maximum-allocation "
            f"= {count} or more {IN_TYPES}",
        )


def nodes(spec: ClusterSpec, queue: str, overview: YarnOverview) -> Iterator[Finding]:
    """Yield what no node of its partition can hold, however free it is; with the nodes."""
    if overview.nodes and not any(node.runs for node in overview.nodes):
        states = listed([f"{node.host} is {node.state}" for node in overview.nodes])
        step = "Start the NodeManagers; their logs say why they are away"
        yield Finding("TARN-3144", "yarn", f"no node runs: {states}", step)
        return
    for key, ask, label in (
        ("instance.resources", instance_ask(spec), spec.placement.node_label),
        ("master", master_ask(spec), spec.master.node_label),
    ):
        there = overview.running(overview.label(label, queue))
        unknown = set(ask) - set(
            overview.maximum
        )  # a type that YARN has not is said by its own rule
        if there and not unknown and not any(node.holds(ask) for node in there):
            yield _no_node(spec, key, ask, there)


def enough_nodes(spec: ClusterSpec, queue: str, overview: YarnOverview) -> Iterator[Finding]:
    """Yield that instances which want a node each find fewer nodes."""
    wanted, fit = spec.replicas.min, fitting(spec, queue, overview)
    if spec.placement.spread == "node" and 0 < len(fit) < wanted:
        count = f"{len(fit)} node{'s' * (len(fit) != 1)}"
        yield Finding(
            "TARN-3144",
            f"replicas.min = {wanted}",
            f"only {count} can hold an instance, and each gets one: "
            f"{listed([node.host for node in fit])}",
            "Lower replicas.min, have more nodes, or let instances share one: placement.spread = "
            "none",
            fatal=False,
        )


def fitting(spec: ClusterSpec, queue: str, overview: YarnOverview) -> tuple[YarnNode, ...]:
    """Return the nodes that can hold an instance when they are free."""
    there = overview.running(overview.label(spec.placement.node_label, queue))
    return tuple(node for node in there if node.holds(instance_ask(spec)))


def _labels(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield (key, node label) of each label that *spec* asks for."""
    for key, label in (
        ("placement.node_label", spec.placement.node_label),
        ("master.node_label", spec.master.node_label),
    ):
        if label:
            yield key, label


def usable_labels(
    spec: ClusterSpec, queue: str, overview: YarnOverview
) -> Iterator[tuple[str, str]]:
    """Yield (key, node label) of each existing label that the queue may use."""
    here = overview.queue(queue)
    for key, label in _labels(spec):
        if label in overview.labels and (here is None or here.may_use(label)):
            yield key, label


def label_access(spec: ClusterSpec, queue: str, overview: YarnOverview) -> Iterator[Finding]:
    """Yield a finding for each label that does not exist, or is not allowed to the queue."""
    here = overview.queue(queue)
    for key, label in _labels(spec):
        if label not in overview.labels:
            known = ", ".join(overview.labels) or "none"
            yield Finding(
                "TARN-3136",
                f"{key} = '{label}'",
                f"YARN has no such node label (it has: {known})",
                "Correct it, or leave it empty for the default partition",
            )
        elif here is not None and not here.may_use(label):
            may, path = ", ".join(here.labels) or "none", here.name
            yield Finding(
                "TARN-3136",
                f"{key} = '{label}'",
                f"the queue '{queue}' may not use it (it may use: {may})",
                f"Choose another queue or label, or have {label} added to yarn.scheduler.capacity."
                f"{path}.accessible-node-labels, and a capacity given by yarn.scheduler.capacity."
                f"{path}.accessible-node-labels.{label}.capacity, {_IN_QUEUES}",
            )


def attempts(spec: ClusterSpec, overview: YarnOverview) -> Iterator[Finding]:
    """Yield a finding when YARN allows fewer attempts than the spec wants."""
    cap, wanted = overview.am_max_attempts, spec.master.max_attempts
    if cap is not None and cap < wanted:
        yield Finding(
            "TARN-3137",
            f"master.max_attempts = {wanted}",
            f"YARN allows {cap}; a master that is lost more often within ten minutes ends the "
            "cluster",
            "Have yarn.resourcemanager.am.max-attempts (where it is set, yarn.resourcemanager.am."
            f"global.max-attempts) = {wanted} {IN_RM}",
            fatal=False,
        )


def staging_written(staging: str, problem: str) -> Iterator[Finding]:
    """Yield a finding when the staging directory cannot be written."""
    if problem:
        yield Finding(
            "TARN-3138",
            f"runtime.options.staging = '{staging}'",
            problem,
            "Name a directory that you may write in runtime.options.staging",
        )


def python_path(python: str) -> Iterator[Finding]:
    """Yield a finding when the nodes may not have the interpreter."""
    if python == INTERPRETER:
        return  # a packed environment is checked separately
    path = PurePosixPath(python)
    if not path.is_absolute():
        yield Finding(
            "TARN-3139",
            f"runtime.options.python = '{python}'",
            "is not an absolute path, and the nodes have no working directory to resolve it",
            "Give the absolute path of the interpreter on the nodes",
        )
    elif path.parts[1:2] in (("home",), ("tmp",), ("Users",)):
        yield Finding(
            "TARN-3139",
            f"runtime.options.python = '{python}'",
            "looks like a path of this machine; every node must have it too, with tarn installed",
            "Where it is not shared, name the interpreter on the nodes in runtime.options.python",
            fatal=False,
        )


def placement(spec: ClusterSpec, overview: YarnOverview) -> Iterator[Finding]:
    """Yield a finding when YARN accepts no placement constraints."""
    if overview.placement == "plain" and spec.placement.spread == "node":
        yield Finding(
            "TARN-3140",
            "placement.spread = 'node'",
            f"YARN takes no placement constraints ({overview.placement_reason}); TARN itself keeps "
            "its instances apart, but not from those of other clusters",
            f"Have yarn.resourcemanager.placement-constraints.handler = scheduler {IN_RM}",
            fatal=False,
        )


def _beyond_nodes(kind: str, wanted: int, overview: YarnOverview) -> bool:
    """Return whether every running node has less than *wanted* of *kind*."""
    return any(node.runs for node in overview.nodes) and wanted > max(
        node.total.get(kind, 0) for node in overview.nodes if node.runs
    )


def _no_node(spec: ClusterSpec, key: str, ask: Amounts, there: tuple[YarnNode, ...]) -> Finding:
    """Return the finding for an *ask* that exceeds each of the nodes *there*."""
    ranks = spec.instance.parallelism.ranks
    whole = (
        f" (tensor x pipeline = {ranks} ranks, all on one node)"
        if ranks > 1 and key == "instance.resources"
        else ""
    )
    largest = sorted(there, key=lambda n: [n.total.get(kind, 0) for kind in reversed([*ask])])
    have = listed([f"{n.host} has {amounts_text(n.total)}" for n in reversed(largest)])
    lacking = [k for k, v in ask.items() if all(n.total.get(k, 0) < v for n in there)]
    what = listed([{MEMORY: "memory"}.get(kind, kind) for kind in lacking]) or "all of it at once"
    return Finding(
        "TARN-3144",
        f"{key} = {amounts_text(ask)}{whole}",
        f"no running node has that much: {have}",
        f"Ask for less ({what}), name the label of larger nodes, or have nodes with more: "
        "yarn.nodemanager.resource.memory-mb, .cpu-vcores, or the plugin of the resource type, in "
        "yarn-site.xml of the node, and its NodeManager restarted",
    )
