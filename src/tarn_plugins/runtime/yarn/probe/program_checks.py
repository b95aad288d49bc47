"""What the programs of a node mean for masters and instances on it: Python, Java, Hadoop. Pure."""

from collections.abc import Iterator

from tarn.interfaces import CheckResult, Finding
from tarn.java import OLDEST_HADOOP, OLDEST_JAVA
from tarn.release import DISTRIBUTION, UNKNOWN
from tarn_plugins.runtime.yarn.environment import PYTHONS
from tarn_plugins.runtime.yarn.probe.report import ProbeReport

__all__ = ["hadoop", "java", "python"]

_ANOTHER = "Name the interpreter on the nodes in runtime.options.python, or make one: `tarn pack`"


def python(told: ProbeReport, ours: str) -> CheckResult:
    """Say whether the interpreter of the nodes runs TARN; *ours* is this client's version."""
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
    """Return what the settings name, or would: an interpreter, or the archive that holds it."""
    return told.subject.order.archive or told.subject.order.python


def _packages(told: ProbeReport, where: str, ours: str) -> Iterator[Finding]:
    facts, on = told.facts, f"on {told.node}"
    mend = (
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
        yield Finding("TARN-3182", where, f"cannot import tarn {on}: {error}", mend)
        return
    lacks = facts.get("python_lacks")
    if lacks and told.subject.master:
        yield Finding("TARN-3182", where, f"lacks what a master needs {on}: {lacks}", mend)
    tarn = facts.get("tarn_version")
    if UNKNOWN not in (tarn, ours) and tarn not in ("", ours):
        found = f"has tarn {tarn} {on}, and this client has {ours}"
        yield Finding("TARN-3182", where, found, mend, fatal=False)


def java(told: ProbeReport) -> CheckResult:
    """Say whether the Java that a master would take is new enough."""
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
    """Say whether a master finds Hadoop's client on the node."""
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
