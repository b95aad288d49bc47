"""The verbs about size and upkeep: scale, adapt, pause, resume, drain, scaling."""

import click

from tarn.cli.options import NAME, WholeType, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cluster import Cluster


@click.command("scale")
@pass_cluster
@click.argument("replicas", type=WholeType(min=0), required=False)
@click.option("--auto", is_flag=True, help="Let the scaling policy choose the size again.")
@form_option
def scale_command(cluster: Cluster, *, replicas: int | None, auto: bool, form: str) -> None:
    """Set the number of REPLICAS by hand; the policy has no effect until `tarn scale --auto`."""
    if (replicas is None) is not auto:
        raise click.UsageError("give either a number of replicas, or --auto")
    done = cluster.scale(replicas)
    emit(done, form, lambda: str(done.get("message", "")))


@click.command("adapt")
@pass_cluster
@click.option("--min", "low", type=WholeType(min=0), help="Fewest replicas. [default: as is]")
@click.option("--max", "high", type=WholeType(min=0), help="Most replicas. [default: as is]")
@form_option
def adapt_command(cluster: Cluster, *, low: int | None, high: int | None, form: str) -> None:
    """Let the scaling policy choose the size, within limits."""
    done = cluster.adapt(low, high)
    emit(done, form, lambda: str(done.get("message", "")))


@click.command("pause")
@pass_cluster
@click.argument("duration")
@click.option("--reason", default="", help="Shown in the status.")
@form_option
def pause_command(cluster: Cluster, *, duration: str, reason: str, form: str) -> None:
    """Stop scaling decisions for DURATION, such as 30m; dead instances are still replaced."""
    done = cluster.pause(duration, reason)
    emit(done, form, lambda: str(done.get("message", "")))


@click.command("resume")
@pass_cluster
@form_option
def resume_command(cluster: Cluster, *, form: str) -> None:
    """End a pause, replace silent instances again, and launch again after a halt."""
    done = cluster.resume()
    emit(done, form, lambda: str(done.get("message", "")))


@click.command("drain")
@pass_cluster
@click.argument("instance", type=NAME)
@click.option(
    "--now", is_flag=True, help="Take it out of traffic at once, before its replacement serves."
)
@form_option
def drain_command(cluster: Cluster, *, instance: str, now: bool, form: str) -> None:
    """Replace INSTANCE: start another one, then take it out of traffic and let it finish.

    It keeps serving until another instance serves all its models. With --now fewer instances serve
    meanwhile, or none.
    """
    done = cluster.drain(instance, now=now)
    emit(done, form, lambda: str(done.get("message", "")))


@click.group("scaling")
def scaling_command() -> None:
    """Explain the size of a cluster."""


@scaling_command.command("explain")
@pass_cluster
@form_option
def explain(cluster: Cluster, *, form: str) -> None:
    """Show the size, the next change and its time; then the signals and the last decisions.

    A star marks the signals that the policy reads.
    """
    answer = cluster.explain()
    emit(answer, form, lambda: str(answer))
