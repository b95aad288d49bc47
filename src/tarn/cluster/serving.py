"""A cluster without a master: its instances serve on, or it is over."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarn.cluster.ended import ended_status
from tarn.cluster.link import Link
from tarn.domain import ClusterState
from tarn.errors import NotFoundError, TarnError
from tarn.interfaces import ClusterRef

__all__ = ["masterless", "without_master"]

UNPROVEN = "TARN-3703"


def without_master(link: Link, directory: Path, error: TarnError) -> Mapping[str, Any]:
    """Return the status of a cluster of which no master answered, which *error* says.

    Raises:
        NotFoundError: Nothing of it runs, and nobody remembers how it ended.
        TarnError: *error* itself: there is a master.
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
    """Return a status made from *ref*; None when it does not say that instances serve.

    Args:
        name: The cluster's.
        ref: What its runtime knows.
        error: What was heard where the last master was.
    """
    if ref is None or not (ref.orphans or ref.restarts):
        return None
    count = len(ref.orphans)
    serve, them = (
        ("1 instance serves", "it") if count == 1 else (f"{count} instances serve", "them")
    )
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
    return {
        "name": name,
        "runtime": ref.runtime,
        "state": str(ClusterState.DEGRADED),
        "reason": reason,
        "code": code,
        "epoch": str(ref.epoch),
        "desired": count,
        "ready": count,
        "stale": True,
        "instances": [
            {"id": id_, "state": "ready", "reason": "", "http": http, "models": [], **unknown}
            for id_, http in ref.orphans
        ],
        "ended": [],
        "warnings": [],
        "faults": [],
    }
