"""The checks of `tarn doctor --probe` on YARN."""

import functools
import random
import secrets
import sys
from collections.abc import Callable, Iterator

from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.interfaces import Check, CheckResult, ClientContext
from tarn.plain import structure
from tarn.release import version
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.deployer import start_child
from tarn_plugins.runtime.yarn.probe import gpu_checks, node_checks, program_checks
from tarn_plugins.runtime.yarn.probe.driver import Patience, ProbeResult, ProbeRound
from tarn_plugins.runtime.yarn.probe.report import ProbeReport
from tarn_plugins.runtime.yarn.probe.subjects import ProbeSubject, subjects

__all__ = ["checks", "probes"]

_EPHEMERAL = range(32768, 60999)
"""Linux's own range for a port that nobody chose, as a master's is with ``api.port: 0``."""
_TRIES = 3

Judge = Callable[[ProbeReport], CheckResult]


def probes(
    spec: ClusterSpec,
    context: ClientContext,
    patience: Patience = Patience(),  # noqa: B008 (frozen)
) -> Iterator[Check]:
    """Yield the checks of the containers that *spec* needs; they share one round of probes."""
    settings, problems = structure(YarnSettings, spec.runtime.options, "runtime.options")
    if problems or not isinstance(settings, YarnSettings):
        return  # whoever reads the spec says what is wrong with it
    ports = [spec.api.port] if spec.api.port else random.sample(_EPHEMERAL, _TRIES)
    python, word = settings.python or sys.executable, secrets.token_hex(8)
    try:
        found = tuple(subjects(spec, settings, python, ports, word))
    except LaunchError:
        return  # the same
    orders = {subject.key: subject.order for subject in found}
    round_ = ProbeRound(lambda: start_child(settings, context), orders, context.clock, patience)
    for subject in found:
        asked = functools.partial(round_.outcome, subject.key)
        yield from checks(subject, asked, patience.most_s)


def checks(
    subject: ProbeSubject, outcome: Callable[[], ProbeResult], within_s: float
) -> Iterator[Check]:
    """Yield the checks of one container; *outcome* is asked for by each of them."""
    for name, matters, judge in _judges(subject):
        yield Check(
            f"node {name} ({subject.where})",
            matters,
            _look(subject, outcome, judge),
            within_s=within_s,
        )


def _look(
    subject: ProbeSubject, outcome: Callable[[], ProbeResult], judge: Judge
) -> Callable[[], CheckResult]:
    first = judge in (node_checks.container, gpu_checks.image)

    def look() -> CheckResult:
        told = ProbeReport(subject, outcome())
        return judge(told) if first or told.nothing is None else told.nothing

    return look


def _judges(subject: ProbeSubject) -> Iterator[tuple[str, str, Judge]]:
    if subject.image:
        yield (
            "Docker",
            "Each instance is the image, started by YARN's Docker runtime.",
            (gpu_checks.image),
        )
    else:
        yield from _plain_judges(subject)
    yield (
        "limits",
        "With few open files, or a user without a name, a server fails late and unclearly.",
        node_checks.limits,
    )
    yield (
        "space",
        "Models, logs and the tensors of Python models need room on the node.",
        node_checks.space,
    )
    if subject.gpus:
        yield (
            "GPUs",
            "An instance must see the GPUs that it was given, and no others.",
            gpu_checks.gpus,
        )


def _plain_judges(subject: ProbeSubject) -> Iterator[tuple[str, str, Judge]]:
    yield "container", "Masters and instances are containers like this one.", node_checks.container
    if subject.order.python:
        yield (
            "Python",
            "The nodes' interpreter runs the master, and starts tritonserver without Docker.",
            lambda told: program_checks.python(told, version()),
        )
    if subject.master:
        yield (
            "Java",
            "The master talks to YARN through Java, 11 or newer.",
            program_checks.java,
        )
        yield (
            "Hadoop",
            "The master uses the Hadoop client of its node, 3.3.0 or newer.",
            program_checks.hadoop,
        )
    yield (
        "network",
        "The master registers with the ResourceManager, and keeps its state on HDFS.",
        node_checks.network,
    )
    yield (
        "clock",
        "On a node with a wrong clock, Kerberos tickets and YARN's tokens end early or late.",
        node_checks.clock,
    )
    if subject.order.ports:
        yield (
            "master's port",
            "Clients reach the master at a port of its node.",
            node_checks.port,
        )
