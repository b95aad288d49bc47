"""Results on stdout: as a table for people, as JSON or YAML for programs."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import yaml

from tarn.cluster.explain import age, first_words

__all__ = ["cluster_table", "columns", "emit", "instance_table", "moment"]


def emit(value: object, form: str, table: Callable[[], str]) -> None:
    """Print *value* in *form*; *table* renders it for people."""
    match form:
        case "json":
            text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
        case "yaml":
            text = yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=True).rstrip()
        case _:
            text = table()
    if text:
        click.echo(text)


def _plain(value: object) -> object:
    """Return *value* in the few types that safe YAML knows."""
    return json.loads(json.dumps(value, default=str))


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
    stale = " (stale)" if status.get("stale") else ""
    lines = [
        f"{status['name']} is {status['state']}{stale}{reason}",
        f"{status.get('ready', 0)} of {status.get('desired', 0)} ready{_limits(status)}",
    ]
    if api and not status.get("code"):
        lines.append(f"API {api}")
    if status.get("instances"):
        lines += ["", instance_table(status["instances"])]
    notes = [*status.get("warnings", ()), *status.get("faults", ())]
    if notes:
        lines += ["", *(f"! {first_words(note)}" for note in notes)]
    return "\n".join(lines)


def _limits(status: Mapping[str, Any]) -> str:
    limits = status.get("limits")
    if not limits:
        return ""
    said = f" (min {limits['min']}, max {limits['max']}"
    if limits.get("ceiling") is not None:
        said += f", ceiling {limits['ceiling']}"
    if status.get("manual") is not None:
        said += ", set by hand"
    if status.get("pause"):
        said += f", paused until {moment(status['pause']['until'])}"
    return said + ")"


def instance_table(instances: Iterable[Mapping[str, Any]]) -> str:
    """Return one row for each instance."""
    return columns(
        ("INSTANCE", "STATE", "AGE", "ENDPOINT", "NODE", "REASON"),
        (
            (
                item["id"],
                "suspect" if item.get("suspect") else item["state"],
                age(item.get("age_s")),
                item.get("http"),
                item.get("node"),
                first_words(item.get("suspect") or item.get("reason") or ""),
            )
            for item in instances
        ),
    )
