"""The answers of a cluster, as dicts with attributes.

There is an attribute for every field that this version knows. A master of another version may send
fewer fields, whose attributes keep their defaults, or more, which ``record["field"]`` returns.
"""

from collections.abc import Mapping
from typing import Any, Self

import attrs

from tarn.cluster.read import card
from tarn.cluster.read.table import explained

__all__ = [
    "AlertRecord",
    "CallStatus",
    "CallsAnswer",
    "CommandAnswer",
    "EventRecord",
    "Explanation",
    "FollowerStatus",
    "HistoryRow",
    "InstanceCallProgress",
    "InstanceModel",
    "InstanceStatus",
    "IssueRecord",
    "MetricRow",
    "Record",
    "SignalReading",
    "SizeDecision",
    "SizeLimits",
    "SizePause",
    "StartPlan",
    "Status",
    "UsageRow",
]

# Key of a field's metadata: the class as which its value, or each item of it, is read.
_KIND = "kind"


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class Record(dict[str, Any]):
    """One answer: a dict, with attributes for the known fields.

    ``record["ready"]``, ``record.get("ready")`` and ``json.dumps(record)`` work as with any dict.
    Do not change a record: its attributes would not follow.
    """

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Self:
        """Return the record of *answer*."""
        made = cls(
            **{
                field.name: _typed(field.metadata.get(_KIND), answer[field.name])
                for field in attrs.fields(cls)
                if field.name in answer
            }
        )
        made.update(answer)
        return made

    def __repr__(self) -> str:
        """Return the fields that are set, with long ones as their lengths."""
        said = []
        for field in attrs.fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, Mapping | tuple) and not isinstance(value, Record):
                value = len(value)
            if value not in (None, "", 0, False):
                said.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(said)})"


