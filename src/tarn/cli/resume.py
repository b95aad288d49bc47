"""`tarn resume`."""

import click

from tarn.cli.options import form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("resume")
@pass_cluster
@form_option
def command(cluster: Cluster, *, form: str) -> None:
    """End a pause, replace silent instances again, and launch again after a halt."""
    done = cluster.resume()
    emit(done, form, lambda: str(done.get("message", "")))
