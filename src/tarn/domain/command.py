"""Commands of people and followers to a master. The control thread answers each of them."""

import attrs

from tarn.domain.control_calls import CallKind
from tarn.domain.state import EditionFiles
from tarn.domain.view import Applied

__all__ = [
    "Acknowledge",
    "Adapt",
    "BeginUpdate",
    "Command",
    "ControlRequest",
    "Demand",
    "Done",
    "Down",
    "Drain",
    "HoldUpdate",
    "PauseScaling",
    "Resume",
    "Rollback",
    "Scale",
]


@attrs.frozen
class Scale:
    """Set the size by hand; None lets the policy choose it again (``scale --auto``)."""

    replicas: int | None


@attrs.frozen
class Adapt:
    """Let the policy choose the size, within these bounds; None keeps a bound."""

    min: int | None = None
    max: int | None = None


@attrs.frozen
class PauseScaling:
    """Stop scaling decisions for a while."""

    for_s: float
    reason: str = ""


@attrs.frozen
class Resume:
    """End a pause, resume replacements, and launch again after a halt."""


@attrs.frozen
class Drain:
    """Replace one instance, then withdraw and drain it."""

    instance_id: str
    now: bool = False
    """Withdraw it at once, without waiting for a replacement."""


@attrs.frozen
class Down:
    """End the cluster: withdraw, drain and stop every instance."""


@attrs.frozen
class BeginUpdate:
    """Take another edition of the spec, and replace the instances that it changes."""

    edition: EditionFiles
    changes: tuple[str, ...]
    """What changes, a line each."""


@attrs.frozen
class Rollback:
    """Undo the newest update, whether it is on its way or done."""

    update: int | None = None
    """Number of the update to undo; None: whichever is the newest."""


@attrs.frozen
class HoldUpdate:
    """Replace no further instance, or go on."""

    held: bool


@attrs.frozen
class Acknowledge:
    """A remote follower's acknowledgement, and for how long it is valid."""

    applied: Applied
    lease_s: float = 15.0


@attrs.frozen
class Demand:
    """Requests at *source* wait for an instance. It repeats this while they do."""

    source: str
    """A load balancer's or a client's name."""
    waiting: int
    """Requests held there now, each counted once."""
    refused: int = 0
    """Requests refused there since its last message. A client that tries again is counted each
    time, so the number shows that an instance is needed, but not how many."""
    failures: tuple[tuple[str, str, int], ...] = ()
    """(instance id, model, bad answers since its last message that the caller did not cause)."""


@attrs.frozen
class ControlRequest:
    """Send a control call to every present and future instance."""

    kind: CallKind
    model: str = ""
    """Empty: the whole server, for trace and log settings."""
    body: str = "{}"
    """A JSON object: parameters of a load or an unload, or the settings to change."""
    request: str = ""
    """The asker's id of it: a request with the same id is not a new call. Empty: always new."""

    @property
    def brings_code(self) -> bool:
        """Whether it may bring code: parameters of a load are a configuration, and model files."""
        return self.kind is CallKind.LOAD and self.body != "{}"


Command = (
    Scale
    | Adapt
    | PauseScaling
    | Resume
    | Drain
    | Down
    | BeginUpdate
    | Rollback
    | HoldUpdate
    | Acknowledge
    | Demand
    | ControlRequest
)


@attrs.frozen
class Done:
    """The answer to a command that was carried out."""

    spec_revision: int
    message: str
    call: int | None = None
    """Number of the control call that was asked for; None for other commands."""
