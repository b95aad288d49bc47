"""`tarn status`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tarn.cli.options import cluster_option, form_option, pass_around
from tarn.cli.show import cluster_table, columns, emit, moment
from tarn.cluster import ClusterEntry, ClusterEnvironment, choose, connect, entries
from tarn.errors import TarnError


@click.command("status")
@cluster_option
@pass_around
@form_option
def command(around: ClusterEnvironment, *, name: str | None, form: str) -> None:
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
    """Return one row of the list; a cluster that does not answer does not hide the others."""
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
