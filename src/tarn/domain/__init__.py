"""Values and decisions: frozen, pure; no I/O, no clock, no log, no thread, no chance."""

from tarn.domain.access import ANONYMOUS, Principal, ProxyRule, Readiness, Verdict
from tarn.domain.affinity import AffinityRule, ModelTraits
from tarn.domain.codes import CODES, Code, Severity
from tarn.domain.command import (
    Acknowledge,
    Adapt,
    BeginUpdate,
    Command,
    ControlRequest,
    Demand,
    Done,
    Down,
    Drain,
    HoldUpdate,
    PauseScaling,
    Resume,
    Rollback,
    Scale,
)
from tarn.domain.control_calls import CallKind
from tarn.domain.endpoint import Endpoint
from tarn.domain.events import Event, EventCause, Requester
from tarn.domain.facts import (
    Ended,
    ExitStatus,
    Fact,
    Launch,
    Pending,
    Recovered,
    Running,
    RuntimeWish,
    Secret,
    StubEnded,
)
from tarn.domain.instance import ALIVE, PLACED, Instance, InstanceState
from tarn.domain.issue import Issue
from tarn.domain.reading import ModelState, Reading
from tarn.domain.samples import Known, Sample, Unknown
from tarn.domain.scaling import Decision, FleetView, Limits, Wish
from tarn.domain.spec import Choice, ClusterSpec
from tarn.domain.state import ClusterState, EditionFiles, Pause, SavedState
from tarn.domain.view import FOLLOWER_NAME, Applied, DiscoveryView, Epoch, Member

__all__ = [
    "ALIVE",
    "ANONYMOUS",
    "CODES",
    "FOLLOWER_NAME",
    "PLACED",
    "Acknowledge",
    "Adapt",
    "AffinityRule",
    "Applied",
    "BeginUpdate",
    "CallKind",
    "Choice",
    "ClusterSpec",
    "ClusterState",
    "Code",
    "Command",
    "ControlRequest",
    "Decision",
    "Demand",
    "DiscoveryView",
    "Done",
    "Down",
    "Drain",
    "EditionFiles",
    "Ended",
    "Endpoint",
    "Epoch",
    "Event",
    "EventCause",
    "ExitStatus",
    "Fact",
    "FleetView",
    "HoldUpdate",
    "Instance",
    "InstanceState",
    "Issue",
    "Known",
    "Launch",
    "Limits",
    "Member",
    "ModelState",
    "ModelTraits",
    "Pause",
    "PauseScaling",
    "Pending",
    "Principal",
    "ProxyRule",
    "Readiness",
    "Reading",
    "Recovered",
    "Requester",
    "Resume",
    "Rollback",
    "Running",
    "RuntimeWish",
    "Sample",
    "SavedState",
    "Scale",
    "Secret",
    "Severity",
    "StubEnded",
    "Unknown",
    "Verdict",
    "Wish",
]
