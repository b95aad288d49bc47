"""`tarn adapt`."""

import click

from tarn.cli.options import WholeType, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("adapt")
@pass_cluster
@click.option("--min", "low", type=WholeType(min=0), help="Fewest replicas. [default: as is]")
@click.option("--max", "high", type=WholeType(min=0), help="Most replicas. [default: as is]")
@form_option
def command(cluster: Cluster, *, low: int | None, high: int | None, form: str) -> None:
    """Let the scaling policy choose the size, within limits."""
    done = cluster.adapt(low, high)
    emit(done, form, lambda: str(done.get("message", "")))
