"""A cluster's state, for people and programs."""

import enum

__all__ = ["ClusterState"]


class ClusterState(enum.StrEnum):
    """Where a cluster is in its life."""

    SUBMITTED = "submitted"
    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    """It serves, but a served model is unavailable somewhere, or it is too small for too long."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
