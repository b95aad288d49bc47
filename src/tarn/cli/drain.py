"""`tarn drain`."""

import click

from tarn.cli.options import NAME, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("drain")
@pass_cluster
@click.argument("instance", type=NAME)
@form_option
def command(cluster: Cluster, *, instance: str, form: str) -> None:
    """Withdraw INSTANCE from traffic, let it finish, and replace it."""
    done = cluster.drain(instance)
    emit(done, form, lambda: str(done.get("message", "")))
