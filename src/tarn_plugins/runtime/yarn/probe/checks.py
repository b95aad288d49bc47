"""Checks of a node's facts, programs and GPUs, or an image, for masters and instances. Pure.

Each function returns the result of one check. Without facts, only `container` and `image` are
called.
"""

from collections.abc import Iterator, Mapping

from tarn.domain.endpoint import host_port
from tarn.interfaces import CheckResult, Finding
from tarn.java import OLDEST_HADOOP, OLDEST_JAVA
from tarn.plain import pasted
from tarn.release import DISTRIBUTION, UNKNOWN
from tarn_plugins.runtime.yarn.environment import PYTHONS
from tarn_plugins.runtime.yarn.probe.messages import RESOURCE_MANAGER, Facts, ProbeReport

__all__ = [
    "clock",
    "container",
    "gpus",
    "hadoop",
    "image",
    "java",
    "limits",
    "network",
    "port",
    "python",
    "space",
]

_FEW_FILES = 4096
_LITTLE_SHM_MIB, _LITTLE_DISK_MIB, _LITTLE_TMP_MIB = 64, 2048, 256
# Seconds: what confuses a reader of events; what YARN's tokens and Kerberos do not stand.
_OFF_S, _FAR_OFF_S = 10.0, 300.0

_ANOTHER = "Name the interpreter on the nodes in runtime.options.python, or make one: `tarn pack`"


def container(told: ProbeReport) -> CheckResult:
    """Check whether a container came and told, and what node it was."""
    if told.outcome.failure is not None:
        return CheckResult("", (told.outcome.failure,))
    if told.outcome.untold:
        return CheckResult(told.outcome.untold, known=False)
    facts = told.facts
    seen = (
        f"{told.node}, granted after {told.outcome.waited_s:.1f} s: {facts.get('kernel')}, "
        f"{facts.get('machine')}, {facts.get('glibc') or 'an unknown C library'}, cgroup "
        f"{facts.get('cgroup') or 'unknown'}, {facts.get('locale') or 'unknown'}, umask "
        f"{facts.get('umask') or 'unknown'}"
    )
    if not facts.whole:
        seen += "; YARN kept only a part of its output"
    return CheckResult(seen)


def limits(told: ProbeReport) -> CheckResult:
    """Report a container's user, and its limits of open files and locked memory."""
    facts = told.facts
    user, uid = facts.get("user"), facts.get("uid")
    seen = (
        f"{user if user not in ('', uid) else 'no name'} (uid {uid}), {facts.get('nofile')} open "
        f"files, {facts.get('memlock')} KiB of locked memory"
    )
    return CheckResult(seen, tuple(_limits(told)))


def _limits(told: ProbeReport) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    files = facts.number("nofile")
    if files is not None and files < _FEW_FILES:
        yield _warning(
            where,
            f"a container may open {files} files; each client's connection is one",
            "Have LimitNOFILE of the NodeManager's service raised to 65536, and restart it",
        )
    if facts.yes("account") is False and not told.subject.image:
        yield _warning(
            where,
            f"uid {facts.get('uid')} has no account there: programs that ask for its name fail",
            "Have the user made on the nodes (with the LinuxContainerExecutor YARN needs it)",
        )


def space(told: ProbeReport) -> CheckResult:
    """Report what room there is for shared memory, files and temporary files."""
    facts = told.facts
    places = {"/dev/shm": "shm", "the container's directory": "disk", "/tmp": "tmp"}  # noqa: S108
    seen = []
    for place, name in places.items():
        room = facts.room(name)
        seen.append(f"{place} {'unknown' if room is None else f'{_size(room[1])} free'}")
    return CheckResult(", ".join(seen), tuple(_space(told)))


def _space(told: ProbeReport) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    shm, disk, tmp = facts.room("shm"), facts.room("disk"), facts.room("tmp")
    if shm is not None and shm[0] <= _LITTLE_SHM_MIB:
        yield _warning(
            where,
            f"shared memory has {shm[0]} MiB: three Python models, or one large tensor, fill it",
            "In Docker: have YARN's administrator allow a tmpfs mount of /dev/shm, or start "
            "dockerd with --default-shm-size; else have /dev/shm mounted with a larger size",
        )
    if disk is not None and disk[1] < _LITTLE_DISK_MIB:
        yield _warning(
            where,
            f"{_size(disk[1])} are free where containers keep their models and logs",
            "Have space freed below yarn.nodemanager.local-dirs and log-dirs",
        )
    if tmp is not None and tmp[1] < _LITTLE_TMP_MIB:
        yield _warning(
            where, f"{_size(tmp[1])} are free for temporary files", "Have space freed in /tmp"
        )


