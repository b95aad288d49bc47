"""`tarn scale`."""

import click

from tarn.cli.options import WholeType, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("scale")
@pass_cluster
@click.argument("replicas", type=WholeType(min=0), required=False)
@click.option("--auto", is_flag=True, help="Let the scaling policy choose the size again.")
@form_option
def command(cluster: Cluster, *, replicas: int | None, auto: bool, form: str) -> None:
    """Set the number of REPLICAS by hand; the policy has no effect until `tarn scale --auto`."""
    if (replicas is None) is not auto:
        raise click.UsageError("give either a number of replicas, or --auto")
    done = cluster.scale(replicas)
    emit(done, form, lambda: str(done.get("message", "")))
