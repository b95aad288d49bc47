"""Render the API's answers as text: a cluster, its instances, and why its size is so. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tarn.cluster.older_master import completed

__all__ = [
    "age",
    "cluster_table",
    "columns",
    "decided",
    "explained",
    "first_words",
    "instance_reason",
    "instance_state",
    "instance_table",
    "issue_lines",
    "limits_words",
    "moment",
    "read_off",
    "settings_words",
    "span",
    "update_words",
]

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
SIGNAL_HEADS = ("SIGNAL", "VALUE", "UNIT", "AGE", "SOURCE", "WHY UNKNOWN")
DECISION_HEADS = ("DECIDED", "BY", "WANTED", "SIZE", "REASON", "HELD BACK BY")
_SMALL, _LARGE = 0.001, 100_000
STAR = "* read by the policy"
Answer = Mapping[str, Any]


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
    """Return the status of one cluster as text."""
    reason = f": {first_words(status['reason'])}" if status.get("reason") else ""
    limits = f" ({said})" if (said := limits_words(status)) else ""
    stale = " (stale)" if status.get("stale") and not status.get("ended_at") else ""
    lines = [
        f"{status['name']} is {status['state']}{stale}{reason}",
        f"{status.get('ready', 0)} of {status.get('desired', 0)} ready{limits}",
    ]
    if update := status.get("updating"):
        lines.append(update_words(update))
    held = status.get("holds") or {}
    if (held.get("policy") or {}).get("wanted") is not None:
        lines.append(f"size: {(held.get('size') or {}).get('sentence', '')}")
    if api and not status.get("code"):
        lines.append(f"API {api}")
    if status.get("followers") and not status.get("ended_at"):
        newest = status["view_revision"]
        who = (f"{one['name']} ({_step(one, newest)})" for one in status["followers"])
        lines.append(f"followed by {', '.join(who)}")
    if status.get("instances"):
        lines += ["", instance_table(status["instances"])]
    if issues := issue_lines(status):
        lines += ["", *issues]
    return "\n".join(lines)


def update_words(update: Mapping[str, Any]) -> str:
    """Return how far an update is, as text."""
    doing = {"undoing": "goes back", "paused": "is paused"}.get(update["state"], "is on its way")
    return f"update {update['number']} {doing}: {update['done']} of {update['of']} instances"


def issue_lines(status: Mapping[str, Any]) -> list[str]:
    """Return a line for each issue of the status: its code and its message."""
    issues = completed(status)["issues"]
    said = (" ".join(filter(None, (one["code"], first_words(one["message"])))) for one in issues)
    return [f"! {line}" for line in said]


def _step(follower: Mapping[str, Any], newest: int) -> str:
    if follower["lost"]:
        return "lost"
    if follower.get("error"):
        return "failing"
    if follower["revision"] < 0:
        return "never came"
    behind = newest - follower["revision"]
    return f"{behind} behind" if behind > 0 else "in step"


def limits_words(status: Mapping[str, Any]) -> str:
    """Return the limits of the size as text; '' if they are unknown."""
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


def explained(answer: Answer) -> str:
    """Return why the size is so: the sentence, the limits, the signals, the decisions."""
    stale = (
        "The master has stopped acting, and this is its last known state.\n"
        if answer["stale"]
        else ""
    )
    parts = [stale + answer["sentence"] + "\n" + settings_words(answer)]
    if answer["signals"]:
        parts.append(columns(SIGNAL_HEADS, map(read_off, answer["signals"])))
        if any(signal["read"] for signal in answer["signals"]):
            parts[-1] += f"\n{STAR}"
    if answer["decisions"]:
        parts.append(columns(DECISION_HEADS, map(decided, answer["decisions"])))
    return "\n\n".join(parts)


def settings_words(answer: Answer) -> str:
    """Return the settings of scaling as text."""
    windows = answer["windows"]
    return (
        f"policy {answer['policy']}; {limits_words(answer)}; "
        f"looks back {windows['up_s']:g} s to grow, {windows['down_s']:g} s to shrink; "
        f"cooldown {answer['cooldown_s']:g} s"
    )


def read_off(signal: Answer) -> tuple[object, ...]:
    """Return a signal's row: name (with a star if the policy reads it), value, unit, age, …."""
    name = f"{signal['name']} *" if signal["read"] else signal["name"]
    why = first_words(signal["reason"])
    if signal["value"] is None:
        return (name, "unknown", "", "", signal["source"], why)
    age = f"{signal['age_s']:.1f} s"
    value = signal["value"]
    shown = f"{value:.3f}".rstrip("0").rstrip(".")
    if value and not _SMALL <= abs(value) < _LARGE:  # 0.00012 is not 0.000
        shown = f"{value:.3g}"
    return (name, shown, signal["unit"], age, signal["source"], why)


def decided(decision: Answer) -> tuple[object, ...]:
    """Return a decision's row: when, by whom, wanted, desired, why, and what held it back."""
    return (
        moment(decision["at"]),
        decision["by"],
        decision["wanted"],
        decision["desired"],
        first_words(decision["reason"]),
        decision["held_back"],
    )


def age(seconds: float | None) -> str:
    """Return *seconds* in the two largest units: ``45s``, ``3m12s``, ``5h02m``, ``2d03h``."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    for size, unit, small_size, small in ((DAY_S, "d", HOUR_S, "h"), (HOUR_S, "h", MINUTE_S, "m")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small_size:02}{small}"
    return f"{whole // MINUTE_S}m{whole % MINUTE_S:02}s" if whole >= MINUTE_S else f"{whole}s"


def span(seconds: float) -> str:
    """Return the time until a future moment, as `age` does, but rounded up."""
    # So that an event in 0.2 s is not announced for 0s.
    return age(int(seconds) + (seconds % 1 > 0))


def first_words(text: object) -> str:
    """Return the first paragraph of *text* as one line, which leaves out a traceback."""
    return " ".join(str(text).strip().partition("\n\n")[0].split())


def instance_state(item: Mapping[str, Any]) -> str:
    """Return the state of an instance in one word; a ready one may be suspect."""
    return "suspect" if item.get("suspect") else str(item["state"])


def instance_reason(item: Mapping[str, Any]) -> str:
    """Return why an instance is in its state, or is unwell in the view."""
    unwell = (item.get("unwell") or {}) if item["state"] == "ready" else {}
    return first_words(item.get("suspect") or unwell.get("message") or item.get("reason") or "")