def network(told: ProbeReport) -> CheckResult:
    """Check whether the node reaches Hadoop's services, and which variables name a proxy."""
    reached = {
        (what, address): told.facts.yes(f"reach_{at}")
        for at, (what, address) in enumerate(told.outcome.targets, 1)
    }
    seen = [f"{what} at {address} {_REACHED[said]}" for (what, address), said in reached.items()]
    proxies = told.facts.get("proxies")
    seen.append(f"proxy variables: {proxies}" if proxies else "no proxy variable")
    return CheckResult(", ".join(seen), tuple(_network(told, reached)))


_REACHED = {True: "answers", False: "does not answer", None: "unknown"}


def _network(
    told: ProbeReport, reached: Mapping[tuple[str, str], bool | None]
) -> Iterator[Finding]:
    for (what, address), said in reached.items():
        another = any(answers for (kind, _), answers in reached.items() if kind == what)
        # Only the active ResourceManager listens for masters, so a standby may not answer.
        if said is False and not (another and what == RESOURCE_MANAGER):
            yield Finding(
                "TARN-3187",
                told.node,
                f"no connection to the {what} at {address} from there",
                "Check that the name has the same address there (getent hosts), that the "
                "service listens at that address, and the firewall between them",
                fatal=not another,
            )


def clock(told: ProbeReport) -> CheckResult:
    """Report how far the node's clock is from this machine's, as far as the time between tells."""
    milliseconds = told.facts.number("clock")
    if milliseconds is None:
        return CheckResult("the node did not report its time", known=False)
    at = milliseconds / 1000
    # The node read its clock between these two moments of this machine's clock.
    off_s = max(told.outcome.started_at - at, 0.0) - max(at - told.outcome.heard_at, 0.0)
    if abs(off_s) < _OFF_S:
        return CheckResult("the same as this machine's, as far as can be measured")
    ahead = "behind" if off_s > 0 else "ahead of"
    found = f"its clock is at least {abs(off_s):.0f} s {ahead} this machine's"
    finding = Finding(
        "TARN-3185",
        told.node,
        found,
        "Have the clocks kept by NTP (chronyc tracking shows one); Kerberos and YARN's tokens "
        "tolerate 5 minutes",
        fatal=abs(off_s) >= _FAR_OFF_S,
    )
    return CheckResult(found, (finding,))


def port(told: ProbeReport) -> CheckResult:
    """Check whether this machine can connect to where a master on the node would listen."""
    facts = told.facts
    at = facts.get("port")
    if told.outcome.heard:
        return CheckResult(
            f"{host_port(told.node, at or told.subject.order.ports[0])} answered from here"
        )
    if not at:
        why = facts.get("port_error") or "the node has no Python to listen with"
        return CheckResult(f"not tried: {why}", known=False)
    address = host_port(told.node, at)
    finding = Finding(
        "TARN-3189",
        address,
        "listened, but this machine did not reach it "
        f"({told.outcome.call_error or 'no answer'}); it could not reach the master's API either",
        "Check three things: the name leads to that node from here "
        f"(`{pasted('getent', 'hosts', told.node)}`); a firewall lets this machine through "
        f"(`{pasted('nc', '-vz', told.node, at)}` while a program listens there; set api.port "
        "to a port that it allows); if the firewall cannot be opened, reading and scaling still "
        "work through the ResourceManager's proxy",
        fatal=False,
    )
    return CheckResult(f"{address} is not reached from here", (finding,))


def _warning(where: str, found: str, next_step: str) -> Finding:
    return Finding("TARN-3185", where, found, next_step, fatal=False)


def _size(mib: int) -> str:
    return f"{mib} MiB" if mib < 10 * 1024 else f"{mib // 1024} GiB"


def python(told: ProbeReport, ours: str) -> CheckResult:
    """Check whether the interpreter of the nodes runs TARN; *ours* is this client's version."""
    facts, path = told.facts, _named(told)
    if not facts.get("python"):
        return CheckResult("the node ended before it tried it", known=False)
    version, tarn = facts.get("python_version"), facts.get("tarn_version")
    seen = f"{path} on {told.node}: {f'Python {version}' if version else 'not usable'}"
    if tarn:
        seen += f", tarn {tarn}"
    return CheckResult(seen, tuple(_python(told, ours)))


def _python(told: ProbeReport, ours: str) -> Iterator[Finding]:
    facts, where = told.facts, f"runtime.options.python = '{_named(told)}'"
    state, on = facts.get("python"), f"on {told.node}"
    broken = {
        "missing": f"there is no such file {on}",
        "denied": f"{facts.get('user') or 'the user'} may not run it {on}",
        "failed": f"it ends {on} with code {facts.get('python_code')}: "
        f"{facts.get('python_error') or 'without a message'}",
        "late": f"it was not tried {on}: the earlier checks took too long",
    }
    if state in broken:
        yield Finding("TARN-3182", where, broken[state], _ANOTHER, fatal=state != "late")
        return
    if facts.version("python_version")[:2] < PYTHONS[0]:
        found = f"is Python {facts.get('python_version')} {on}; 3.11 or newer is needed"
        yield Finding("TARN-3182", where, found, _ANOTHER)
        return
    yield from _packages(told, where, ours)
    if told.subject.instances and facts.yes("python_lib") is False:
        yield Finding(
            "TARN-3182",
            where,
            f"has no shared libpython {on}, which Triton's Python backend needs",
            "Install it (Debian: libpython3.11), or use a Python built with --enable-shared",
            fatal=False,
        )


