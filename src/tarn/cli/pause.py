"""`tarn pause`."""

import click

from tarn.cli.options import form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("pause")
@pass_cluster
@click.argument("duration")
@click.option("--reason", default="", help="Shown in the status.")
@form_option
def command(cluster: Cluster, *, duration: str, reason: str, form: str) -> None:
    """Stop scaling decisions for DURATION, such as 30m; dead instances are still replaced."""
    done = cluster.pause(duration, reason)
    emit(done, form, lambda: str(done.get("message", "")))
