"""Sends a control call to a whole fleet, and waits until everybody who serves has had it."""

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
    """A control call for every instance of a fleet; sent twice, it is one all the same.

    Raises:
        RefusedError: It is larger than a master keeps, which would cut us off while we send it.
    """

    verb: str
    body: Mapping[str, object]
    request: str = attrs.field(factory=lambda: uuid.uuid4().hex)

    def __attrs_post_init__(self) -> None:
        size = len(json.dumps(self.body))
        if size > MOST_BYTES:
            raise RefusedError(
                f"the {self.verb} has {size} bytes",
                code="TARN-1165",
                right=f"At most {MOST_BYTES} bytes are kept for instances to come",
                next_step="Put configurations and files into the model repository, and load from "
                "there",
            )


def load(model: str, parameters: Mapping[str, object] | None = None) -> FleetCall:
    """Return the call that loads *model*, or loads it again."""
    return FleetCall("load", {"model": model, "parameters": dict(parameters or {})})


def unload(model: str, *, dependents: bool = False) -> FleetCall:
    """Return the call that unloads *model*, and with *dependents* the parts of an ensemble."""
    parameters = {"unload_dependents": True} if dependents else {}
    return FleetCall("unload", {"model": model, "parameters": parameters})


def trace_settings(settings: Mapping[str, object], model: str = "") -> FleetCall:
    """Return the call that changes trace settings, of *model* or of all."""
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
    """Return once every instance in the view has had the call *number*.

    Those that start have it before they serve. Those that are out of the view, too; they are waited
    for a little longer, since most of them come back at once.

    Args:
        number: As the master answered.
        look: Returns what ``GET /api/v1/control?call=NUMBER`` answers.
        clock: Monotonic seconds.
        limit_s: How long to wait.
        rest: Waits for some seconds.

    Raises:
        RefusedError: An instance refuses it, or another call took its place; the error says who,
            and gives Triton's own words.
        TimedOutError: Somebody in the view has not had it in time; the error says who.
    """
    end_s, pause_s = clock.now_s() + limit_s, LOOK_FIRST_S
    away_s: float | None = None
    while True:
        number, missing = _open(look(number), number)
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


def _open(answer: Json, number: int) -> tuple[int, Sequence[Json]]:
    """Return (the call to look at next, who has served and has not had it yet)."""
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
    """Return what to look at in place of a call that is not wanted any more."""
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
    if by is None or by["kind"] != done["kind"] or not _brings_the_same(by, done):
        other = "" if by is None else f", a {_said(by)} with other parameters"
        if by is not None and by["kind"] != done["kind"]:
            other = f", the {_said(by)}"
        raise RefusedError(
            f"the {_said(done)} was overtaken by call {newer}{other}",
            next_step="`tarn models wanted` shows what is wanted now; ask again if that is wrong",
        )
    return _open(answer, newer)


def _brings_the_same(newer: Json, older: Json) -> bool:
    """Say whether *newer* has what *older* asked for; settings are added up, so they have."""
    settings = older["kind"] not in ("load", "unload")
    return settings or newer.get("digest") == older.get("digest")


def _said(row: Json) -> str:
    return f"{row['kind']} of {row['model']}" if row["model"] else f"{row['kind']} settings"


def _named(rows: Sequence[Json]) -> str:
    each = "; ".join(f"{row['id']}: {row['why']}" for row in rows[:NAMED])
    return each if len(rows) <= NAMED else f"{each}; and {len(rows) - NAMED} more"
