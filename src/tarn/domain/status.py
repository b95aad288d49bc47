"""A cluster's state, for people and programs."""

import enum

__all__ = ["ClusterState"]


class ClusterState(enum.StrEnum):
    """Where a cluster is in its life."""

    SUBMITTED = "submitted"
    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    """It serves less than it did or should: a model is unavailable somewhere, fewer instances
    serve than did, or too few for too long."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
