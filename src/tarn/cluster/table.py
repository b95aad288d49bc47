"""Tables of text for people: a cluster, its instances. Pure, over what the API answers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tarn.cluster.reported_issue import age, first_words, instance_reason, instance_state

__all__ = ["cluster_table", "columns", "instance_table", "limits_words", "moment"]


def columns(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return left-aligned columns; a column that is empty in every row is left out."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(heads)) if any(row[i] for row in cells)]
    table = [[heads[i] for i in kept], *([row[i] for i in kept] for row in cells)]
    widths = [max(len(row[i]) for row in table) for i in range(len(kept))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def moment(at: float | None) -> str:
    """Return wall seconds as ISO 8601 in UTC, to the second."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster_table(status: Mapping[str, Any], api: str | None) -> str:
    """Return the whole picture of one cluster for people."""
    reason = f": {first_words(status['reason'])}" if status.get("reason") else ""
    stale = " (stale)" if status.get("stale") and not status.get("ended_at") else ""
    lines = [
        f"{status['name']} is {status['state']}{stale}{reason}",
        f"{status.get('ready', 0)} of {status.get('desired', 0)} ready{_limits(status)}",
    ]
    if sized := _sized(status):
        lines.append(sized)
    if api and not status.get("code"):
        lines.append(f"API {api}")
    if status.get("followers") and not status.get("ended_at"):
        lines.append(f"followed by {_followers(status)}")
    if status.get("instances"):
        lines += ["", instance_table(status["instances"])]
    notes = [*status.get("warnings", ()), *status.get("faults", ())]
    if notes:
        lines += ["", *(f"! {first_words(note)}" for note in notes)]
    return "\n".join(lines)


def _sized(status: Mapping[str, Any]) -> str:
    """Return what the policy wants and what becomes of it; empty where it wants nothing."""
    held = status.get("holds") or {}
    wanted = (held.get("policy") or {}).get("wanted")
    sentence: str = (held.get("size") or {}).get("sentence", "")
    return f"size: {sentence}" if wanted is not None else ""


def _followers(status: Mapping[str, Any]) -> str:
    """Return who publishes the instances, and how far each is."""
    return ", ".join(
        f"{one['name']} ({_step(one, status['view_revision'])})" for one in status["followers"]
    )


def _step(follower: Mapping[str, Any], newest: int) -> str:
    if follower["lost"]:
        return "lost"
    if follower.get("error"):
        return "failing"
    if follower["revision"] < 0:
        return "never came"
    behind = newest - follower["revision"]
    return f"{behind} behind" if behind > 0 else "in step"


def _limits(status: Mapping[str, Any]) -> str:
    said = limits_words(status)
    return f" ({said})" if said else ""


def limits_words(status: Mapping[str, Any]) -> str:
    """Return what bounds the size, in words; empty where that is not known."""
    limits = status.get("limits")
    if not limits:
        return ""
    said = f"min {limits['min']}, max {limits['max']}"
    if limits.get("ceiling") is not None:
        said += f", ceiling {limits['ceiling']}"
    if status.get("manual") is not None:
        said += ", set by hand"
    if status.get("pause"):
        said += f", paused until {moment(status['pause']['until'])}"
    return said


def instance_table(instances: Iterable[Mapping[str, Any]]) -> str:
    """Return one row for each instance."""
    return columns(
        ("INSTANCE", "STATE", "AGE", "ENDPOINT", "NODE", "REASON"),
        (
            (
                item["id"],
                instance_state(item),
                age(item.get("age_s")),
                item.get("http"),
                item.get("node"),
                instance_reason(item),
            )
            for item in instances
        ),
    )
