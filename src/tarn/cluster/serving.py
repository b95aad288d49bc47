"""A cluster whose master is gone while its instances serve on."""

from collections.abc import Mapping
from typing import Any

from tarn.domain import ClusterState
from tarn.interfaces import ClusterRef

__all__ = ["masterless"]


def masterless(name: str, ref: ClusterRef | None) -> Mapping[str, Any] | None:
    """Return a status made from *ref* alone; None when it does not say that instances serve."""
    if ref is None or not ref.orphans:
        return None
    count = len(ref.orphans)
    serve = "1 instance serves" if count == 1 else f"{count} instances serve"
    return {
        "name": name,
        "runtime": ref.runtime,
        "state": str(ClusterState.DEGRADED),
        "reason": f"no master; {serve}; `tarn up` takes {'it' if count == 1 else 'them'} over",
        "code": "TARN-4003",
        "epoch": str(ref.epoch),
        "desired": count,
        "ready": count,
        "stale": True,
        "instances": [
            {
                "id": id_,
                "state": "ready",
                "reason": "",
                "node": None,
                **dict.fromkeys(("http", "grpc", "metrics")),
            }
            for id_ in ref.orphans
        ],
        "ended": [],
        "warnings": [],
        "faults": ["no master"],
    }
