"""Wishes, which the control thread sends to a runtime, and facts, which the runtime reports.

Both are whole states, never changes. So a message that is late, repeated or lost does no harm: the
next one contains everything again.
"""

from collections.abc import Mapping
from typing import Final, NoReturn

import attrs

from tarn.domain.endpoint import Endpoint
from tarn.domain.spec import InstanceSpec, ModelsSpec, TritonSpec
from tarn.domain.view import Epoch

__all__ = [
    "MASKED",
    "Ended",
    "ExitStatus",
    "Fact",
    "Launch",
    "Pending",
    "Recovered",
    "Running",
    "RuntimeWish",
    "Secret",
    "StubEnded",
]

MASKED: Final = "***"
"""Shown in place of a secret value."""


class Secret:
    """A text that only `reveal` returns; `repr`, `str`, `format`, JSON and pickle hide it.

    Two secrets are equal when their texts are. Code that calls `reveal` passes the text on at once
    and does not keep it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASKED})"

    def __str__(self) -> str:
        return MASKED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is never written as text: pass its value on with reveal()")


@attrs.frozen
class Launch:
    """Everything that determines what one instance runs; equal launches have equal hashes."""

    models: ModelsSpec
    triton: TritonSpec
    instance: InstanceSpec
    repository: str
    """Location of the staged repository: a local path, or a URI that the node localizes."""
    spec_hash: str
    """Hash of the spec alone: a changed secret does not replace running instances."""
    secrets: Mapping[str, Secret] = attrs.field(factory=dict, hash=False)
    """More environment of tritonserver, by variable. It never goes into an argument, a file that
    others can read, or a request to YARN."""
    keys: Secret | None = None
    """Secret from which the key of each instance for the restricted parts of Triton's API is
    derived; None: TARN restricts none."""


@attrs.frozen
class RuntimeWish:
    """All instances that should run, and all that should stop; others are left alone."""

    epoch: Epoch
    revision: int
    want: frozenset[tuple[str, str]] = frozenset()
    """(instance id, spec hash) of each instance that should exist; repeating one has no effect."""
    stop: frozenset[str] = frozenset()
    """Ids of instances to cancel or end now; they have been withdrawn and drained."""
    launches: tuple[Launch, ...] = ()
    """One for each spec hash in ``want``."""
    gone: frozenset[str] = frozenset()
    """Ids of wanted instances whose ports refuse connections: they have probably ended."""

    def launch(self, spec_hash: str) -> Launch:
        """Return the launch with *spec_hash*; a wish has one for each hash in ``want``."""
        return next(launch for launch in self.launches if launch.spec_hash == spec_hash)


@attrs.frozen
class ExitStatus:
    """How an instance ended."""

    reason: str
    """For example ``killed by signal 9`` or Triton's own error line."""
    code: int | None = None
    """The exit code as the runtime gives it; negative for a signal; None: not known."""
    expected: bool = False
    """It ended because its stop was requested."""
    node_fault: bool = False
    """The node caused the end; a replacement on another node helps."""
    permanent: bool = False
    """Another attempt with the same spec cannot help."""
    last_error: str = ""
    """The last error in its log, if the runtime can read that."""


@attrs.frozen
class Pending:
    """The runtime is finding a place for the instance."""

    instance_id: str
    spec_hash: str
    waits_for: str = ""
    """What it waits for, in words; empty when that is nothing unusual."""


@attrs.frozen
class Running:
    """The instance's process exists, with these addresses."""

    instance_id: str
    spec_hash: str
    container_id: str
    node: str
    endpoint: Endpoint
    ranks: int = 1
    started_at: float = 0.0
    """Wall time, Unix seconds."""
    adopted: bool = False
    """It was started under an earlier master. It may be found long after `Runtime.start`."""
    rss_mib: int | None = None
    """Memory that its processes held when it was last measured; None: the runtime cannot tell."""
    leaving: str = ""
    """Why the runtime will soon take its place away (preemption, a node put out of service); it is
    drained and replaced before that. Empty: it may stay."""


@attrs.frozen
class Ended:
    """The instance has ended; reported until no wish names its id any more."""

    instance_id: str
    spec_hash: str
    exit: ExitStatus
    container_id: str | None = None
    node: str | None = None


@attrs.frozen
class StubEnded:
    """A process of a Python model ended by itself, and Triton did not start it again.

    It is reported together with `Running` for as long as this is so. Some runtimes cannot see it,
    so its absence proves nothing.
    """

    instance_id: str
    said: str
    """The model, its process, and how that ended, as far as they are known."""
    at: float
    """Wall time of the newest end, Unix seconds."""
    model: str = ""
    """The model of the newest end; empty: not known."""


Fact = Pending | Running | Ended | StubEnded
"""An instance has at most one `Pending`, `Running` or `Ended`, and at most one `StubEnded`."""


@attrs.frozen
class Recovered:
    """The instances that a runtime found running when its master started."""

    running: tuple[Running, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be recovered, one sentence each."""
