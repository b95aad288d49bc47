"""Rules about NodeManagers: how they treat containers, and what they allow. Pure."""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.doctor.case import IN_NM, Case, Rule, looked, truth
from tarn_plugins.runtime.yarn.survey import NodeSettings, listed

__all__ = ["RULES"]

Live = Mapping[str, str]

_NM = "yarn.nodemanager"
_LINUX = f"{_NM}.runtime.linux"
_DOCKER = f"{_LINUX}.docker"
_EXECUTOR = f"{_NM}.container-executor.class"
_KILL, _KILL_MS = f"{_NM}.sleep-delay-before-sigkill.ms", 250
_CGROUPS = f"{_NM}.linux-container-executor.resources-handler.class"
_V2 = f"{_NM}.linux-container-executor.cgroups.v2.enabled"


class _Keeper(enum.StrEnum):
    """What enforces the memory limit of a container."""

    CGROUPS = "kept by cgroups"
    NODE_MANAGER = "kept by the NodeManager itself"
    NOBODY = "kept by nobody"


def recovery(case: Case) -> CheckResult:
    """Check whether a restart of a NodeManager leaves its containers alone."""
    names = (f"{_NM}.recovery.enabled", f"{_NM}.recovery.supervised")
    nodes = case.nodes(names[0])
    then = {
        names[0]: "a restart of its NodeManager ends every instance on the node",
        names[1]: "a NodeManager that is stopped for a moment ends every instance on its node",
    }
    for name in names:
        off = [node for node in nodes if not truth(node.properties, name, default=False)]
        if off:
            extra = f", and {_NM}.address a fixed port" if name == names[0] else ""
            step = f"Have {name} = true{extra}, {IN_NM}"
            where = _on(off, name, "false")
            return looked("", (Finding("TARN-3160", where, then[name], step, fatal=False),))
    return looked(f"a restart of a NodeManager leaves its containers alone ({_asked(nodes)})")


def ending(case: Case) -> CheckResult:
    """Check whether YARN waits as long as Triton may take to end."""
    nodes = case.nodes(_KILL)
    wanted_s = case.spec.triton.exit_timeout_s
    waits_s = {node: int(node.properties.get(_KILL, _KILL_MS)) / 1000 for node in nodes}
    short = [node for node in nodes if waits_s[node] < wanted_s]
    least = min(waits_s.values())
    seen = f"YARN waits {least:g} s, and Triton may take triton.exit_timeout = {wanted_s:g} s"
    if not short:
        return looked(seen)
    found = (
        f"Triton is killed {least:g} s after it was told to end: requests that a drain did not "
        "finish are cut"
    )
    step = f"Have {_KILL} = {round(wanted_s * 1000)} {IN_NM}, or lower triton.exit_timeout"
    least_ms = str(round(least * 1000))
    where = _on(short, _KILL, least_ms)
    return looked(seen, (Finding("TARN-3162", where, found, step, fatal=False),))


def memory(case: Case) -> CheckResult:
    """Report what enforces the memory limit of containers."""
    nodes = case.nodes(f"{_NM}.resource.memory.enforced")
    seen = sorted({_keeper(node.properties) for node in nodes})
    return looked(f"{' or '.join(seen)} ({_asked(nodes)})", _memory(nodes))


def _keeper(live: Live) -> _Keeper:
    if truth(live, f"{_NM}.resource.memory.enabled", default=False):
        return _Keeper.CGROUPS
    polled = truth(live, f"{_NM}.pmem-check-enabled", default=True)
    return _Keeper.NODE_MANAGER if polled and _looks(live) else _Keeper.NOBODY


def _looks(live: Live) -> bool:
    """Return whether the NodeManager itself ends a container that exceeds its memory."""
    # It does not if cgroups are strict, which Hadoop assumes by default, even without cgroups.
    return not truth(live, f"{_NM}.resource.memory.enforced", default=True)


def _memory(nodes: Iterable[NodeSettings]) -> Iterator[Finding]:
    loose = [node for node in nodes if _keeper(node.properties) is _Keeper.NOBODY]
    if loose:
        name = f"{_NM}.resource.memory.enforced"
        yield Finding(
            "TARN-3163",
            _on(loose, name, "true"),
            "a container that takes more memory than it asked for is not ended: the node runs "
            "out of memory instead, and its kernel kills any process",
            f"Have {name} = false and {_NM}.pmem-check-enabled = true {IN_NM}; or let cgroups do "
            f"it: {_NM}.resource.memory.enabled = true with LinuxContainerExecutor",
            fatal=False,
        )
    name = f"{_NM}.vmem-check-enabled"
    strict = [n for n in nodes if _looks(n.properties) and truth(n.properties, name, default=True)]
    if strict:
        yield Finding(
            "TARN-3163",
            _on(strict, name, "true"),
            "a container is killed for address space that it only reserves, as CUDA does with "
            "tens of GiB",
            f"Have {name} = false {IN_NM}",
            fatal=False,
        )