def _named(told: ProbeReport) -> str:
    """Return the interpreter in the settings, or its archive."""
    return told.subject.order.archive or told.subject.order.python


def _packages(told: ProbeReport, where: str, ours: str) -> Iterator[Finding]:
    facts, on = told.facts, f"on {told.node}"
    fix = (
        "Pack it again: `tarn pack`"
        if told.subject.order.archive
        else f"On the nodes: {_named(told)} -m pip install '{DISTRIBUTION}[yarn]=={ours}'; or "
        "pack everything with `tarn pack`"
    )
    if other := facts.get("tarn_other"):
        yield Finding(
            "TARN-3182",
            where,
            f"holds the package 'tarn' {other} {on}: another project's, which takes the place of "
            "TARN's own",
            f"On the nodes: {_named(told)} -m pip uninstall tarn, then {_named(told)} -m pip "
            f"install --force-reinstall '{DISTRIBUTION}[yarn]=={ours}'; or pack everything with "
            "`tarn pack`",
        )
        return
    if error := facts.get("tarn_error"):
        yield Finding("TARN-3182", where, f"cannot import tarn {on}: {error}", fix)
        return
    lacks = facts.get("python_lacks")
    if lacks and told.subject.master:
        yield Finding("TARN-3182", where, f"lacks what a master needs {on}: {lacks}", fix)
    tarn = facts.get("tarn_version")
    if UNKNOWN not in (tarn, ours) and tarn not in ("", ours):
        found = f"has tarn {tarn} {on}, and this client has {ours}"
        yield Finding("TARN-3182", where, found, fix, fatal=False)


def java(told: ProbeReport) -> CheckResult:
    """Check whether the Java that a master would take is new enough."""
    facts = told.facts
    state, path = facts.get("java"), facts.get("java_path")
    if not state:
        return CheckResult("the node ended before it tried it", known=False)
    source = _SOURCES.get(facts.get("java_from"), "")
    seen = f"{path or 'none'}{source}: {facts.get('java_version') or 'not usable'}"
    if vendor := facts.get("java_vendor"):
        seen += f", {vendor}"
    return CheckResult(seen, tuple(_java(told)))


_SOURCES = {
    "java_home": " (runtime.options.java_home)",
    "packed": " (of the packed environment)",
    "JAVA_HOME": " (JAVA_HOME of the node)",
    "PATH": " (on the node's PATH)",
}


def _java(told: ProbeReport) -> Iterator[Finding]:
    facts, path = told.facts, told.facts.get("java_path")
    ways = (
        "Set runtime.options.java_home to a Java 11 or newer that all nodes have, or include a "
        "JRE in a packed environment: `tarn pack`, then runtime.options.python"
    )
    broken = {
        "none": "has no Java: no JAVA_HOME, and no java on PATH",
        "missing": f"has no {path}{_SOURCES.get(facts.get('java_from'), '')}",
        "failed": f"cannot run {path}: {facts.get('java_version') or 'it prints nothing'}",
    }
    if (state := facts.get("java")) in broken:
        yield Finding("TARN-3183", told.node, broken[state], ways)
        return
    release = _release(facts.version("java_version"))
    if release is not None and release < OLDEST_JAVA:
        found = f"has Java {release} at {path}; a master needs 11 or newer"
        yield Finding("TARN-3183", told.node, found, ways)


def _release(version: tuple[int, ...]) -> int | None:
    """Return the feature release: ``1.8.0`` is 8."""
    if not version:
        return None
    return version[1] if version[0] == 1 and len(version) > 1 else version[0]


def hadoop(told: ProbeReport) -> CheckResult:
    """Check whether a master finds Hadoop's client on the node."""
    facts = told.facts
    if "hadoop" not in facts.values:
        return CheckResult("the node did not say", known=False)
    script, home = facts.get("hadoop"), facts.get("hadoop_home")
    seen = f"{script or 'none'}, {facts.get('hadoop_version') or 'version unknown'}"
    return CheckResult(f"{seen} on {told.node}", tuple(_hadoop(told, script, home)))


