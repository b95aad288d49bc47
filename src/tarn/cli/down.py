"""`tarn down`."""

import click

from tarn.cli.options import cluster_option, pass_around
from tarn.cli.talk import Talk
from tarn.cluster import ClusterEnvironment, choose, connect
from tarn.errors import NotFoundError


@click.command("down")
@cluster_option
@pass_around
@click.option(
    "--timeout", default="15m", show_default=True, help="How long to wait for the cluster to end."
)
def command(around: ClusterEnvironment, *, name: str | None, timeout: str) -> None:
    """End a cluster: withdraw, drain, stop; only logs are left.

    A master that does not answer for 10 s is ended by force, with a message. Ending a cluster twice
    is not an error.
    """
    try:
        meant = name or choose(around)
    except NotFoundError:
        click.echo("no cluster is running")
        return
    try:
        cluster = connect(meant, environment=around)
    except NotFoundError:
        click.echo(f"cluster '{meant}' is not running")
        return
    talk = Talk()
    try:
        done = cluster.down(timeout, talk)
    finally:
        talk.done()
    click.echo(done)
