"""What a master's answer says of one control call: which instances lack it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from tarn.errors import RefusedError

__all__ = ["missing_instances", "named_instances"]

Json = Mapping[str, Any]

NAMED = 10


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
            f"{named_instances(row['refuses'])}",
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
            f"{named_instances(done['refuses'])}",
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


def named_instances(rows: Sequence[Json]) -> str:
    """Return the instances of *rows*, each with its reason."""
    each = "; ".join(f"{row['id']}: {row['why']}" for row in rows[:NAMED])
    return each if len(rows) <= NAMED else f"{each}; and {len(rows) - NAMED} more"
