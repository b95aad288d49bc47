"""A snapshot as JSON: the shapes of ``/api/v1``. Pure, and one instance at a time."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping

from tarn.control.snapshot import Follower, Snapshot
from tarn.domain import (
    Decision,
    DiscoveryView,
    Event,
    Instance,
    Known,
    Limits,
    Readiness,
    Sample,
)
from tarn.domain.events import asker_fields, event_fields
from tarn.domain.fleet import DemandReport
from tarn.domain.outlook import Holds, Prospect
from tarn.domain.size_outlook import SizeOutlook, coming_words, sentence
from tarn.domain.unwell import Unwell
from tarn.http.visibility import NOTHING, VisibilityFilter

__all__ = [
    "authorizer_json",
    "authorizer_warnings",
    "decision_json",
    "encode",
    "event_json",
    "health",
    "holds_json",
    "instances_json",
    "limits_json",
    "render_instances_json",
    "render_status",
    "size_json",
    "status_json",
    "stopped",
    "view_json",
]

OK = "OK"
STOPPED = "CONTROL_THREAD_STOPPED"
NO_INSTANCES_READY = "NO_INSTANCES_READY"
AUTHORIZER_UNAVAILABLE = "RANGER_UNAVAILABLE"
"""The contract's word; it stands for whatever authorizer is configured."""

STALE = "the authorizer answers from what it last knew"

Json = Mapping[str, object]


def encode(value: object) -> str:
    """Return *value* as one line of JSON; numbers that JSON cannot write become null."""
    try:
        return json.dumps(value, allow_nan=False, separators=(", ", ": "))
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=(", ", ": "))


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value


def _join(head: Json, lists: Mapping[str, Iterable[Json]], hidden: VisibilityFilter) -> bytes:
    """Encode a mapping whose long lists are written item by item, without *hidden* models."""
    parts = [encode(hidden.head(head))[:-1]]
    for key, items in lists.items():
        texts = [encode(hidden.row(item)) for item in items]
        parts.append(f", {json.dumps(key)}: [{', '.join(texts)}]")
    return ("".join(parts) + "}\n").encode()


def render_status(
    snapshot: Snapshot, now_s: float, hidden: VisibilityFilter = NOTHING, **more: object
) -> bytes:
    """Return the body of ``GET /api/v1/status``; *now_s* is monotonic, for the ages.

    *more* goes into its head, in place of the text there.
    """
    waits = snapshot.prospects
    return _join(
        {
            **status_json(snapshot),
            "holds": holds_json(snapshot.holds, now_s),
            "demand": _demand(snapshot.demand, now_s),
            **more,
        },
        {
            "instances": (_instance(i, now_s, waits.get(i.id)) for i in snapshot.instances),
            "ended": (_instance(i, now_s) for i in snapshot.ended),
            "followers": (_follower(f) for f in snapshot.followers),
        },
        hidden,
    )


def render_instances_json(
    snapshot: Snapshot, now_s: float, hidden: VisibilityFilter = NOTHING
) -> bytes:
    """Return the body of ``/instances`` in JSON; ``in_view`` marks who may get traffic.

    Next to it stands the ``weight`` that the view gives it, null without: rows in view say what
    `view_json` says.
    """
    head = {
        "name": snapshot.name,
        "epoch": str(snapshot.epoch),
        "revision": snapshot.view.revision,
        "complete": snapshot.view.complete,
        "stale": snapshot.stale,
    }
    weights = {member.instance_id: member.weight for member in snapshot.view.members}
    rows = (
        {
            **_instance(i, now_s, snapshot.prospects.get(i.id)),
            "in_view": i.id in weights,
            "weight": weights.get(i.id),
        }
        for i in snapshot.instances
    )
    return _join(head, {"instances": rows}, hidden)


