"""`tarn.Cluster`: the user's object over one fleet, in a notebook and under the command line."""

from tarn.cluster.connecting import connect, remembered
from tarn.cluster.entries import ClusterEntry, choose, entries
from tarn.cluster.environment import ClusterEnvironment, current_environment
from tarn.cluster.handle import Cluster
from tarn.cluster.waiting import Goal

__all__ = [
    "Cluster",
    "ClusterEntry",
    "ClusterEnvironment",
    "Goal",
    "choose",
    "connect",
    "current_environment",
    "entries",
    "remembered",
]
