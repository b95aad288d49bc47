"""`tarn events`."""

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import click

from tarn.cli.options import pass_remembered
from tarn.cli.show import columns, emit, moment
from tarn.cluster import Cluster
from tarn.cluster.explain import first_words


@click.command("events")
@pass_remembered
@click.option("-f", "--follow", is_flag=True, help="Go on printing events as they happen.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only events since then: 10m (ten minutes ago), or a time (2026-11-28T20:00Z).",
)
@click.option(
    "--severity",
    type=click.Choice(["info", "warning", "alert"]),
    default="info",
    show_default=True,
    help="Minimum severity.",
)
@click.option(
    "--subject",
    "subjects",
    metavar="NAME",
    multiple=True,
    help="Only events about this instance or provider; * matches any characters.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "jsonl", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result; jsonl: one object per line.",
)
def command(cluster: Cluster, *, follow: bool, form: str, **chosen: Any) -> None:
    """Show events; equal ones are counted, not repeated. `tarn help CODE` explains them.

    For a cluster that has ended, or whose master is away, it shows what its masters wrote down.
    """
    wanted = {
        "since": chosen["since"],
        "severity": chosen["severity"],
        "subject": chosen["subjects"],
    }
    if follow:
        _follow(cluster, form, wanted)
        return
    events = cluster.events(**wanted)
    if form == "jsonl":
        for event in events:
            click.echo(json.dumps(event))
    else:
        emit(events, form, lambda: _table(events))


def _follow(cluster: Cluster, form: str, wanted: Mapping[str, Any]) -> None:
    """Print a line for each event until interrupted; it goes on under a new master."""
    stop = threading.Event()
    try:
        for message in cluster.follow(stop, **wanted):
            if message.event == "event":
                as_json = form in {"json", "jsonl"}
                click.echo(json.dumps(message.data) if as_json else _line(message.data))
    finally:
        stop.set()


def _line(event: Mapping[str, Any]) -> str:
    times = f" (x{event['count']})" if event.get("count", 1) > 1 else ""
    by = f" (by {asker})" if (asker := _asker(event)) else ""
    head = f"{moment(event['last'])} {event['code']} {event['subject']}"
    return f"{head}: {event['message']}{times}{by}"


def _asker(event: Mapping[str, Any]) -> str:
    """Return who asked for it, and from where; empty where nobody did."""
    request = event.get("request") or {}
    return "@".join(filter(None, (request.get("user", ""), request.get("address", ""))))


def _table(events: Iterable[Mapping[str, Any]]) -> str:
    return columns(
        ("LAST", "SEVERITY", "CODE", "SUBJECT", "COUNT", "BY", "MESSAGE"),
        (
            (
                moment(event["last"]),
                event.get("severity", ""),
                event["code"],
                event["subject"],
                event.get("count", 1),
                _asker(event),
                first_words(event["message"]),
            )
            for event in events
        ),
    )
