"""`tarn wait`."""

from collections.abc import Mapping
from typing import Any

import click

from tarn.cli.options import pass_cluster
from tarn.cli.show import note
from tarn.cli.talk import Talk
from tarn.cluster import Cluster, Goal
from tarn.cluster.explain import first_words
from tarn.domain import ClusterState

EXIT_DEGRADED = 7
"""The cluster serves, but less than it did or should."""


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
    """Wait until a cluster serves; exit code 4 when it does not in time, 1 when it failed.

    Exit code 7 when it serves but is degraded: `tarn why` says what is missing.
    """
    wanted = Goal.of(goal)
    talk = Talk()
    try:
        cluster.wait(wanted.ready, timeout, talk, state=wanted.state)
    finally:
        talk.done()
    if wanted.state is None:
        status = cluster.status()
        if status["state"] == ClusterState.DEGRADED:
            note(f"{status['name']} is degraded: {first_words(status.get('reason') or '')}")
        end_degraded(status)


def end_degraded(status: Mapping[str, Any]) -> None:
    """End the command with `EXIT_DEGRADED` where *status* says degraded."""
    if status["state"] == ClusterState.DEGRADED:
        click.get_current_context().exit(EXIT_DEGRADED)
