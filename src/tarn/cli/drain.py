"""`tarn drain`."""

import click

from tarn.cli.options import NAME, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("drain")
@pass_cluster
@click.argument("instance", type=NAME)
@click.option("--now", is_flag=True, help="Withdraw it at once, before its replacement serves.")
@form_option
def command(cluster: Cluster, *, instance: str, now: bool, form: str) -> None:
    """Replace INSTANCE: start another one, then take it out of traffic and let it finish.

    It serves until another instance serves all that it serves. With --now fewer serve meanwhile,
    or none.
    """
    done = cluster.drain(instance, now=now)
    emit(done, form, lambda: str(done.get("message", "")))
