"""`tarn why`."""

import click

from tarn.cli.options import NAME, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("why")
@pass_cluster
@click.argument("instance", required=False, type=NAME)
@form_option
def command(cluster: Cluster, *, instance: str | None, form: str) -> None:
    """Explain in short sentences why the cluster or INSTANCE is not as desired, and what to do."""
    causes = cluster.causes(instance)
    emit([cause.plain() for cause in causes], form, lambda: "\n".join(map(str, causes)))