def status_json(snapshot: Snapshot) -> dict[str, object]:
    """Return everything of the status but its long lists."""
    pause = snapshot.pause
    return {
        "name": snapshot.name,
        "runtime": snapshot.runtime,
        "state": str(snapshot.state),
        "reason": snapshot.reason,
        "epoch": str(snapshot.epoch),
        "spec_revision": snapshot.spec_revision,
        "view_revision": snapshot.view.revision,
        "desired": snapshot.desired,
        "ready": snapshot.ready,
        "manual": snapshot.manual,
        "limits": limits_json(snapshot.limits),
        "pause": {"until": pause.until, "reason": pause.reason} if pause else None,
        "at": snapshot.at,
        "stale": snapshot.stale,
        "warnings": list(snapshot.warnings),
        "faults": list(snapshot.faults),
        "troubles": [
            {"code": code, "subject": subject, "message": said}
            for code, subject, said in snapshot.troubles
        ],
    }


def authorizer_json(readiness: Readiness, *, stale: bool, hides: bool) -> dict[str, object]:
    """Return whether it can answer, from a cache that went stale, and with no for some models."""
    said = {"ready": readiness.ready, "reason": readiness.reason}
    return {**said, "stale": stale, "hides_models": hides}


def stopped(silent_s: float) -> Iterator[str]:
    """Say that the control thread has missed its ticks for *silent_s*; nothing where it is 0."""
    if silent_s:
        yield (
            f"TARN-1031 the control thread has not finished a tick for {silent_s:.0f} s: the "
            "status shown is that old, and no command is carried out; restart the master"
        )


def authorizer_warnings(readiness: Readiness, *, stale: bool) -> Iterator[str]:
    """Yield what people should know of it."""
    if not readiness.ready:
        why = f": {readiness.reason}" if readiness.reason else ""
        yield f"the authorizer cannot answer, so nobody may use a model{why}"
    elif stale:
        yield STALE


def holds_json(holds: Holds, now_s: float) -> dict[str, object]:
    """Return what holds the fleet back; times are seconds from *now_s*, null where it does not."""
    return {
        "halted": holds.halted,
        "failures_in_a_row": holds.strikes,
        "retry_in_s": _in_s(holds.retry_s, now_s),
        "frozen_for_s": None if holds.frozen_s is None else _in(now_s, holds.frozen_s),
        "thaws_in_s": _in_s(holds.thaw_s, now_s),
        "cooldown_in_s": _in_s(holds.cooldown_s, now_s),
        "policy": {
            "use": holds.size.policy,
            "wanted": holds.size.wanted,
            "reason": holds.size.reason,
        },
        "size": size_json(holds.size, now_s),
    }


def size_json(size: SizeOutlook, now_s: float) -> dict[str, object]:
    """Return how the size stands: a sentence, what holds it, and what comes next if anything."""
    in_s = _in_s(size.next_s, now_s)
    coming = size.next_size is not None and in_s is not None
    return {
        "sentence": f"{sentence(size, now_s)}.",
        "allowed": size.allowed,
        "held": [
            {"by": str(held.by), "reason": held.reason, "left_s": _in_s(held.until_s, now_s)}
            for held in size.held
        ],
        "next": {"replicas": size.next_size, "in_s": in_s, "words": coming_words(size, now_s)}
        if coming
        else None,
    }


def _in(moment_s: float, now_s: float) -> float:
    return round(moment_s - now_s, 3)


def _in_s(moment_s: float | None, now_s: float) -> float | None:
    """Return how far off *moment_s* is; never negative, None for a moment that there is not."""
    return None if moment_s is None else max(0.0, _in(moment_s, now_s))


def _waits(prospect: Prospect | None, now_s: float) -> dict[str, object] | None:
    if prospect is None:
        return None
    return {
        "for": str(prospect.waits_for),
        "until_in_s": _in_s(prospect.until_s, now_s),
        "followers": list(prospect.followers),
        "sessions": prospect.sessions,
        "lacks": prospect.lacks,
    }


def _demand(demand: DemandReport | None, now_s: float) -> dict[str, object] | None:
    if demand is None:
        return None
    age_s = max(0.0, _in(now_s, demand.heard_s))
    return {
        "from": demand.source,
        "waiting": demand.waiting,
        "refused": demand.refused,
        "age_s": age_s,
    }


