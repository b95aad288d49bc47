"""``GET /api/v1/scaling``: the size, what is wanted, what holds it, what comes next, and why. Pure.

Everything but the ages and the times to come is of one snapshot.
"""

import math

from tarn.control.signal_status import SignalStatus
from tarn.control.snapshot import Snapshot
from tarn.domain import Known
from tarn.http.render import decision_json, limits_json, size_json

__all__ = ["scaling_json"]

DECISIONS = 10
"""The last ones; ``/api/v1/decisions`` has all that are kept."""


def scaling_json(snapshot: Snapshot, now_s: float) -> dict[str, object]:
    """Return the answer; *now_s* is monotonic, for ages and times to come, in seconds."""
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
