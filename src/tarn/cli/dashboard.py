"""`tarn dashboard`."""

import click

from tarn.cli.options import cluster_option, pass_around
from tarn.cluster import ClusterEnvironment, choose, connect
from tarn.cluster.dashboard_link import opened


@click.command("dashboard")
@cluster_option
@pass_around
@click.option("--open", "opening", is_flag=True, help="Open it in the browser of this machine.")
def command(around: ClusterEnvironment, *, name: str | None, opening: bool) -> None:
    """Print the address of a cluster's dashboard; with an api token, a link that signs in.

    The link works once, within a minute, and gives the same access as the api token, so do not
    share it. The session that it starts ends after eight hours.
    """
    meant = name or choose(around)
    cluster = connect(meant, environment=around)
    try:
        address = cluster.dashboard()
    finally:
        cluster.detach()
    click.echo(address)
    if address.signs_in:
        click.echo("The link signs in once, within a minute.", err=True)
    page = around.paths.home / f"dashboard-{meant}.html"
    if opening and not opened(address, page):
        click.echo("No browser was found on this machine: open the link in yours.", err=True)
