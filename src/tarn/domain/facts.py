"""What the control thread asks of a runtime, and what the runtime says is so.

Both are whole states, never changes: a message that is late, doubled or lost does no harm, since
the next one says everything again.
"""

from collections.abc import Mapping

import attrs

from tarn.domain.endpoint import Endpoint
from tarn.domain.epoch import Epoch
from tarn.domain.secret import Secret
from tarn.domain.spec import InstanceSpec, ModelsSpec, TritonSpec

__all__ = [
    "Ended",
    "ExitStatus",
    "Fact",
    "Launch",
    "Pending",
    "Recovered",
    "Running",
    "RuntimeWish",
    "StubEnded",
]


@attrs.frozen
class Launch:
    """Everything that decides what one instance runs; equal launches have equal hashes."""

    models: ModelsSpec
    triton: TritonSpec
    instance: InstanceSpec
    repository: str
    """Where the staged repository lies: a local path, or what the node localizes."""
    spec_hash: str
    """Of the spec alone: another value of a secret replaces no instance that runs."""
    secrets: Mapping[str, Secret] = attrs.field(factory=dict, hash=False)
    """More environment of tritonserver, by variable: never in an argument, in a file that others
    can read, or in what YARN is told."""
    keys: Secret | None = None
    """From which each instance's key for the restricted parts of Triton's API is derived; None:
    none is restricted by us."""


@attrs.frozen
class RuntimeWish:
    """The whole truth about what should run; an id in neither set is left alone."""

    epoch: Epoch
    revision: int
    want: frozenset[tuple[str, str]] = frozenset()
    """(instance id, spec hash): should exist; asking twice is the same as asking once."""
    stop: frozenset[str] = frozenset()
    """Instance ids to cancel or end now; they were withdrawn and drained before."""
    launches: tuple[Launch, ...] = ()
    """One for each spec hash in ``want``."""

    def launch(self, spec_hash: str) -> Launch:
        """Return the launch with *spec_hash*; a wish names none it does not carry."""
        return next(launch for launch in self.launches if launch.spec_hash == spec_hash)


@attrs.frozen
class ExitStatus:
    """How an instance ended, in words a person can use."""

    reason: str
    """For example ``killed by signal 9`` or Triton's own error line."""
    code: int | None = None
    """The exit code as the runtime gives it; negative for a signal; None when nobody saw it."""
    expected: bool = False
    """It ended because its stop was asked."""
    node_fault: bool = False
    """The node is to blame; replacing elsewhere helps."""
    permanent: bool = False
    """Trying again with the same spec cannot help."""
    last_error: str = ""
    """The last error that it logged itself, where the runtime can read its log."""


@attrs.frozen
class Pending:
    """The runtime is getting hold of a place for it."""

    instance_id: str
    spec_hash: str
    waits_for: str = ""
    """What it waits for, in words; empty when nothing unusual."""


@attrs.frozen
class Running:
    """Its process exists, and these are its addresses."""

    instance_id: str
    spec_hash: str
    container_id: str
    node: str
    endpoint: Endpoint
    ranks: int = 1
    started_at: float = 0.0
    """Wall time, Unix seconds."""
    adopted: bool = False
    """Started under an earlier master; it may be found long after `Runtime.start`."""
    rss_mib: int | None = None
    """Memory that its processes hold, as measured lately; None: this runtime cannot tell."""
    leaving: str = ""
    """Why its place will be taken away soon (preemption, a node put out of service), in words:
    it is drained and replaced while there is time."""


@attrs.frozen
class Ended:
    """It is over; said until a wish names the id no more."""

    instance_id: str
    spec_hash: str
    exit: ExitStatus
    container_id: str | None = None
    node: str | None = None


@attrs.frozen
class StubEnded:
    """A process of one of its Python models ended by itself, and Triton started none in its place.

    Told together with `Running` for as long as it is so. Not each runtime sees it: none told proves
    nothing.
    """

    instance_id: str
    said: str
    """Which model, its process, and how it ended, as far as that is known."""
    at: float
    """Wall time of the newest end, Unix seconds."""
    model: str = ""
    """The model of the newest end; empty: not known."""


Fact = Pending | Running | Ended | StubEnded
"""At most one `Pending`, `Running` or `Ended` for an instance, and at most one `StubEnded`."""


@attrs.frozen
class Recovered:
    """What a runtime found alive when its master started."""

    running: tuple[Running, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be recovered, in words."""
