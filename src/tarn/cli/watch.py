"""`tarn watch`."""

import click

from tarn.cli.options import pass_cluster
from tarn.cluster import Cluster


@click.command("watch")
@pass_cluster
@click.option("--until", metavar="ready=N|state=S", help="End when this is reached.")
@click.option("--timeout", help="How long at most. [default: until interrupted]")
def command(cluster: Cluster, *, until: str | None, timeout: str | None) -> None:
    """Show a cluster as it changes; an interrupt ends only the view.

    Exit code 4 when the goal of --until is not reached within --timeout.
    """
    cluster.watch(until, timeout)