def _typed(kind: type[Record] | None, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_typed(kind, one) for one in value)
    return kind.from_answer(value) if kind is not None and isinstance(value, Mapping) else value


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class SizeLimits(Record):
    """The bounds of a fleet's size."""

    min: int = 0
    max: int = 0
    ceiling: int | None = None
    """The most that a farm grants; None: no farm limits it."""
    ceiling_reason: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class SizePause(Record):
    """A pause of scaling decisions."""

    until: float = 0.0
    """Unix seconds."""
    reason: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class InstanceModel(Record):
    """One model of one instance."""

    name: str = ""
    state: str = ""
    """``READY``, ``UNAVAILABLE``, ``LOADING`` or ``UNLOADING``."""
    reason: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class InstanceStatus(Record):
    """One instance."""

    id: str = ""
    state: str = ""
    """``requested``, ``starting``, ``ready``, ``draining``, ``stopped`` or ``failed``."""
    reason: str = ""
    suspect: str = ""
    """Why it is kept out of the view although it is ready; empty: it is in the view."""
    unwell: Mapping[str, Any] | None = None
    """What is wrong with the outcomes of its requests; None: nothing."""
    node: str | None = None
    container_id: str | None = None
    spec_hash: str = ""
    age_s: float | None = None
    state_for_s: float | None = None
    waits: Mapping[str, Any] | None = None
    """What it waits for, and until when."""
    http: str | None = None
    """``host:port``, as are the next two; None: not known yet."""
    grpc: str | None = None
    metrics: str | None = None
    models: tuple[InstanceModel, ...] = attrs.field(default=(), metadata={_KIND: InstanceModel})
    busy: float | None = None
    """How many requests wait or execute, estimated; None: unknown."""
    cache: Mapping[str, Any] | None = None
    """``hits`` and ``misses`` of its response cache; None: none of its models asks for one, or they
    are not known."""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class FollowerStatus(Record):
    """One program that follows the view, and how far it is."""

    name: str = ""
    required: bool = False
    revision: int = -1
    """Revision of the view that it applied last; negative: none yet."""
    age_s: float | None = None
    lost: bool = False
    error: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class IssueRecord(Record):
    """One problem that the master knows."""

    code: str = ""
    subject: str = ""
    message: str = ""
    next_step: str = ""
    """Empty: use the next step of its code."""
    since: float | None = None
    """Unix seconds; None: unknown."""
    until: float | None = None
    """When it ends by itself, or gets worse: Unix seconds; None: unknown."""
    models: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()
    source: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class Status(Record):
    """The status of a cluster; a notebook shows it as a card."""

    name: str = ""
    runtime: str = ""
    state: str = ""
    """``submitted``, ``starting``, ``ready``, ``degraded``, ``stopping``, ``stopped`` or
    ``failed``."""
    reason: str = ""
    code: str = ""
    """Why this status was made without a master; empty: a master answered."""
    epoch: str = ""
    desired: int = 0
    ready: int = 0
    manual: int | None = None
    """The size that was set by hand; None: the policy chooses it."""
    limits: SizeLimits | None = attrs.field(default=None, metadata={_KIND: SizeLimits})
    pause: SizePause | None = attrs.field(default=None, metadata={_KIND: SizePause})
    updating: Mapping[str, Any] | None = None
    """The update that is on its way: ``number``, ``state`` (``rolling``, ``paused``, ``undoing``),
    ``done`` and ``of`` instances, ``reason``."""
    last_update: Mapping[str, Any] | None = None
    """How the newest update ended: ``number``, ``state`` (``done``, ``undone``), ``reason``."""
    spec_revision: int | None = None
    view_revision: int | None = None
    at: float | None = None
    """When the master made this status, Unix seconds."""
    ended_at: float | None = None
    stale: bool = False
    """The master has stopped acting, or is missing."""
    look_interval_s: float | None = None
    """The time between two looks of the master at an instance."""
    instances: tuple[InstanceStatus, ...] = attrs.field(
        default=(), metadata={_KIND: InstanceStatus}
    )
    ended: tuple[InstanceStatus, ...] = attrs.field(default=(), metadata={_KIND: InstanceStatus})
    """The last ones that stopped or failed, the newest last."""
    followers: tuple[FollowerStatus, ...] = attrs.field(
        default=(), metadata={_KIND: FollowerStatus}
    )
    holds: Mapping[str, Any] | None = None
    """What holds the fleet back; its fields are in ``docs/reference/http.md``."""
    demand: Mapping[str, Any] | None = None
    """The requests that wait for an instance, while none is ready."""
    issues: tuple[IssueRecord, ...] = attrs.field(default=(), metadata={_KIND: IssueRecord})
    """The current problems."""
    warnings: tuple[str, ...] = ()
    """The same, as lines."""
    faults: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return card.cluster(self)


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class CommandAnswer(Record):
    """The answer of a master to a command."""

    message: str = ""
    spec_revision: int | None = None
    """The revision after the command; a later one may require that it is unchanged."""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class InstanceCallProgress(Record):
    """How far one instance is with a control call."""

    id: str = ""
    state: str = ""
    in_view: bool = False
    why: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class CallStatus(Record):
    """A control call: a load, an unload or a change of settings, for every instance."""

    call: int = 0
    """Its number."""
    kind: str = ""
    model: str = ""
    given: tuple[str, ...] = ()
    """Names of its parameters or settings, without their values."""
    asked_at: float | None = None
    has: int | None = None
    """How many of the ``of`` instances have made it; None: it is over, or forgotten."""
    of: int | None = None
    settled: bool = False
    """Every instance has answered."""
    overtaken_by: int | None = None
    not_yet: tuple[InstanceCallProgress, ...] = attrs.field(
        default=(), metadata={_KIND: InstanceCallProgress}
    )
    refuses: tuple[InstanceCallProgress, ...] = attrs.field(
        default=(), metadata={_KIND: InstanceCallProgress}
    )


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class CallsAnswer(Record):
    """The control calls that are in force, and past ones."""

    name: str = ""
    number: int = 0
    """The number of the newest call."""
    calls: tuple[CallStatus, ...] = attrs.field(default=(), metadata={_KIND: CallStatus})
    over: tuple[CallStatus, ...] = attrs.field(default=(), metadata={_KIND: CallStatus})


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class EventRecord(Record):
    """An event that happened ``count`` times. Times are Unix seconds."""

    id: str = ""
    cluster: str = ""
    epoch: str = ""
    code: str = ""
    severity: str = ""
    subject: str = ""
    message: str = ""
    first: float = 0.0
    last: float = 0.0
    count: int = 1
    decision: int | None = None
    """The number of the decision that caused it."""
    request: Mapping[str, Any] | None = None
    """The user who requested it, and the address."""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class SizeDecision(Record):
    """One decision about the size."""

    at: float = 0.0
    """Unix seconds."""
    wanted: int | None = None
    desired: int = 0
    by: str = ""
    reason: str = ""
    held_back: str = ""
    number: int = 0
    request: Mapping[str, Any] | None = None


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class AlertRecord(Record):
    """One alert, active or past."""

    active: bool = False
    severity: str = ""
    code: str = ""
    title: str = ""
    meaning: str = ""
    subject: str = ""
    message: str = ""
    since: float | None = None
    """Unix seconds; None: unknown."""
    last: float | None = None
    count: int | None = None
    next_step: str = ""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class SignalReading(Record):
    """The current value of one signal."""

    name: str = ""
    value: float | None = None
    """None: unknown, for the ``reason``."""
    unit: str = ""
    age_s: float | None = None
    source: str = ""
    reason: str = ""
    read: bool = False
    """Whether the policy reads it."""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class Explanation(Record):
    """Why the size is what it is; printed, it is text, and in a notebook a card."""

    name: str = ""
    sentence: str = ""
    at: float | None = None
    stale: bool = False
    policy: str = ""
    desired: int = 0
    ready: int = 0
    wanted: int | None = None
    """What the policy wants; None: it has no opinion, and ``reason`` says why."""
    allowed: int | None = None
    """The wanted size within the limits."""
    reason: str = ""
    held: tuple[Mapping[str, Any], ...] = ()
    """What holds the size back: ``by``, ``reason`` and ``left_s`` of each."""
    next: Mapping[str, Any] | None = None
    """The next change if the policy's wish stays: ``replicas``, ``in_s`` and ``words``."""
    manual: int | None = None
    limits: SizeLimits | None = attrs.field(default=None, metadata={_KIND: SizeLimits})
    pause: SizePause | None = attrs.field(default=None, metadata={_KIND: SizePause})
    cooldown_s: float = 0.0
    windows: Mapping[str, float] = attrs.field(factory=dict)
    signals: tuple[SignalReading, ...] = attrs.field(default=(), metadata={_KIND: SignalReading})
    decisions: tuple[SizeDecision, ...] = attrs.field(default=(), metadata={_KIND: SizeDecision})

    def __str__(self) -> str:
        return explained(self)

    def __repr__(self) -> str:
        """Return the text for people, because a notebook shows a value by its repr."""
        return explained(self)

    def _repr_html_(self) -> str:
        return card.sizes(self)


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class MetricRow(Record):
    """One sample of ``/metrics``."""

    name: str = ""
    type: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    value: float | str = 0.0
    """A string if it is not a finite number: ``NaN``, ``+Inf`` or ``-Inf``."""


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class UsageRow(Record):
    """The usage of one instance or model. Seconds are summed over requests or copies."""

    kind: str = ""
    """``instance`` or ``model``."""
    name: str = ""
    requests: float | None = None
    failures: float | None = None
    request_s: float | None = None
    instance_s: float | None = None
    gpu_s: float | None = None


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class HistoryRow(Record):
    """One step of the history; unknown values are None."""

    at: float = 0.0
    """When it begins, Unix seconds."""
    desired: float | None = None
    ready: float | None = None
    running: float | None = None
    load: float | None = None
    queue: float | None = None
    requests_per_s: float | None = None
    failures_per_s: float | None = None
    latency_ms: float | None = None


@attrs.frozen(slots=False, eq=False, repr=False, kw_only=True)
class StartPlan(Record):
    """What `up` would do. Secrets are masked."""

    name: str = ""
    running: bool = False
    """Whether it runs already, so that `up` would attach to it."""
    spec: Mapping[str, Any] = attrs.field(factory=dict)
    origins: Mapping[str, str] = attrs.field(factory=dict)
    """The origin of each key's value; other keys have their defaults."""
    commands: tuple[tuple[str, ...], ...] = ()
    """The command of each process of an instance."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    ask: Mapping[str, Any] = attrs.field(factory=dict)
    """The resources of one instance, and of all."""
    files: Mapping[str, str] = attrs.field(factory=dict)
    findings: tuple[Mapping[str, Any], ...] = ()
    """The findings; a ``fatal`` one prevents the start."""
