"""`tarn logs`."""

import click

from tarn.cli.options import pass_cluster
from tarn.cluster import Cluster


@click.command("logs")
@pass_cluster
@click.argument("instance", default="")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many last lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing lines as they are written.")
def command(cluster: Cluster, *, instance: str, tail: int | None, follow: bool) -> None:
    """Show Triton's log of INSTANCE; without one, the master's log."""
    lines = cluster.follow_logs(instance, tail) if follow else cluster.logs(instance, tail)
    for line in lines:
        click.echo(line.rstrip("\n"))
