"""What passes between a client and the child that holds the JVM: plain values, as JSON."""

from collections.abc import Mapping

import attrs

from tarn_plugins.runtime.yarn.client.overview import YarnOverview
from tarn_plugins.runtime.yarn.messages import Shape

__all__ = ["RESOURCE_MANAGER", "ProbeProgress", "ProbeRequest", "ProbeStarted", "WaitContext"]

RESOURCE_MANAGER = "ResourceManager"
"""What some of `ProbeStarted.targets` are."""


@attrs.frozen
class ProbeRequest:
    """One container to be tried."""

    queue: str
    label: str
    """Node label; empty: the default partition of the queue."""
    memory_mib: int
    vcores: int
    gpus: int = 0
    gpu_resource: str = "yarn.io/gpu"
    python: str = ""
    """Interpreter to try; empty: none is needed."""
    archive: str = ""
    """URI of the packed environment that holds it; empty: it lies on the nodes."""
    reach: bool = True
    """Whether it should try to reach Hadoop's services."""
    ports: tuple[int, ...] = ()
    """Where to listen for the client."""
    word: str = ""
    managed: bool = False
    """YARN starts it as a master's: this machine need not reach what masters and nodes listen on.
    With Kerberos it does in any case."""
    inner: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Environment of what runs in the container, byte for byte."""
    outer: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Environment that YARN itself reads: that of its Docker runtime. Free of secrets."""

    @property
    def shape(self) -> Shape:
        """What is asked of YARN."""
        gpus = ((self.gpu_resource, self.gpus),) if self.gpus else ()
        return Shape(self.memory_mib, self.vcores, gpus, self.label)


@attrs.frozen
class ProbeStarted:
    """An application that was submitted."""

    application_id: str
    targets: tuple[tuple[str, str], ...]
    """(what, ``host:port``) of what the container tries to reach, in its order."""


@attrs.frozen
class ProbeProgress:
    """How far an application is."""

    state: str
    """``submitted``, ``asked``, ``running``, ``ended`` (the container), or ``over`` (the
    application, without our doing)."""
    diagnostics: str = ""
    """YARN's words: of the container once it ended, else of the application."""
    node: str = ""
    container_id: str = ""
    exit_code: int = 0
    started_at: float = 0.0
    """Wall time here, Unix seconds, just before the node was told to start it."""
    heard_at: float = 0.0
    """Wall time here when its end was heard of."""


@attrs.frozen
class WaitContext:
    """What there is to know when a container does not come."""

    overview: YarnOverview = attrs.field(factory=YarnOverview)
    queue_free_mib: int | None = None
    """Memory that the queue would still grant; None: not told."""
    diagnostics: str = ""
    """The ResourceManager's words about the application."""