def _hadoop(told: ProbeReport, script: str, home: str) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    if not script:
        found = (
            f"HADOOP_HOME = '{home}' has no bin/hadoop there"
            if home
            else "has no Hadoop client: no HADOOP_HOME, and no hadoop on PATH"
        )
        next_step = "Set runtime.options.hadoop_home to Hadoop's directory on the nodes"
        yield Finding("TARN-3184", where, found, next_step)
    elif error := facts.get("hadoop_error"):
        yield Finding(
            "TARN-3184",
            where,
            f"`{script} classpath --glob` fails: {error}",
            "Run it on that node, and fix what it reports",
        )
    elif (version := facts.version("hadoop_version")) and version < OLDEST_HADOOP:
        found = f"has Hadoop {facts.get('hadoop_version')}; 3.3.0 or newer is needed"
        next_step = "Name a newer client in runtime.options.hadoop_home"
        yield Finding("TARN-3184", where, found, next_step)


def gpus(told: ProbeReport) -> CheckResult:
    """Compare what is visible with the allocation."""
    facts = told.facts
    if told.outcome.gpus_wait:
        return CheckResult(
            f"none was free: {told.outcome.gpus_wait}; so the GPUs of an instance could not be "
            "checked",
            known=False,
        )
    visible = _visible(facts)
    seen = (
        f"{told.outcome.gpus} allocated, {'an unknown number' if visible is None else visible} seen"
    )
    if names := facts.get("gpu_names"):
        seen += f" ({names})"
    if (cuda := facts.get("cuda_visible")) not in ("", "unset"):
        seen += f", CUDA_VISIBLE_DEVICES={cuda}"
    return CheckResult(f"{seen} on {told.node}", tuple(_gpus(told, visible)))


def _visible(facts: Facts) -> int | None:
    """Return how many GPUs a CUDA program would see."""
    count = facts.number("gpus")
    if count is None and facts.get("gpus") == "none":
        count = facts.number("gpu_devices")
    if count is None:
        return None
    named = facts.values.get("cuda_visible", "unset")
    if named == "unset":
        return count
    return min(count, len([each for each in named.split(",") if each.strip()]))


def _gpus(told: ProbeReport, visible: int | None) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    if not told.outcome.gpus:
        return
    kind = told.subject.order.gpu_resource
    if facts.get("gpus") == "failed":
        yield Finding(
            "TARN-3186",
            where,
            f"nvidia-smi fails in a container: {facts.get('gpu_error') or 'without a message'}",
            "Run nvidia-smi on that node: the driver may need a reload, or its module is missing",
        )
    elif visible is not None and visible < told.outcome.gpus:
        docker = (
            "Check runtime.options.docker.gpu_runtime, and yarn.nodemanager.resource-plugins.gpu."
            "docker-plugin on the node"
            if told.subject.image
            else "Have nvidia-smi and the driver installed there, and yarn.nodemanager."
            "resource-plugins set to yarn.io/gpu"
        )
        found = f"a container that was given {told.outcome.gpus} of {kind} sees {visible}"
        yield Finding("TARN-3186", where, found, docker)
    elif visible is not None and visible > told.outcome.gpus:
        yield Finding(
            "TARN-3186",
            where,
            f"a container that was given {told.outcome.gpus} of {kind} sees {visible}: GPUs of "
            "others are not hidden from it",
            "Have yarn.nodemanager.resource.gpu's isolation switched on: LinuxContainerExecutor, "
            "module.enabled=true for gpu in container-executor.cfg, and cgroups",
            fatal=False,
        )


def image(told: ProbeReport) -> CheckResult:
    """Check whether YARN starts the image at all, and whether it can serve."""
    if told.outcome.untold:
        return CheckResult(told.outcome.untold, known=False)
    if told.outcome.failure is not None:
        found = told.outcome.failure
        return CheckResult("", (Finding("TARN-3188", found.where, found.found, found.next_step),))
    facts = told.facts
    seen = (
        f"{told.subject.image} on {told.node}: {facts.get('glibc')}, uid {facts.get('uid')}, "
        f"{facts.get('tritonserver') or 'no tritonserver'}"
    )
    return CheckResult(seen, tuple(_image(told)))


def _image(told: ProbeReport) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    if facts.yes("first") is False:
        yield Finding(
            "TARN-3188",
            where,
            "the container was started without Docker, as a plain process: the node does not "
            "know, or ignores, YARN's Docker runtime",
            "Have yarn.nodemanager.container-executor.class set to the LinuxContainerExecutor and "
            "yarn.nodemanager.runtime.linux.allowed-runtimes to default,docker; or run without "
            "Docker: runtime.options.docker: null",
        )
    elif not facts.get("tritonserver"):
        yield Finding(
            "TARN-3188",
            f"triton.image = '{told.subject.image}'",
            "has no tritonserver on its PATH",
            "Name an image of Triton, such as nvcr.io/nvidia/tritonserver:24.09-py3",
        )
