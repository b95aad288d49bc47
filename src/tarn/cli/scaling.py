"""`tarn scaling`."""

import click

from tarn.cli.options import form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.group("scaling")
def command() -> None:
    """Explain the size of a cluster."""


@command.command("explain")
@pass_cluster
@form_option
def explain(cluster: Cluster, *, form: str) -> None:
    """Show the size, the next change and its time; then the signals and the last decisions.

    A star marks the signals that the policy reads.
    """
    answer = cluster.explain()
    emit(answer, form, lambda: str(answer))
