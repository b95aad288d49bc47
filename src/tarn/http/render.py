"""A snapshot as JSON: the shapes of ``/api/v1``. Pure, and one instance at a time."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping

from tarn.domain import (
    Decision,
    DiscoveryView,
    Instance,
    InstanceState,
    Issue,
    Known,
    Limits,
    Readiness,
)
from tarn.domain.events import asker_fields
from tarn.domain.instance import Unwell
from tarn.domain.outlook import Holds, Prospect, SizeOutlook, coming_words, sentence
from tarn.domain.reading import Reading, is_not_loaded
from tarn.http.visibility import NOTHING, VisibilityFilter
from tarn.read.snapshot import Snapshot
from tarn.triton.exits import lacks_shared_memory

__all__ = [
    "authorizer_issues",
    "authorizer_json",
    "decision_json",
    "encode",
    "health",
    "holds_json",
    "issues_json",
    "limits_json",
    "reason",
    "render_instances_json",
    "render_status",
    "size_json",
    "status_json",
    "stopped",
    "update_json",
    "view_json",
]

OK = "OK"
STOPPED = "CONTROL_THREAD_STOPPED"
NO_INSTANCES_READY = "NO_INSTANCES_READY"
# The contract names Ranger; the word stands for any authorizer.
AUTHORIZER_UNAVAILABLE = "RANGER_UNAVAILABLE"

STALE = "the authorizer answers from what it last knew"

Json = Mapping[str, object]


def encode(value: object) -> str:
    """Return *value* as one line of JSON; NaN and infinities become null."""
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
    # The long lists are encoded item by item, without a copy of the whole.
    parts = [encode(hidden.head(head))[:-1]]
    for key, items in lists.items():
        texts = [encode(hidden.row(item)) for item in items]
        parts.append(f", {json.dumps(key)}: [{', '.join(texts)}]")
    return ("".join(parts) + "}\n").encode()


def render_status(
    snapshot: Snapshot, now_s: float, hidden: VisibilityFilter = NOTHING, **more: object
) -> bytes:
    """Return the body of ``GET /api/v1/status``.

    *now_s* is monotonic, for the ages; *more* replaces fields of the head.
    """
    waits, demand = snapshot.prospects, snapshot.demand
    reported = demand and {
        "from": demand.source,
        "waiting": demand.waiting,
        "refused": demand.refused,
        "age_s": max(0.0, _in(now_s, demand.heard_s)),
    }
    followers = (
        {
            "name": follower.name,
            "required": follower.required,
            "revision": follower.revision,
            "age_s": follower.age_s,
            "lost": follower.lost,
            "error": follower.error,
        }
        for follower in snapshot.followers
    )
    return _join(
        {
            **status_json(snapshot, hidden),
            "holds": holds_json(snapshot.holds, now_s),
            "demand": reported,
            **more,
        },
        {
            "instances": (
                {
                    **_instance(i, now_s, waits.get(i.id)),
                    "cache": _cache(snapshot.readings.get(i.id)),
                }
                for i in snapshot.instances
            ),
            "ended": (_instance(i, now_s) for i in snapshot.ended),
            "followers": followers,
        },
        hidden,
    )


def render_instances_json(
    snapshot: Snapshot, now_s: float, hidden: VisibilityFilter = NOTHING
) -> bytes:
    """Return the body of ``/instances`` in JSON.

    ``in_view`` marks instances that may get traffic, with their ``weight`` in the view.
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


def status_json(snapshot: Snapshot, hidden: VisibilityFilter = NOTHING) -> dict[str, object]:
    """Return the status without its long lists and without *hidden* models in its issues."""
    pause = snapshot.pause
    return {
        "name": snapshot.name,
        "runtime": snapshot.runtime,
        "state": str(snapshot.state),
        "reason": reason(snapshot, hidden),
        "epoch": str(snapshot.epoch),
        "spec_revision": snapshot.spec_revision,
        "view_revision": snapshot.view.revision,
        "desired": snapshot.desired,
        "ready": snapshot.ready,
        "manual": snapshot.manual,
        "limits": limits_json(snapshot.limits),
        "pause": {"until": pause.until, "reason": pause.reason} if pause else None,
        "updating": update_json(snapshot, hidden),
        "last_update": _ended_update(snapshot, hidden),
        "at": snapshot.at,
        "stale": snapshot.stale,
        "look_interval_s": round(snapshot.look_interval_s, 2),
        "faults": list(snapshot.faults),
        **issues_json(snapshot.issues, hidden),
    }


def update_json(snapshot: Snapshot, hidden: VisibilityFilter = NOTHING) -> dict[str, object] | None:
    """Return how far the update is that is on its way; None where there is none."""
    update = snapshot.update
    if update is None:
        return None
    arrived = [i for i in snapshot.instances if i.spec_hash == update.target]
    proven = sum(i.in_view and (bool(update.undone) or i.id in update.proven) for i in arrived)
    state = "undoing" if update.undone else "paused" if update.paused else "rolling"
    return {
        "number": update.number,
        "state": state,
        "began_at": update.began_at,
        "reason": hidden.text(update.undone),
        "spec_hash": update.target,
        "done": proven,
        "of": max(snapshot.desired, proven),
    }


def _ended_update(snapshot: Snapshot, hidden: VisibilityFilter) -> dict[str, object] | None:
    update = snapshot.updated
    if update is None:
        return None
    return {
        "number": update.number,
        "state": "undone" if update.undone else "done",
        "reason": hidden.text(update.undone),
    }