def limits_json(limits: Limits) -> dict[str, object]:
    """Return the bounds of the fleet's size."""
    return {
        "min": limits.min,
        "max": limits.max,
        "ceiling": limits.ceiling,
        "ceiling_reason": limits.ceiling_reason,
    }


def _instance(
    instance: Instance, now_s: float, prospect: Prospect | None = None
) -> dict[str, object]:
    endpoint = instance.endpoint
    return {
        "id": instance.id,
        "state": str(instance.state),
        "suspect": instance.out_for,
        "unwell": _unwell(instance.unwell),
        "reason": instance.reason,
        "node": instance.node,
        "container_id": instance.container_id,
        "spec_hash": instance.spec_hash,
        "age_s": round(max(0.0, now_s - instance.requested_s), 3),
        "state_for_s": round(max(0.0, now_s - instance.since_s), 3),
        "waits": _waits(prospect, now_s),
        "http": endpoint.http if endpoint else None,
        "grpc": endpoint.grpc if endpoint else None,
        "metrics": endpoint.metrics if endpoint else None,
        "models": [{"name": n, "state": s, "reason": r} for n, s, r in instance.models],
        "busy": _number(instance.busy),
    }


def _unwell(unwell: Unwell | None) -> dict[str, object] | None:
    if unwell is None or unwell.for_all:  # of a model that fails everywhere the troubles tell
        return None
    return {
        "symptom": str(unwell.symptom),
        "model": unwell.model,
        "message": unwell.words,
        "ejected": unwell.ejected,
        "confirmed": unwell.confirmed,
    }


def _number(sample: Sample[float]) -> float | None:
    known = isinstance(sample, Known) and math.isfinite(sample.value)
    return sample.value if isinstance(sample, Known) and known else None


def _follower(follower: Follower) -> dict[str, object]:
    return {
        "name": follower.name,
        "required": follower.required,
        "revision": follower.revision,
        "age_s": follower.age_s,
        "lost": follower.lost,
        "error": follower.error,
    }


def event_json(event: Event, cluster: str) -> dict[str, object]:
    """Return one event of *cluster*, as it also stands in the log and in its file."""
    return event_fields(event, cluster)


def decision_json(decision: Decision) -> dict[str, object]:
    """Return one decision about the size."""
    return {
        "at": decision.at,
        "wanted": decision.wanted,
        "desired": decision.desired,
        "by": decision.by,
        "reason": decision.reason,
        "held_back": decision.held_back,
        "number": decision.number,
        "request": asker_fields(decision.asker),
    }


def view_json(view: DiscoveryView) -> dict[str, object]:
    """Return the whole view, as a follower obeys it."""
    return {
        "epoch": str(view.epoch),
        "revision": view.revision,
        "complete": view.complete,
        "members": [
            {
                "instance_id": member.instance_id,
                "container_id": member.container_id,
                "host": member.endpoint.host,
                "http_port": member.endpoint.http_port,
                "grpc_port": member.endpoint.grpc_port,
                "metrics_port": member.endpoint.metrics_port,
                "spec_hash": member.spec_hash,
                "weight": member.weight,
            }
            for member in view.members
        ],
    }


def instances_json(snapshot: Snapshot) -> dict[str, object]:
    """Return the view of *snapshot* as the stream's ``instances`` event carries it."""
    return view_json(snapshot.view)


def health(snapshot: Snapshot, *, authorizer_ready: bool) -> str:
    """Return the first line of ``/health``; anything but ``OK`` goes with 503.

    Nothing wanted and nothing but drains left is healthy: the cluster sleeps as it was told.
    """
    if not authorizer_ready:
        return AUTHORIZER_UNAVAILABLE
    asleep = snapshot.desired == 0 and all(i.state == "draining" for i in snapshot.instances)
    return OK if snapshot.ready or asleep else NO_INSTANCES_READY
