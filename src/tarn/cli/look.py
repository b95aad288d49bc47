"""The verbs that look at a running cluster: status, watch, why, dashboard, events, verify."""

import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from tarn.cli.options import (
    NAME,
    NumberType,
    cluster_option,
    form_option,
    pass_around,
    pass_cluster,
    pass_remembered,
)
from tarn.cli.show import Talk, cluster_table, columns, emit, moment
from tarn.cluster import Cluster, ClusterEntry, ClusterEnvironment, choose, connect, entries
from tarn.cluster.operate.verifying import MOST_RPS
from tarn.cluster.read.dashboard import opened
from tarn.cluster.read.table import first_words
from tarn.errors import TarnError


@click.command("status")
@cluster_option
@pass_around
@form_option
def status_command(around: ClusterEnvironment, *, name: str | None, form: str) -> None:
    """Show a cluster: its state, its instances, and what is wrong.

    Without a name, and without a tarn.yaml here, several clusters are listed.
    """
    if name is None and not Path("tarn.yaml").is_file():
        several = entries(around)
        if len(several) > 1:
            rows = [_summary(entry, around) for entry in several]
            emit(rows, form, lambda: _listing(rows))
            return
    cluster = connect(name or choose(around), environment=around)
    status = cluster.status()
    emit(status, form, lambda: cluster_table(status, cluster.url))
    cluster.detach()


def _summary(entry: ClusterEntry, around: ClusterEnvironment) -> Mapping[str, Any]:
    """Return one row of the list, even if the cluster does not answer."""
    row: dict[str, Any] = {
        "name": entry.name,
        "runtime": entry.runtime,
        "started_at": entry.started_at or None,
    }
    cluster = connect(entry.name, environment=around)
    try:
        status = cluster.status()
    except TarnError as error:
        return {**row, "state": "unknown", "reason": str(error)}
    finally:
        cluster.detach()
    return {**row, **{key: status.get(key) for key in ("state", "ready", "desired", "reason")}}


def _listing(rows: list[Mapping[str, Any]]) -> str:
    return columns(
        ("CLUSTER", "STATE", "READY", "RUNTIME", "STARTED", "REASON"),
        (
            (
                row["name"],
                row["state"],
                f"{row['ready']}/{row['desired']}" if "ready" in row else "",
                row["runtime"],
                moment(row["started_at"]),
                row["reason"],
            )
            for row in rows
        ),
    )


@click.command("watch")
@pass_cluster
@click.option("--until", metavar="ready=N|state=S", help="End when this is reached.")
@click.option("--timeout", help="How long at most. [default: until interrupted]")
def watch_command(cluster: Cluster, *, until: str | None, timeout: str | None) -> None:
    """Show a cluster as it changes; an interrupt ends only the view.

    Exit code 4 when the goal of --until is not reached within --timeout.
    """
    cluster.watch(until, timeout)


@click.command("why")
@pass_cluster
@click.argument("instance", required=False, type=NAME)
@form_option
def why_command(cluster: Cluster, *, instance: str | None, form: str) -> None:
    """Explain in short sentences why the cluster or INSTANCE is not as desired, and what to do."""
    causes = cluster.causes(instance)
    emit([cause.plain() for cause in causes], form, lambda: "\n".join(map(str, causes)))


@click.command("dashboard")
@cluster_option
@pass_around
@click.option("--open", "opening", is_flag=True, help="Open it in the browser of this machine.")
def dashboard_command(around: ClusterEnvironment, *, name: str | None, opening: bool) -> None:
    """Print the address of a cluster's dashboard; with an api token, a link that signs in.

    The link works once, within a minute, and gives the same access as the api token, so do not
    share it. The session that it starts ends after eight hours.
    """
    meant = name or choose(around)
    cluster = connect(meant, environment=around)
    try:
        address = cluster.dashboard()
    finally:
        cluster.detach()
    click.echo(address)
    if address.signs_in:
        click.echo("The link signs in once, within a minute.", err=True)
    page = around.paths.home / f"dashboard-{meant}.html"
    if opening and not opened(address, page):
        click.echo("No browser was found on this machine: open the link in yours.", err=True)


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
def events_command(cluster: Cluster, *, follow: bool, form: str, **chosen: Any) -> None:
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
    """Print a line for each event until interrupted."""
    stop = threading.Event()
    try:
        for message in cluster.follow(stop, **wanted):
            event = message.data
            if message.event != "event":
                continue
            if form in {"json", "jsonl"}:
                click.echo(json.dumps(event))
                continue
            times = f" (x{event['count']})" if event.get("count", 1) > 1 else ""
            by = f" (by {asker})" if (asker := _asker(event)) else ""
            head = f"{moment(event['last'])} {event['code']} {event['subject']}"
            click.echo(f"{head}: {event['message']}{times}{by}")
    finally:
        stop.set()


def _asker(event: Mapping[str, Any]) -> str:
    """Return the user and the address that requested it, or ''."""
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


@click.command("verify")
@pass_cluster
@click.option(
    "--rps",
    type=NumberType(0, MOST_RPS, min_open=True),
    default=20.0,
    show_default=True,
    help="Requests a second.",
)
@click.option("--for", "duration", default="30s", show_default=True, help="How long.")
@click.option(
    "--model",
    "models",
    multiple=True,
    type=NAME,
    help="Which model; may be repeated. [default: all]",
)
@click.option(
    "--input",
    "body",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON inference request. [default: made from the model's metadata]",
)
@click.option(
    "--timeout",
    default="10s",
    show_default=True,
    help="A request without an answer by then is lost.",
)
@click.option(
    "--slow", default="1s", show_default=True, help="An answer that takes longer is slow."
)
@form_option
def verify_command(  # noqa: PLR0913 (one for each option)
    cluster: Cluster,
    *,
    rps: float,
    duration: str,
    models: tuple[str, ...],
    body: Path | None,
    timeout: str,
    slow: str,
    form: str,
) -> int:
    """Send canary inferences straight to the instances; exit code 1 when one was lost.

    Each is sent on time, however slow the answers are; the report names the instances.
    """
    talk = Talk()
    try:
        made = cluster.verify(
            rps,
            duration,
            models,
            body=body.read_bytes() if body else None,
            timeout=timeout,
            slow=slow,
            progress=talk,
        )
    finally:
        talk.done()
    emit(made.plain(), form, lambda: str(made))
    return 0 if made.ok else 1
