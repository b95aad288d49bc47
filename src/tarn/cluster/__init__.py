"""`tarn.Cluster`: the user's object over one fleet, in a notebook and under the command line."""

from tarn.cluster.connecting import connect, remembered
from tarn.cluster.entries import ClusterEntry, choose, entries
from tarn.cluster.environment import ClusterEnvironment, current_environment
from tarn.cluster.handle import Cluster
from tarn.cluster.operate.waiting import Goal
from tarn.cluster.read.records import (
    CallStatus,
    CommandAnswer,
    Explanation,
    InstanceStatus,
    StartPlan,
    Status,
)

__all__ = [
    "CallStatus",
    "Cluster",
    "ClusterEntry",
    "ClusterEnvironment",
    "CommandAnswer",
    "Explanation",
    "Goal",
    "InstanceStatus",
    "StartPlan",
    "Status",
    "choose",
    "connect",
    "current_environment",
    "entries",
    "remembered",
]
