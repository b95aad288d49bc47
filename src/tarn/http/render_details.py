"""The details of ``/api/v1``: scaling, control calls, models, metrics targets. Pure."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator

from tarn.domain import Instance, Known
from tarn.domain.affinity import AffinityStatus, rules_json
from tarn.domain.calls_everywhere import CallState, InstanceCallState, who_has
from tarn.domain.control_calls import ControlCall
from tarn.domain.model_totals import OTHER, ModelRates
from tarn.http.commands import wrong
from tarn.http.render import decision_json, limits_json, size_json
from tarn.http.visibility import VisibilityFilter
from tarn.read.snapshot import SignalStatus, Snapshot

__all__ = [
    "affinity_json",
    "asked_number",
    "control_json",
    "models_json",
    "scaling_json",
    "sd_json",
]

# The newest; ``/api/v1/decisions`` has all that are kept.
DECISIONS = 10


def scaling_json(snapshot: Snapshot, now_s: float) -> dict[str, object]:
    """Return the answer of ``/api/v1/scaling``; *now_s* is monotonic, for ages and waits."""
    size, pause = snapshot.holds.size, snapshot.pause
    shown = size_json(size, now_s)
    return {
        "name": snapshot.name,
        "at": snapshot.at,
        "stale": snapshot.stale,
        "sentence": shown["sentence"],
        "policy": size.policy,
        "desired": snapshot.desired,
        "ready": snapshot.ready,
        "wanted": size.wanted,
        "allowed": size.allowed,
        "reason": size.reason,
        "held": shown["held"],
        "next": shown["next"],
        "manual": snapshot.manual,
        "limits": limits_json(snapshot.limits),
        "pause": {"until": pause.until, "reason": pause.reason} if pause else None,
        "cooldown_s": size.cooldown_s,
        "windows": {"up_s": size.up_s, "down_s": size.down_s},
        "signals": [_signal(sight, now_s) for sight in snapshot.signals],
        "decisions": [decision_json(decision) for decision in snapshot.decisions[-DECISIONS:]],
    }


def _signal(sight: SignalStatus, now_s: float) -> dict[str, object]:
    sample = sight.sample
    shown: dict[str, object] = {"name": sight.name, "value": None, "unit": sight.unit}
    shown |= {"age_s": None, "source": sight.source, "reason": "", "read": sight.read}
    if not isinstance(sample, Known):
        return {**shown, "reason": sample.reason}
    age_s = round(sample.age_s + max(0.0, now_s - sight.looked_s), 3)
    value = sample.value if math.isfinite(sample.value) else None
    return {**shown, "value": value, "age_s": age_s}


def affinity_json(status: AffinityStatus, hidden: VisibilityFilter) -> dict[str, object]:
    """Return the answer of ``/affinity``, without hidden models."""
    rules, complete = [], status.complete
    for rule in rules_json(status.rules):
        models = [name for name in rule["models"] if name not in hidden.names]
        complete = complete and len(models) == len(rule["models"])
        if models or not rule["models"]:  # a rule without models is one for all of them
            rules.append({**rule, "models": models})
    return {"complete": complete, "rules": rules}


# Instances that a row names if all calls are listed.
NAMED = 20
_WORST_FIRST = ("UNAVAILABLE", "LOADING", "UNLOADING", "READY")

Json = dict[str, object]


def asked_number(text: str | None) -> int | None:
    """Return the number in the query ``call``; None if it is absent."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):  # noqa: PLR2004 (fits a double)
        raise wrong("call", f"= '{text[:40]}'", "the number of a control call")
    return int(text)


def control_json(snapshot: Snapshot, number: int | None) -> Json:
    """Return the control calls, each with the instances that carried it out.

    With *number*, only that call and later ones, which may replace it. ``calls`` are wanted now;
    ``over`` are the last ones that no longer are.
    """
    control = snapshot.control
    calls = [c for c in control.calls if number is None or c.number >= number]
    over = [o for o in control.over if number is None or o.call.number >= number]
    named = NAMED if number is None else len(snapshot.instances)
    return {
        "name": snapshot.name,
        "number": control.number,
        "calls": [
            {
                **_call(call),
                **_stand(tuple(who_has(snapshot.instances, call)), named),
                "settled": call.number not in control.unsettled,
            }
            for call in calls
        ],
        "over": [
            {
                **_call(outcome.call),
                "refuses": [{"id": id_, "why": why} for id_, why in outcome.refused],
                "overtaken_by": outcome.overtaken_by or None,
            }
            for outcome in over
        ],
    }


def _call(call: ControlCall) -> Json:
    return {
        "call": call.number,
        "kind": str(call.kind),
        "model": call.model,
        "given": sorted(json.loads(call.body)),
        "digest": hashlib.sha256(call.body.encode()).hexdigest()[:16],
        "asked_at": call.asked_at,
    }


def _stand(stand: tuple[InstanceCallState, ...], named: int) -> Json:
    groups = {state: [one for one in stand if one.state is state] for state in CallState}
    return {
        "has": len(groups[CallState.HAS]),
        "of": len(stand),
        "not_yet": _rows(groups[CallState.NOT_YET][:named]),
        "refuses": _rows(groups[CallState.REFUSES][:named]),
    }


def _rows(stand: Iterable[InstanceCallState]) -> list[Json]:
    return [
        {
            "id": one.instance.id,
            "state": str(one.instance.state),
            "in_view": one.instance.in_view,
            "why": one.why,
        }
        for one in stand
    ]


def models_json(snapshot: Snapshot) -> Iterator[Json]:
    """Yield a row for each model of an instance, by name; unknown values are null.

    Rates are means over about ten seconds; times are those of requests that ended in them.
    """
    held: dict[str, list[tuple[Instance, str, str]]] = {}
    for instance in snapshot.instances:
        for name, state, reason in instance.models:
            held.setdefault(name, []).append((instance, state, reason))
    for name, rows in sorted(held.items()):
        rates = ModelRates() if name == OTHER else snapshot.models.rates(name)
        yield {
            "name": name,
            # The state that people should see first; one that is unknown here counts as the worst.
            "state": min(
                (state for _, state, _ in rows),
                key=lambda s: _WORST_FIRST.index(s) if s in _WORST_FIRST else -1,
            ),
            "instances": [
                {"id": instance.id, "state": state, "reason": reason}
                for instance, state, reason in rows
            ],
            "requests_per_s": rates.requests_per_s,
            "failures_per_s": rates.failures_per_s,
            "latency_ms": _ms(rates.latency_s),
            "queue_ms": _ms(rates.queue_s),
            "busy": rates.busy,
            "first_response_ms": _ms(rates.first_response_s),
            "cache_hit_share": rates.cache_hit_share,
        }


def sd_json(snapshot: Snapshot) -> Iterator[Json]:
    """Yield a Prometheus target for each instance that has an address."""
    for instance in snapshot.instances:
        if instance.endpoint is None:
            continue
        yield {
            "targets": [instance.endpoint.metrics],
            "labels": {
                "__meta_tarn_cluster": snapshot.name,
                "__meta_tarn_runtime": snapshot.runtime,
                "__meta_tarn_epoch": str(snapshot.epoch),
                "__meta_tarn_instance": instance.id,
                "__meta_tarn_container_id": instance.container_id or "",
                "__meta_tarn_host": instance.endpoint.host,
                "__meta_tarn_node": instance.node or "",
                "__meta_tarn_state": str(instance.state),
                "__meta_tarn_spec_hash": instance.spec_hash,
            },
        }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