def docker(case: Case) -> CheckResult:
    """Check whether the nodes' properties allow containers of this image."""
    nodes = case.nodes(f"{_LINUX}.allowed-runtimes")
    live = nodes[0].properties
    seen = (
        f"networks {live.get(f'{_DOCKER}.allowed-container-networks', 'host,none,bridge')}; "
        f"runtimes {live.get(f'{_DOCKER}.allowed-container-runtimes', 'runc')}; trusted "
        "registries and mounts are in container-executor.cfg of the nodes, which cannot be read "
        "from here: `tarn doctor --probe` tries them"
    )
    fit = {node.host for node in checks.fitting(case.spec, case.settings.queue, case.overview)}
    findings = []
    for name, allows, value, found in _docker_needs(case):
        lacking = [node for node in nodes if not allows(node.properties)]
        if lacking:
            now = lacking[0].properties.get(name, "")
            step = (
                f"Have {name} = {value} {IN_NM}; or run tritonserver as a process of the node: "
                "runtime.options.docker = null"
            )
            where = _on(lacking, name, now or "not set")
            # One node that allows it is enough for a start.
            fatal = not any(node.host in fit for node in nodes if node not in lacking)
            findings.append(Finding("TARN-3164", where, found, step, fatal=fatal))
    return looked(seen, findings)


def _docker_needs(case: Case) -> Iterator[tuple[str, Callable[[Live], bool], str, str]]:
    """Yield (property, test of it, right value, problem) for each need."""
    options = case.settings.docker
    assert options is not None
    name = _EXECUTOR
    executor = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
    yield (
        name,
        lambda live: live.get(_EXECUTOR, "").endswith(".LinuxContainerExecutor"),
        executor,
        "only LinuxContainerExecutor starts Docker containers",
    )
    name = f"{_LINUX}.allowed-runtimes"
    yield (*_member(name, "docker", "default"), "the nodes do not allow Docker")
    name = f"{_DOCKER}.allowed-container-networks"
    network = options.network
    yield (*_member(name, network, "host,none,bridge"), f"the network '{network}' is not allowed")
    if case.spec.instance.resources.gpus and options.gpu_runtime:
        name, wanted = f"{_DOCKER}.allowed-container-runtimes", options.gpu_runtime
        yield (*_member(name, wanted, "runc"), f"the runtime '{wanted}' of Docker is not allowed")
    for asked, key, what in (
        (options.privileged, "privileged-containers.allowed", "privileged containers are"),
        (options.delayed_removal, "delayed-removal.allowed", "delayed removal is"),
    ):
        if asked:
            name = f"{_DOCKER}.{key}"
            allowed = partial(truth, name=name, default=False)
            yield name, allowed, "true", f"{what} not allowed"


def _member(name: str, word: str, default: str) -> tuple[str, Callable[[Live], bool], str]:
    """Return the need of a list that must contain *word*."""

    def allows(live: Live) -> bool:
        return word in _words(live.get(name) or default)

    return name, allows, ",".join(dict.fromkeys([*_words(default), word]))


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def cgroups(case: Case) -> CheckResult:
    """Report the use of cgroups; only a node shows their version, unless it is set."""
    nodes = case.nodes(_CGROUPS)
    used = sorted({_cgroups(node.properties) for node in nodes})
    chosen = {node.properties[_V2] for node in nodes if node.properties.get(_V2)}
    if chosen == {"true"}:
        return looked(f"version 2; {' or '.join(used)}")
    return CheckResult(
        f"{' or '.join(used)}; their version is seen on a node: `tarn doctor --probe`", known=False
    )


def _cgroups(live: Live) -> str:
    kinds = [
        kind
        for kind in ("cpu", "memory", "disk", "network")
        if truth(live, f"{_NM}.resource.{kind}.enabled", default=False)
    ]
    if live.get(_CGROUPS, "").endswith("CgroupsLCEResourcesHandler"):
        kinds = sorted({*kinds, "cpu"})
    return f"cgroups limit {' and '.join(kinds)}" if kinds else "cgroups limit nothing"


def _on(nodes: list[NodeSettings], name: str, now: str) -> str:
    """Return the place of a finding: the property *name* with the value *now* on *nodes*."""
    return f"{name} = {now} ({listed([node.host for node in nodes])})"


def _asked(nodes: tuple[NodeSettings, ...]) -> str:
    return f"asked: {listed([node.host for node in nodes])}"


RULES = (
    Rule(
        "NodeManagers' recovery",
        "Instances should go on while a NodeManager is restarted.",
        recovery,
    ),
    Rule("time to end", "Triton finishes what it has before it ends.", ending),
    Rule("memory of containers", "A container must not take the memory of others.", memory),
    Rule(
        "Docker on the nodes",
        "A container that the nodes do not allow fails on every node, at every attempt.",
        docker,
        lambda _spec, settings: settings.docker is not None,
    ),
    Rule(
        "cgroups",
        "They keep a container within its memory and its cores, and show it its own limits.",
        cgroups,
    ),
)
