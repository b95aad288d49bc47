"""The values between a client, the child that holds the JVM, and a probe's container.

A container's output is read from YARN's diagnostics. They contain other text around and between
the lines, may repeat lines, and may lack the first ones, since YARN keeps the last 4096 bytes of a
file.
"""

import re
from collections.abc import Mapping

import attrs

from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn.messages import Shape
from tarn_plugins.runtime.yarn.probe.script import MARK
from tarn_plugins.runtime.yarn.survey import YarnOverview

__all__ = [
    "RESOURCE_MANAGER",
    "Facts",
    "ProbeProgress",
    "ProbeReport",
    "ProbeRequest",
    "ProbeResult",
    "ProbeStarted",
    "ProbeSubject",
    "WaitContext",
    "parse",
]

# The kind of some of `ProbeStarted.targets`.
RESOURCE_MANAGER = "ResourceManager"

_LINE = re.compile(rf"{MARK}(?P<name>[a-z][a-z0-9_]*)=(?P<value>.*)")
_LONGEST = 200


@attrs.frozen
class ProbeRequest:
    """A container to try."""

    queue: str
    label: str
    """Node label; empty: the default partition of the queue."""
    memory_mib: int
    vcores: int
    gpus: int = 0
    gpu_resource: str = "yarn.io/gpu"
    python: str = ""
    """Interpreter to try, or empty."""
    archive: str = ""
    """URI of the packed environment with it; empty: the nodes have it."""
    reach: bool = True
    """Whether it should try to reach Hadoop's services."""
    ports: tuple[int, ...] = ()
    """Ports to listen on for the client."""
    word: str = ""
    managed: bool = False
    """YARN starts it as a master, so this machine need not reach YARN's address for masters, nor a
    node. With Kerberos YARN does so in any case."""
    inner: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Environment of the program in the container, passed unchanged."""
    outer: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Environment for YARN's Docker runtime, without secrets."""

    @property
    def shape(self) -> Shape:
        """The container to request."""
        gpus = ((self.gpu_resource, self.gpus),) if self.gpus else ()
        return Shape(self.memory_mib, self.vcores, gpus, self.label)


@attrs.frozen
class ProbeStarted:
    """A submitted application."""

    application_id: str
    targets: tuple[tuple[str, str], ...]
    """(kind, ``host:port``) of the servers that the container tries to reach, in order."""


@attrs.frozen
class ProbeProgress:
    """The progress of an application."""

    state: str
    """``submitted``, ``asked``, ``running``, ``ended`` (the container), or ``over`` (the
    application, ended by YARN)."""
    diagnostics: str = ""
    """YARN's text about the ended container, else about the application."""
    node: str = ""
    container_id: str = ""
    exit_code: int = 0
    started_at: float = 0.0
    """Wall time here, Unix seconds, just before the node was told to start it."""
    heard_at: float = 0.0
    """Wall time here when its end was reported."""


@attrs.frozen
class WaitContext:
    """Facts to explain why a container is not granted."""

    overview: YarnOverview = attrs.field(factory=YarnOverview)
    queue_free_mib: int | None = None
    """Memory that the queue would still grant; None if unknown."""
    diagnostics: str = ""
    """The ResourceManager's text about the application."""


@attrs.frozen
class Facts:
    """Name -> value, as printed by a container; a missing name was not printed, or is lost."""

    values: Mapping[str, str] = attrs.field(factory=dict, hash=False)

    def __bool__(self) -> bool:
        """Return whether there is any fact."""
        return bool(self.values)

    @property
    def whole(self) -> bool:
        """Whether beginning and end exist, so that no fact is lost."""
        return "begin" in self.values and "end" in self.values

    def get(self, name: str) -> str:
        """Return a value, or ''."""
        return self.values.get(name, "")

    def yes(self, name: str) -> bool | None:
        """Return a value of yes or no as a bool; None if there is none."""
        return {"yes": True, "no": False}.get(self.get(name))

    def number(self, name: str) -> int | None:
        """Return a value as a number; None if it is not one."""
        text = self.get(name)
        return int(text) if text.isascii() and text.isdigit() else None

    def room(self, name: str) -> tuple[int, int] | None:
        """Return (size, free) of a file system, in MiB; None if unknown."""
        parts = self.get(name).split()
        if len(parts) != 2 or not all(p.isascii() and p.isdigit() for p in parts):  # noqa: PLR2004
            return None
        return int(parts[0]) // 1024, int(parts[1]) // 1024

    def version(self, name: str) -> tuple[int, ...]:
        """Return the first version number in a value: ``openjdk version "17.0.9"``."""
        found = re.search(r"[0-9]+(?:\.[0-9]+)*", self.get(name))
        return tuple(int(part) for part in found[0].split(".")) if found else ()


def parse(diagnostics: str) -> Facts:
    """Return the facts in YARN's text about a container; for a repeated name the last."""
    values = {}
    for line in diagnostics.split("\n"):
        found = _LINE.search(line)
        if found is not None:
            # Without control characters, which could move a terminal's cursor.
            shown = "".join(each if each.isprintable() else " " for each in found["value"])
            values[found["name"]] = shown.strip()[:_LONGEST]
    return Facts(values)


@attrs.frozen
class ProbeSubject:
    """A container, and the reason to try it."""

    key: str
    label: str
    master: bool
    """Whether masters run with this label."""
    instances: bool
    """Whether instances do, as plain processes."""
    image: str
    """Its image; empty: a plain process."""
    gpus: int
    """How many it requests."""
    order: ProbeRequest

    @property
    def where(self) -> str:
        """The place, for the names of checks."""
        place = f"label {self.label}" if self.label else "default partition"
        return f"image, {place}" if self.image else place


@attrs.frozen
class ProbeResult:
    """The result of a container."""

    facts: Facts = attrs.field(factory=Facts)
    failure: Finding | None = None
    """Why there are no facts, if that is a failure."""
    untold: str = ""
    """Why there are no facts, if that need not be a failure."""
    node: str = ""
    waited_s: float = 0.0
    """From the submission to the grant."""
    gpus: int = 0
    """How many it was given."""
    gpus_wait: str = ""
    """Why it got none of the requested GPUs."""
    targets: tuple[tuple[str, str], ...] = ()
    """(kind, ``host:port``) for the facts ``reach_1`` and following."""
    heard: bool = False
    """Whether the client reached the container's port."""
    call_error: str = ""
    """Why it did not, at the last try."""
    started_at: float = 0.0
    heard_at: float = 0.0


@attrs.frozen
class ProbeReport:
    """A container, and its result."""

    subject: ProbeSubject
    outcome: ProbeResult

    @property
    def facts(self) -> Facts:
        """The facts that it printed."""
        return self.outcome.facts

    @property
    def node(self) -> str:
        """Its node."""
        return self.outcome.node

    @property
    def nothing(self) -> CheckResult | None:
        """The result of all checks but the first if there are no facts; else None."""
        if self.outcome.failure is None and not self.outcome.untold:
            return None
        first = "Docker" if self.subject.image else "container"
        seen = f"no container reported it: see 'node {first} ({self.subject.where})'"
        return CheckResult(seen, known=False)
