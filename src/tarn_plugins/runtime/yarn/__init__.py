"""Triton in containers of Hadoop YARN: the runtime ``yarn``.

The client submits through a child process with a JVM. The master is YARN's ApplicationMaster, with
a JVM in its process. Each instance is a container that outlives every master.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs
from attrs.validators import ge, gt

from tarn.domain import ClusterSpec, Epoch, ProxyRule
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.interfaces import (
    Check,
    ClientContext,
    Deployer,
    MasterContext,
    Runtime,
    RuntimeCapabilities,
    StateStore,
    UserDirectory,
)

__all__ = [
    "READS",
    "Docker",
    "Kerberos",
    "YarnSettings",
    "tarn_doctor_checks",
    "tarn_doctor_probes",
    "tarn_runtimes",
]


READS = frozenset({"hdfs", "viewfs", "webhdfs", "s3a", "abfs", "abfss", "o3fs", "ofs"})
"""Schemes of the URIs that Hadoop on the nodes reads."""


@attrs.frozen
class Docker:
    """How YARN's Docker runtime starts the image of ``triton.image``."""

    network: str = "host"
    """Docker network of the containers; YARN's administrator must allow it."""
    mounts: tuple[str, ...] = ()
    """``source:destination:ro`` or ``:rw``; YARN's administrator must allow the source."""
    ports: tuple[str, ...] = ()
    """``host:container``, for a bridge network."""
    gpu_runtime: str = "nvidia"
    """Docker runtime that gives containers their GPUs."""
    privileged: bool = False
    """Run privileged containers, where YARN's administrator allows this user to."""
    delayed_removal: bool = False
    """Keep an ended container for a while, to look into it."""


@attrs.frozen
class Kerberos:
    """Who the client and its masters are, by a key instead of a ticket."""

    principal: str
    """Such as ``svc-tarn@EXAMPLE.COM``."""
    keytab: Path
    """File of the client's machine. Each master gets a copy in the submission's credentials, and
    with it new delegation tokens for as long as the cluster lives."""


@attrs.frozen
class YarnSettings:
    """``runtime.options`` of the runtime ``yarn``."""

    queue: str = "default"
    """YARN queue in which the cluster runs."""
    priority: int = attrs.field(default=0, validator=ge(0))
    """Priority of the application within its queue; the larger goes first."""
    docker: Docker | None = attrs.field(factory=Docker)
    """None: tritonserver as a plain process of the node."""
    python: str | None = None
    """Interpreter on the nodes, with tarn installed; or an archive with one, as `tarn pack` makes
    it: a URI that the nodes read, or a ``.tar.gz`` of this machine. None: the path of the client's
    own."""
    hadoop_home: str | None = None
    """Hadoop's installation, here and on the nodes; None: ``HADOOP_HOME``, or ``hadoop`` on
    ``PATH``."""
    java_home: str | None = None
    """Java 11 or newer, here and on the nodes; None: ``JAVA_HOME``, or ``java`` on ``PATH``."""
    staging: str | None = None
    """Directory (a URI, or a path of ``fs.defaultFS``) for the files of clusters; None:
    ``.tarn`` in the user's home directory."""
    kerberos: Kerberos | None = None
    """None: the user's ticket, and delegation tokens that end after some days."""
    heartbeat_s: float = attrs.field(default=1.0, validator=gt(0))
    """Between two words with the ResourceManager when nothing is asked for."""


# Each part is imported when it is made: a client never loads what only a master needs.


def _deployer(settings: YarnSettings, context: ClientContext) -> Deployer:
    from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer  # noqa: PLC0415

    return YarnDeployer(settings, context)


def _runtime(settings: YarnSettings, context: MasterContext) -> Runtime:
    from tarn_plugins.runtime.yarn.master.application import runtime  # noqa: PLC0415

    return runtime(settings, context)


def _state_store(settings: YarnSettings, context: MasterContext) -> StateStore:
    from tarn_plugins.runtime.yarn.master.application import state_store  # noqa: PLC0415

    return state_store(settings, context)


def _epoch(_settings: YarnSettings, _directory: Path, environ: Mapping[str, str]) -> Epoch:
    from tarn_plugins.runtime.yarn.container import epoch  # noqa: PLC0415

    return epoch(environ)


def _unpack(directory: Path, environ: Mapping[str, str]) -> None:
    from tarn_plugins.runtime.yarn.master.application import unpack  # noqa: PLC0415

    unpack(directory, environ)


def _host(environ: Mapping[str, str]) -> str:
    from tarn_plugins.runtime.yarn.container import host  # noqa: PLC0415

    return host(environ)


def _proxy(_settings: YarnSettings, directory: Path, environ: Mapping[str, str]) -> ProxyRule:
    from tarn_plugins.runtime.yarn.master.application import proxy  # noqa: PLC0415

    return proxy(directory, environ)


def _names(_settings: YarnSettings, _directory: Path, _environ: Mapping[str, str]) -> UserDirectory:
    from tarn_plugins.runtime.yarn.master.application import names  # noqa: PLC0415

    return names()


@hookimpl
def tarn_runtimes() -> Mapping[str, RuntimeFactory]:
    """Offer the runtime ``yarn``."""
    return {
        "yarn": RuntimeFactory(
            settings=YarnSettings,
            deployer=_deployer,
            runtime=_runtime,
            state_store=_state_store,
            epoch=_epoch,
            unpack=_unpack,
            host=_host,
            proxy=_proxy,
            names=_names,
            capabilities=RuntimeCapabilities(
                placement=True,
                remote=True,
                reads=READS,
                gpus=True,
            ),
            summary="Triton in containers of Hadoop YARN",
            requires=("jpype",),
            extra="yarn",
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks of the YARN that *spec* uses."""
    if spec.runtime.use != "yarn":
        return ()
    from tarn_plugins.runtime.yarn.doctor.offer import checks  # noqa: PLC0415

    return tuple(checks(spec, context))


@hookimpl
def tarn_doctor_probes(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks from within containers, when the spec runs instances on YARN."""
    if spec.runtime.use != "yarn":
        return ()
    from tarn_plugins.runtime.yarn.probe.offer import probes  # noqa: PLC0415 (only when asked)

    return probes(spec, context)
