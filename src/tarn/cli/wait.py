"""`tarn wait`."""

import click

from tarn.cli.options import pass_cluster
from tarn.cli.talk import Talk
from tarn.cluster import Cluster
from tarn.domain import ClusterState


def _goal(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> dict[str, int | str]:
    if value is None:
        return {}
    kind, _, wanted = value.partition("=")
    if kind == "ready" and wanted.isdecimal():
        return {"ready": int(wanted)}
    if kind == "state" and wanted in tuple(ClusterState):
        return {"state": wanted}
    states = ", ".join(ClusterState)
    raise click.BadParameter(f"'{value}' is neither ready=N nor state=S (S: {states})")


@click.command("wait")
@pass_cluster
@click.option(
    "--for",
    "goal",
    metavar="ready=N|state=S",
    callback=_goal,
    help="What to wait for. [default: as many ready as desired]",
)
@click.option("--timeout", default="5m", show_default=True, help="How long.")
def command(cluster: Cluster, *, goal: dict[str, int | str], timeout: str) -> None:
    """Wait until a cluster serves; exit code 4 when it does not in time, 1 when it failed."""
    talk = Talk()
    ready, state = goal.get("ready"), goal.get("state")
    try:
        cluster.wait(
            ready if isinstance(ready, int) else None,
            timeout,
            talk,
            state=state if isinstance(state, str) else None,
        )
    finally:
        talk.done()
