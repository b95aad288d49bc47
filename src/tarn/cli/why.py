"""`tarn why`."""

import click

from tarn.cli.options import pass_cluster
from tarn.cluster import Cluster


@click.command("why")
@pass_cluster
@click.argument("instance", required=False)
def command(cluster: Cluster, *, instance: str | None) -> None:
    """Say, a sentence each, why the cluster or INSTANCE is not as desired."""
    click.echo(cluster.why(instance))
