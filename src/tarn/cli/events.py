"""`tarn events`."""

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import click

from tarn.cli.options import form_option, pass_cluster
from tarn.cli.show import columns, emit, moment
from tarn.cluster import Cluster
from tarn.cluster.explain import first_words


@click.command("events")
@pass_cluster
@click.option("-f", "--follow", is_flag=True, help="Go on printing events as they happen.")
@form_option
def command(cluster: Cluster, *, follow: bool, form: str) -> None:
    """Show what happened; equal things are counted, not repeated. `tarn help CODE` explains."""
    if follow:
        _follow(cluster, form)
        return
    events = cluster.events()
    emit(events, form, lambda: _table(events))


def _follow(cluster: Cluster, form: str) -> None:
    """Print a line for each event until interrupted; the stream survives a new master."""
    stop = threading.Event()
    newest, again = 0.0, False
    try:
        for message in cluster.follow(stop):
            if message.event == "reset":  # the whole follows; what was printed is not printed again
                again = True
            elif message.event == "event" and not (again and message.data["last"] <= newest):
                newest = max(newest, message.data["last"])
                click.echo(json.dumps(message.data) if form == "json" else _line(message.data))
    finally:
        stop.set()


def _line(event: Mapping[str, Any]) -> str:
    times = f" (x{event['count']})" if event.get("count", 1) > 1 else ""
    return f"{moment(event['last'])} {event['code']} {event['subject']}: {event['message']}{times}"


def _table(events: Iterable[Mapping[str, Any]]) -> str:
    return columns(
        ("LAST", "CODE", "SUBJECT", "COUNT", "MESSAGE"),
        (
            (
                moment(event["last"]),
                event["code"],
                event["subject"],
                event.get("count", 1),
                first_words(event["message"]),
            )
            for event in events
        ),
    )
