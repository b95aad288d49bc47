"""A cluster without a master: its instances serve on, or it is over."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarn.cluster.ended import over
from tarn.cluster.link import Link
from tarn.domain import ClusterState
from tarn.errors import NotFoundError, TarnError
from tarn.interfaces import ClusterRef

__all__ = ["masterless", "without_master"]


def without_master(link: Link, directory: Path, error: TarnError) -> Mapping[str, Any]:
    """Return the status of a cluster of which no master answered, which *error* says.

    Raises:
        NotFoundError: Nothing of it runs, and nobody remembers how it ended.
        TarnError: *error* itself: there is a master.
    """
    ending = link.ended()
    if ending is not None:
        return over(ending)
    if isinstance(error, NotFoundError):
        raise error
    ref = link.find()
    if ref is None:
        raise NotFoundError(
            f"cluster '{link.name}' does not run any more: no master, and no instance",
            next_step=f"`tarn up` starts it again; its logs are in {directory}/logs.",
        ) from error
    left = masterless(link.name, ref)
    if left is None:
        raise error
    return left


def masterless(name: str, ref: ClusterRef | None) -> Mapping[str, Any] | None:
    """Return a status made from *ref* alone; None when it does not say that instances serve."""
    if ref is None or not ref.orphans:
        return None
    count = len(ref.orphans)
    serve, them = (
        ("1 instance serves", "it") if count == 1 else (f"{count} instances serve", "them")
    )
    unknown: dict[str, Any] = dict.fromkeys(("node", "grpc", "metrics", "age_s"))
    return {
        "name": name,
        "runtime": ref.runtime,
        "state": str(ClusterState.DEGRADED),
        "reason": f"no master; {serve}; `tarn up` takes {them} over",
        "code": "TARN-4003",
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
