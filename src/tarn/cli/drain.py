"""`tarn drain`."""

import click

from tarn.cli.options import NAME, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("drain")
@pass_cluster
@click.argument("instance", type=NAME)
@click.option(
    "--now", is_flag=True, help="Take it out of traffic at once, before its replacement serves."
)
@form_option
def command(cluster: Cluster, *, instance: str, now: bool, form: str) -> None:
    """Replace INSTANCE: start another one, then take it out of traffic and let it finish.

    It keeps serving until another instance serves all its models. With --now fewer instances serve
    meanwhile, or none.
    """
    done = cluster.drain(instance, now=now)
    emit(done, form, lambda: str(done.get("message", "")))
