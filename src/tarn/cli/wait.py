"""`tarn wait`."""

import click

from tarn.cli.options import pass_cluster
from tarn.cli.talk import Talk
from tarn.cluster import Cluster, Goal


@click.command("wait")
@pass_cluster
@click.option(
    "--for",
    "goal",
    metavar="ready=N|state=S",
    help="What to wait for. [default: as many ready as desired]",
)
@click.option("--timeout", default="5m", show_default=True, help="How long.")
def command(cluster: Cluster, *, goal: str | None, timeout: str) -> None:
    """Wait until a cluster serves; exit code 4 when it does not in time, 1 when it failed."""
    wanted = Goal.of(goal)
    talk = Talk()
    try:
        cluster.wait(wanted.ready, timeout, talk, state=wanted.state)
    finally:
        talk.done()
