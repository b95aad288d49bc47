"""``GET /api/v1/control``: which control calls are wanted, and who has had each. Pure."""

import hashlib
import json
from collections.abc import Iterable

from tarn.control.snapshot import Snapshot
from tarn.domain.calls_everywhere import CallState, InstanceCallState, who_has
from tarn.domain.control_calls import CallOutcome, ControlCall
from tarn.errors import ConfigError

__all__ = ["asked_number", "control_json"]

NAMED = 20
"""Instances that a row names where every call is asked for."""

Json = dict[str, object]


def asked_number(text: str | None) -> int | None:
    """Read the query ``call``; None where it is absent."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):  # noqa: PLR2004 (fits a double)
        right = "Expected the number of a control call"
        raise ConfigError(f"= '{text[:40]}'", code="TARN-2002", where="call", right=right)
    return int(text)


def control_json(snapshot: Snapshot, number: int | None) -> Json:
    """Return every call, or only *number* and who has taken its place, with who has had it.

    ``calls`` are wanted; ``over`` are the last ones that are not any more.
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
        "over": [_outcome(outcome) for outcome in over],
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


def _outcome(outcome: CallOutcome) -> Json:
    return {
        **_call(outcome.call),
        "refuses": [{"id": id_, "why": why} for id_, why in outcome.refused],
        "overtaken_by": outcome.overtaken_by or None,
    }
