"""The status of a cluster without a master: its instances still serve, or it has ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarn.cluster.link import Link
from tarn.cluster.read.table import first_words, moment
from tarn.domain import ClusterState, Issue
from tarn.errors import NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import ClusterRef, Ending

__all__ = [
    "ENDED",
    "about_end",
    "ended_status",
    "is_over",
    "masterless",
    "read_status",
    "without_master",
]

# Code of the status of a cluster that has ended.
ENDED = "TARN-4004"
UNPROVEN = "TARN-3703"


def ended_status(ending: Ending) -> Mapping[str, Any]:
    """Return the status of a cluster that ended as *ending* says."""
    reason = ending.reason or "no reason is known"
    said = {"state": ending.state, "reason": reason, "code": ENDED, "ended_at": ending.at}
    return _status(ending.name, ending.ref, **said)


def _status(name: str, ref: ClusterRef, **said: Any) -> Mapping[str, Any]:
    """Return an empty status, as a master would make it, with the fields *said*."""
    return {
        "name": name,
        "runtime": ref.runtime,
        "epoch": str(ref.epoch),
        "desired": 0,
        "ready": 0,
        "stale": True,
        "instances": [],
        "ended": [],
        "warnings": [],
        "faults": [],
        "issues": [],
        **said,
    }


def is_over(status: Mapping[str, Any]) -> bool:
    """Tell whether *status* is that of a cluster that has ended."""
    return status.get("code") == ENDED


def about_end(status: Mapping[str, Any]) -> Issue:
    """Return how an ended cluster ended, and what can be done."""
    name, at = status["name"], status.get("ended_at")
    found = f"{name} {status['state']}" + (f" at {moment(at)}" if at else "")
    step = f"`tarn up` starts it again; `tarn logs -c {name}` shows what it wrote."
    return Issue(name, f"{found}: {first_words(status['reason'])}", step, ENDED)


def read_status(link: Link, directory: Path) -> Mapping[str, Any]:
    """Return the status of a cluster, even if its master does not answer."""
    try:
        return link.read(lambda api: api.status())
    except (UnreachableError, TimedOutError, NotFoundError) as error:
        return without_master(link, directory, error)


def without_master(link: Link, directory: Path, error: TarnError) -> Mapping[str, Any]:
    """Return the status of a cluster whose master did not answer, for the reason *error*.

    Raises:
        NotFoundError: The cluster does not run, and its runtime does not know how it ended.
        TarnError: *error* itself, if the cluster has a master.
    """
    ending = link.ended()
    if ending is not None:
        return ended_status(ending)
    if isinstance(error, NotFoundError):
        raise error
    ref = link.find()
    if ref is None:
        raise NotFoundError(
            f"cluster '{link.name}' does not run any more: no master, and no instance",
            next_step=f"`tarn up` starts it again; its logs are in {directory}/logs.",
        ) from error
    left = masterless(link.name, ref, error)
    if left is None:
        raise error
    return left


def masterless(
    name: str, ref: ClusterRef | None, error: TarnError | None = None
) -> Mapping[str, Any] | None:
    """Return a status made from *ref*; None unless instances serve or a master restarts.

    Args:
        name: The cluster's name.
        ref: The reference that its runtime has.
        error: The error at the address of the last master.
    """
    if ref is None or not (ref.orphans or ref.restarts):
        return None
    count = len(ref.orphans)
    serve, them = f"{count} instances serve", "them"
    if count == 1:
        serve, them = "1 instance serves", "it"
    if ref.restarts:
        code = "TARN-4023"
        reason = f"the master is being started again; {serve if count else 'its instances go on'}"
    else:
        code, reason = "TARN-4003", f"no master is running; {serve}; `tarn up` takes {them} over"
    if error is not None and error.code == UNPROVEN:
        reason += (
            f". At {error.where} another program answers, which did not prove to be the master: "
            "no token was sent to it"
        )
    unknown: dict[str, Any] = dict.fromkeys(("node", "grpc", "metrics", "age_s"))
    instances = [
        {"id": id_, "state": "ready", "reason": "", "http": http, "models": [], **unknown}
        for id_, http in ref.orphans
    ]
    said = {"state": str(ClusterState.DEGRADED), "reason": reason, "code": code}
    return _status(name, ref, **said, desired=count, ready=count, instances=instances)
