"""Which containers are tried for a spec, and what each is asked. Pure.

One for each node label that the spec uses, the default partition included; and where instances run
in Docker, one more in the image of ``triton.image``. Other labels are left alone: a probe takes
room, and what is true there matters to nobody who uses the spec.
"""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from tarn.domain import ClusterSpec, Launch
from tarn_plugins.runtime.yarn import YarnSettings, environment
from tarn_plugins.runtime.yarn.launch import docker
from tarn_plugins.runtime.yarn.probe.messages import ProbeRequest

__all__ = ["CONTAINER_MIB", "ProbeSubject", "subjects"]

CONTAINER_MIB = 512
"""Room for a shell, and for one ``java -version`` or Python after another."""
_VCORES = 1


@attrs.frozen
class ProbeSubject:
    """One container, and why it is tried."""

    key: str
    label: str
    master: bool
    """Whether masters run with this label."""
    instances: bool
    """Whether instances do, as plain processes."""
    image: str
    """What it is started in; empty: a plain process."""
    gpus: int
    """How many are asked for."""
    order: ProbeRequest

    @property
    def where(self) -> str:
        """Say where, for the names of checks."""
        place = f"label {self.label}" if self.label else "default partition"
        return f"image, {place}" if self.image else place


def subjects(
    spec: ClusterSpec, settings: YarnSettings, python: str, ports: Sequence[int], word: str
) -> Iterator[ProbeSubject]:
    """Yield what is to be tried.

    Args:
        spec: What the user wants.
        settings: ``runtime.options``.
        python: Interpreter on the nodes.
        ports: Where a container of the master's label listens for this client.
        word: What the client says there.

    Raises:
        LaunchError: A setting of Docker's cannot be passed on.
    """
    instances, masters = spec.placement.node_label, spec.master.node_label
    within, (named, archive) = settings.docker, _python(settings, python)
    for label in dict.fromkeys((masters, instances)):
        plain = label == instances and within is None
        gpus = spec.instance.resources.gpus if plain else 0
        order = attrs.evolve(
            _order(spec, settings, label, gpus),
            python=named if plain or label == masters else "",
            archive=archive if plain or label == masters else "",
            ports=tuple(ports) if label == masters else (),
            word=word,
            inner=_inner(settings),
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
    """Return (interpreter, archive that holds it); one of this machine is not brought along."""
    packed = settings.python or ""
    if not environment.is_packed(packed):
        return python, ""
    return ("", "") if environment.is_local(packed) else (environment.INTERPRETER, packed)


def _inner(settings: YarnSettings) -> Mapping[str, str]:
    """Return what a master gets from the settings."""
    named = {"HADOOP_HOME": settings.hadoop_home, "TARN_PROBE_JAVA": settings.java_home}
    return {name: value for name, value in named.items() if value}
