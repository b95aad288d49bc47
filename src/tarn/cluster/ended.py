"""A cluster that is over, as its runtime remembers it: a status without a master."""

from collections.abc import Mapping
from typing import Any

from tarn.cluster.reported_issue import ReportedIssue, first_words
from tarn.cluster.table import moment
from tarn.interfaces import Ending

__all__ = ["ENDED", "about_end", "ended_status", "is_over"]

ENDED = "TARN-4004"
"""Code of the status of a cluster that is over."""


def ended_status(ending: Ending) -> Mapping[str, Any]:
    """Return the status of a cluster that ended as *ending* says."""
    return {
        "name": ending.name,
        "runtime": ending.ref.runtime,
        "state": ending.state,
        "reason": ending.reason or "no reason is known",
        "code": ENDED,
        "epoch": str(ending.ref.epoch),
        "ended_at": ending.at,
        "desired": 0,
        "ready": 0,
        "stale": True,
        "instances": [],
        "ended": [],
        "warnings": [],
        "faults": [],
    }


def is_over(status: Mapping[str, Any]) -> bool:
    """Say whether *status* is that of a cluster that is over."""
    return status.get("code") == ENDED


def about_end(status: Mapping[str, Any]) -> ReportedIssue:
    """Return how a cluster that is over ended, and what can be done."""
    name, at = status["name"], status.get("ended_at")
    found = f"{name} {status['state']}" + (f" at {moment(at)}" if at else "")
    step = f"`tarn up` starts it again; `tarn logs -c {name}` shows what it wrote."
    return ReportedIssue(name, f"{found}: {first_words(status['reason'])}", step, ENDED)
