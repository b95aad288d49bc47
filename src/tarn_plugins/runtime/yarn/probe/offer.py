"""The checks of `tarn doctor --probe` on YARN, and the containers that they start.

There is one container for each node label of the spec, including the default partition; and if
instances run in Docker, another one in the image of ``triton.image``. Other labels are not probed,
since a probe takes room and they do not matter to the spec.
"""

import functools
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence

import attrs

from tarn.domain import ClusterSpec, Launch
from tarn.errors import LaunchError
from tarn.interfaces import Check, CheckResult, ClientContext
from tarn.plain import structure
from tarn.release import version
from tarn_plugins.runtime.yarn import YarnSettings, environment
from tarn_plugins.runtime.yarn.client.hadoop_child import start_child
from tarn_plugins.runtime.yarn.launch import docker
from tarn_plugins.runtime.yarn.probe import checks
from tarn_plugins.runtime.yarn.probe.driver import Patience, ProbeRound
from tarn_plugins.runtime.yarn.probe.messages import (
    ProbeReport,
    ProbeRequest,
    ProbeResult,
    ProbeSubject,
)

__all__ = ["probes"]

# Linux's range of ephemeral ports, from which a master's port comes with ``api.port: 0``.
_EPHEMERAL = range(32768, 60999)
_TRIES = 3

Judge = Callable[[ProbeReport], CheckResult]

# Room for a shell, and for one ``java -version`` or Python after another.
CONTAINER_MIB = 512
_VCORES = 1


def probes(
    spec: ClusterSpec,
    context: ClientContext,
    patience: Patience = Patience(),  # noqa: B008 (frozen)
) -> Iterator[Check]:
    """Yield the checks of the containers that *spec* needs; they share one round of probes."""
    settings, problems = structure(YarnSettings, spec.runtime.options, "runtime.options")
    if problems or not isinstance(settings, YarnSettings):
        return  # errors of the spec are reported elsewhere
    ports = [spec.api.port] if spec.api.port else random.sample(_EPHEMERAL, _TRIES)
    python, word = settings.python or sys.executable, secrets.token_hex(8)
    try:
        found = tuple(subjects(spec, settings, python, ports, word))
    except LaunchError:
        return  # reported elsewhere, too
    orders = {subject.key: subject.order for subject in found}
    round_ = ProbeRound(lambda: start_child(settings, context), orders, context.clock, patience)
    for subject in found:
        asked = functools.partial(round_.outcome, subject.key)
        yield from container_checks(subject, asked, patience.most_s)


def container_checks(
    subject: ProbeSubject, outcome: Callable[[], ProbeResult], within_s: float
) -> Iterator[Check]:
    """Yield the checks of one container, each of which calls *outcome*."""
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
    first = judge in (checks.container, checks.image)

    def look() -> CheckResult:
        told = ProbeReport(subject, outcome())
        return judge(told) if first or told.nothing is None else told.nothing

    return look


def _judges(subject: ProbeSubject) -> Iterator[tuple[str, str, Judge]]:
    if subject.image:
        yield (
            "Docker",
            "Each instance is the image, started by YARN's Docker runtime.",
            (checks.image),
        )
    else:
        yield from _plain_judges(subject)
    yield (
        "limits",
        "With few open files, or a user without a name, a server fails late and unclearly.",
        checks.limits,
    )
    yield (
        "space",
        "Models, logs and the tensors of Python models need room on the node.",
        checks.space,
    )
    if subject.gpus:
        yield (
            "GPUs",
            "An instance must see the GPUs that it was given, and no others.",
            checks.gpus,
        )


def _plain_judges(subject: ProbeSubject) -> Iterator[tuple[str, str, Judge]]:
    yield "container", "Masters and instances are containers like this one.", checks.container
    if subject.order.python:
        yield (
            "Python",
            "The nodes' interpreter runs the master, and starts tritonserver without Docker.",
            lambda told: checks.python(told, version()),
        )
    if subject.master:
        yield (
            "Java",
            "The master talks to YARN through Java, 11 or newer.",
            checks.java,
        )
        yield (
            "Hadoop",
            "The master uses the Hadoop client of its node, 3.3.0 or newer.",
            checks.hadoop,
        )
    yield (
        "network",
        "The master registers with the ResourceManager, and keeps its state on HDFS.",
        checks.network,
    )
    yield (
        "clock",
        "On a node with a wrong clock, Kerberos tickets and YARN's tokens end early or late.",
        checks.clock,
    )
    if subject.order.ports:
        yield (
            "master's port",
            "Clients reach the master at a port of its node.",
            checks.port,
        )


def subjects(
    spec: ClusterSpec, settings: YarnSettings, python: str, ports: Sequence[int], word: str
) -> Iterator[ProbeSubject]:
    """Yield the containers to try.

    Args:
        spec: The cluster.
        settings: ``runtime.options``.
        python: Interpreter on the nodes.
        ports: Ports on which a container with the master's label listens for this client.
        word: The text that the client sends there.

    Raises:
        LaunchError: A setting of Docker is not possible.
    """
    instances, masters = spec.placement.node_label, spec.master.node_label
    within, (named, archive) = settings.docker, _python(settings, python)
    # The variables that a master gets from the settings.
    homes = {"HADOOP_HOME": settings.hadoop_home, "TARN_PROBE_JAVA": settings.java_home}
    inner = {name: value for name, value in homes.items() if value}
    for label in dict.fromkeys((masters, instances)):
        plain = label == instances and within is None
        gpus = spec.instance.resources.gpus if plain else 0
        order = attrs.evolve(
            _order(spec, settings, label, gpus),
            python=named if plain or label == masters else "",
            archive=archive if plain or label == masters else "",
            ports=tuple(ports) if label == masters else (),
            word=word,
            inner=inner,
        )
        yield ProbeSubject(
            f"plain {label}", label, label == masters, plain, image="", gpus=gpus, order=order
        )
    if within is not None:
        launch = Launch(spec.models, spec.triton, spec.instance, spec.models.repository, "")
        gpus = spec.instance.resources.gpus
        order = attrs.evolve(
            _order(spec, settings, instances, gpus),
            reach=False,
            outer=docker.environment(within, launch, "tarn-probe"),
        )
        yield ProbeSubject(
            f"image {instances}",
            instances,
            master=False,
            instances=False,
            image=spec.triton.image,
            gpus=gpus,
            order=order,
        )


def _order(spec: ClusterSpec, settings: YarnSettings, label: str, gpus: int) -> ProbeRequest:
    return ProbeRequest(
        queue=settings.queue,
        label=label,
        memory_mib=CONTAINER_MIB,
        vcores=_VCORES,
        gpus=gpus,
        gpu_resource=spec.instance.resources.gpu_resource,
    )


def _python(settings: YarnSettings, python: str) -> tuple[str, str]:
    """Return (interpreter, its archive); ('', '') for an archive of this machine."""
    packed = settings.python or ""
    if not environment.is_packed(packed):
        return python, ""
    return ("", "") if environment.is_local(packed) else (environment.INTERPRETER, packed)
