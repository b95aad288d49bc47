"""Control calls to a whole fleet, and waiting until every serving instance has done one."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from tarn.domain.control_calls import MOST_BYTES
from tarn.errors import RefusedError, TimedOutError
from tarn.interfaces import Clock

__all__ = [
    "FleetCall",
    "load",
    "log_settings",
    "missing_instances",
    "trace_settings",
    "unload",
    "wait_everywhere",
]

Json = Mapping[str, Any]

LOOK_FIRST_S, LOOK_MOST_S = 0.1, 2.0
AWAY_S = 10.0
NAMED = 10


@attrs.frozen
class FleetCall:
    """A control call for every instance of a fleet; sent twice, it counts once.

    Raises:
        RefusedError: It is larger than a master accepts.
    """

    verb: str
    body: Mapping[str, object]
    request: str = attrs.field(factory=lambda: uuid.uuid4().hex)

    def __attrs_post_init__(self) -> None:
        size = len(json.dumps(self.body))
        # Checked here, since a master would close the connection while the call is being sent.
        if size > MOST_BYTES:
            raise RefusedError(
                f"the {self.verb} has {size} bytes",
                code="TARN-1165",
                right=f"At most {MOST_BYTES} bytes are kept for instances to come",
                next_step="Put configurations and files into the model repository, and load from "
                "there",
            )


def load(model: str, parameters: Mapping[str, object] | None = None) -> FleetCall:
    """Return the call that loads or reloads *model*."""
    return FleetCall("load", {"model": model, "parameters": dict(parameters or {})})


def unload(model: str, *, dependents: bool = False) -> FleetCall:
    """Return the call that unloads *model*, with *dependents* also the parts of an ensemble."""
    parameters = {"unload_dependents": True} if dependents else {}
    return FleetCall("unload", {"model": model, "parameters": parameters})


def trace_settings(settings: Mapping[str, object], model: str = "") -> FleetCall:
    """Return the call that changes trace settings, of *model* or of all models."""
    return FleetCall("trace-settings", {"model": model, "settings": dict(settings)})


def log_settings(settings: Mapping[str, object]) -> FleetCall:
    """Return the call that changes log settings."""
    return FleetCall("log-settings", {"settings": dict(settings)})


def wait_everywhere(
    number: int,
    look: Callable[[int], Json],
    clock: Clock,
    limit_s: float,
    rest: Callable[[float], object],
) -> None:
    """Return once every instance in the view has done the call *number*.

    Args:
        number: The number in the master's answer.
        look: Returns the answer of ``GET /api/v1/control?call=NUMBER``.
        clock: Monotonic seconds.
        limit_s: How long to wait.
        rest: Waits for some seconds.

    Raises:
        RefusedError: An instance refused it, or another call replaced it; the error names the
            instances, with Triton's message.
        TimedOutError: An instance in the view did not do it in time; the error names all.
    """
    # New instances do it before they serve, and so do those that are out of the view. Most of these
    # come back at once, so they get AWAY_S more.
    end_s, pause_s = clock.now_s() + limit_s, LOOK_FIRST_S
    away_s: float | None = None
    while True:
        number, missing = missing_instances(look(number), number)
        now_s = clock.now_s()
        if all(not one["in_view"] for one in missing):
            away_s = now_s + AWAY_S if away_s is None else away_s
            if not missing or now_s >= away_s:
                return
        left_s = end_s - now_s
        if left_s <= 0:
            raise TimedOutError(
                f"after {limit_s:g} s not every instance has carried out call {number}: "
                f"{_named(missing)}",
                next_step="The master goes on; `tarn models wanted` shows the progress",
            )
        rest(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LOOK_MOST_S)


def missing_instances(answer: Json, number: int) -> tuple[int, Sequence[Json]]:
    """Return the number of the call to look at, and the ready instances that lack it.

    Raises:
        RefusedError: An instance refused it, or another call replaced it.
    """
    row = next((one for one in answer.get("calls", ()) if one["call"] == number), None)
    if row is None:
        return _over(answer, number)
    missing = [one for one in row["not_yet"] if one["state"] == "ready"]
    if row["refuses"] and not missing:
        raise RefusedError(
            f"{len(row['refuses'])} of {row['of']} instances refuse the {_said(row)}: "
            f"{_named(row['refuses'])}",
            code="TARN-1135",
            next_step="Correct what Triton says, then ask again",
        )
    return number, missing


def _over(answer: Json, number: int) -> tuple[int, Sequence[Json]]:
    """Return the same for a call that is no longer wanted."""
    over = {one["call"]: one for one in answer.get("over", ())}
    done = over.get(number)
    if done is None:
        raise RefusedError(
            f"the master does not know what became of call {number}: it was restarted meanwhile",
            next_step="Ask again",
        )
    if done["refuses"]:
        raise RefusedError(
            f"no instance could do the {_said(done)}, so nothing has changed: "
            f"{_named(done['refuses'])}",
            code="TARN-1145",
            next_step="Correct what Triton says, then ask again",
        )
    newer = done["overtaken_by"]
    if newer is None:
        return number, ()
    rows = (*answer.get("calls", ()), *over.values())
    by = next((one for one in rows if one["call"] == newer), None)
    # Settings add up, so a newer call has those of the older one.
    settings = done["kind"] not in ("load", "unload")
    same = by is not None and by["kind"] == done["kind"]
    if by is None or not same or not (settings or by.get("digest") == done.get("digest")):
        other = "" if by is None else f", a {_said(by)} with other parameters"
        if by is not None and by["kind"] != done["kind"]:
            other = f", the {_said(by)}"
        raise RefusedError(
            f"the {_said(done)} was overtaken by call {newer}{other}",
            next_step="`tarn models wanted` shows what is wanted now; ask again if that is wrong",
        )
    return missing_instances(answer, newer)


def _said(row: Json) -> str:
    return f"{row['kind']} of {row['model']}" if row["model"] else f"{row['kind']} settings"


def _named(rows: Sequence[Json]) -> str:
    each = "; ".join(f"{row['id']}: {row['why']}" for row in rows[:NAMED])
    return each if len(rows) <= NAMED else f"{each}; and {len(rows) - NAMED} more"