def reason(snapshot: Snapshot, hidden: VisibilityFilter) -> str:
    """Return the reason of the state; only figures if the reason names hidden models."""
    if hidden.sees(snapshot.reason_models):
        return hidden.text(snapshot.reason)
    return f"{snapshot.ready} of {snapshot.desired} ready"


def issues_json(
    issues: Iterable[Issue], hidden: VisibilityFilter = NOTHING
) -> dict[str, list[object]]:
    """Return the issues without *hidden* models, in full and in the fields for older readers."""
    shown = [hidden.issue(issue) for issue in issues]
    return {
        "issues": [
            {
                "code": issue.code,
                "subject": issue.subject,
                "message": issue.found,
                "public": issue.public,
                "next_step": issue.next_step,
                "since": issue.since,
                "until": issue.until,
                "models": list(issue.models),
                "instances": list(issue.instances),
                "source": issue.source,
                "followers": list(issue.followers),
            }
            for issue in shown
        ],
        # for clients from before `issues`
        "troubles": [
            {"code": issue.code, "subject": issue.subject, "message": issue.found}
            for issue in shown
        ],
        "warnings": [issue.line for issue in shown],
    }


def authorizer_json(readiness: Readiness, *, stale: bool, hides: bool) -> dict[str, object]:
    """Return the state of the authorizer; *hides* says that it denies some models."""
    return {
        "ready": readiness.ready,
        "reason": readiness.reason,
        "stale": stale,
        "hides_models": hides,
    }


def stopped(silent_s: float) -> Iterator[Issue]:
    """Yield the issue of a control thread that has missed its ticks for *silent_s*, if not 0."""
    if silent_s:
        found = (
            f"the control thread has not finished a tick for {silent_s:.0f} s: the "
            "status shown is that old, and no command is carried out; restart the master"
        )
        yield Issue("", found, code="TARN-1031", source="watch")


def authorizer_issues(readiness: Readiness, *, stale: bool) -> Iterator[Issue]:
    """Yield the issue of an authorizer that is not ready or answers from a stale cache."""
    if not readiness.ready:
        why = f": {readiness.reason}" if readiness.reason else ""
        found = f"the authorizer cannot answer, so nobody may use a model{why}"
        yield Issue("authorizer", found, code="TARN-3832")
    elif stale:
        yield Issue("authorizer", STALE)


def holds_json(holds: Holds, now_s: float) -> dict[str, object]:
    """Return what holds the fleet back; times are seconds from *now_s*, or null."""
    return {
        "halted": holds.halted,
        "halted_by": holds.halted_by,
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
    """Return the outlook of the size: a sentence, what holds it, and what comes next."""
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
    endpoint, busy = instance.endpoint, instance.busy
    return {
        "id": instance.id,
        "state": str(instance.state),
        "suspect": instance.out_for,
        "silent": bool(instance.suspect),
        "unwell": _unwell(instance.unwell),
        "reason": instance.reason,
        "blamed": instance.blamed,
        "code": _instance_code(instance),
        "node": instance.node,
        "container_id": instance.container_id,
        "spec_hash": instance.spec_hash,
        "age_s": round(max(0.0, now_s - instance.requested_s), 3),
        "state_for_s": round(max(0.0, now_s - instance.since_s), 3),
        "waits": _waits(prospect, now_s),
        "http": endpoint.http if endpoint else None,
        "grpc": endpoint.grpc if endpoint else None,
        "metrics": endpoint.metrics if endpoint else None,
        "models": [_model(name, state, reason) for name, state, reason in instance.models],
        "busy": busy.value if isinstance(busy, Known) and math.isfinite(busy.value) else None,
    }


def _cache(reading: Reading | None) -> dict[str, float] | None:
    """Return what an instance's response cache counted; None: no model uses one, or unknown."""
    if reading is None:
        return None
    hits, misses = reading.known("cache_hits_total"), reading.known("cache_misses_total")
    if hits is None or misses is None or not math.isfinite(hits + misses):
        return None
    return {"hits": hits, "misses": misses}


def _instance_code(instance: Instance) -> str:
    if lacks_shared_memory(instance.reason):
        return "TARN-3159"
    if instance.state is InstanceState.FAILED:
        return "TARN-1105"
    return "TARN-1106" if instance.suspect else ""


def _model(name: str, state: str, reason: str) -> dict[str, str]:
    """Return one model of an instance, with a code if it does not serve."""
    row = {"name": name, "state": state, "reason": reason}
    if state != "UNAVAILABLE":
        return row
    if is_not_loaded(state, reason):
        return {**row, "code": "TARN-1147"}
    return {**row, "code": "TARN-3159" if lacks_shared_memory(reason) else "TARN-1111"}


def _unwell(unwell: Unwell | None) -> dict[str, object] | None:
    if unwell is None or unwell.for_all:  # a model that fails everywhere is one of the issues
        return None
    return {
        "symptom": str(unwell.symptom),
        "model": unwell.model,
        "message": unwell.words,
        "ejected": unwell.ejected,
        "confirmed": unwell.confirmed,
    }


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
    """Return the whole view, as followers apply it."""
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


def health(snapshot: Snapshot, *, authorizer_ready: bool) -> str:
    """Return the first line of ``/health``; anything but ``OK`` is sent with 503."""
    if not authorizer_ready:
        return AUTHORIZER_UNAVAILABLE
    # A cluster that was scaled to 0 is healthy, also while its last instances drain.
    asleep = snapshot.desired == 0 and all(i.state == "draining" for i in snapshot.instances)
    return OK if snapshot.ready or asleep else NO_INSTANCES_READY
