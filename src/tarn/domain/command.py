"""What people and followers ask of a master; each is answered by the control thread."""

import attrs

from tarn.domain.control_calls import CallKind
from tarn.domain.view import Applied

__all__ = [
    "Acknowledge",
    "Adapt",
    "Command",
    "ControlRequest",
    "Demand",
    "Done",
    "Down",
    "Drain",
    "PauseScaling",
    "Resume",
    "Scale",
]


@attrs.frozen
class Scale:
    """Set a manual size; None gives the size back to the policy (``scale --auto``)."""

    replicas: int | None


@attrs.frozen
class Adapt:
    """Give the size to the policy, between these bounds; None keeps a bound."""

    min: int | None = None
    max: int | None = None


@attrs.frozen
class PauseScaling:
    """Stop scaling decisions for a while."""

    for_s: float
    reason: str = ""


@attrs.frozen
class Resume:
    """End a pause, thaw replacements, launch again after a halt."""


@attrs.frozen
class Drain:
    """Replace one instance, then withdraw and drain it."""

    instance_id: str
    now: bool = False
    """Withdraw it at once, before there is a replacement."""


@attrs.frozen
class Down:
    """End the cluster: withdraw, drain, stop, leave nothing."""


@attrs.frozen
class Acknowledge:
    """A remote follower's word, with the lease it gives itself."""

    applied: Applied
    lease_s: float = 15.0


@attrs.frozen
class Demand:
    """Requests want an instance at *source*; it says so again while they do."""

    source: str
    """A load balancer's or a client's name."""
    waiting: int
    """How many are held there now: each is a request of its own."""
    refused: int = 0
    """How many were refused there since it said so last. A client that tries again is counted each
    time, so they say that an instance is wanted, and not how many."""
    failures: tuple[tuple[str, str, int], ...] = ()
    """(instance id, model, bad answers that the caller did not cause, since it said so last)."""


@attrs.frozen
class ControlRequest:
    """Send a control call to every instance that serves, or ever will."""

    kind: CallKind
    model: str = ""
    """Empty: the whole server, for trace and log settings."""
    body: str = "{}"
    """A JSON object: parameters of a load or an unload, or the settings to change."""
    request: str = ""
    """What its asker calls it: the same one again is not a new call. Empty: each is a new one."""

    @property
    def brings_code(self) -> bool:
        """Whether it can: a load's parameters are a configuration, and files of a version."""
        return self.kind is CallKind.LOAD and self.body != "{}"


Command = (
    Scale | Adapt | PauseScaling | Resume | Drain | Down | Acknowledge | Demand | ControlRequest
)


@attrs.frozen
class Done:
    """The answer to a command that was obeyed."""

    spec_revision: int
    message: str
    call: int | None = None
    """Number of the control call that was asked for; None where none was."""
