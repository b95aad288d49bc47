"""The verbs that change what a running cluster serves: `tarn update`, `tarn rollback`."""

from collections.abc import Iterator

import click

from tarn.cli.options import SpecSource, form_option, pass_around, pass_cluster, source_options
from tarn.cli.show import Talk, columns, emit
from tarn.cluster import Cluster, ClusterEnvironment
from tarn.cluster.operate.updating import UpdatePlan, refuse
from tarn.domain.changes import Effect

_WORDS = {
    Effect.NOTHING: "nothing: {why}",
    Effect.LIVE: "live",
    Effect.ROLLING: "rolling: instances are replaced",
    Effect.REFUSED: "refused: {why}",
}


@click.command("update")
@pass_around
@source_options
@form_option
@click.option("--dry-run", is_flag=True, help="Print what would change, but do nothing.")
@click.option(
    "--pause/--resume",
    "paused",
    default=None,
    help="Replace no further instance, or go on; the spec names only the cluster.",
)
@click.option("--wait/--no-wait", default=True, help="Wait for its end. [default: wait]")
@click.option("--timeout", default="1h", show_default=True, help="How long to wait.")
def update_command(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    *,
    source: SpecSource,
    form: str,
    dry_run: bool,
    paused: bool | None,
    wait: bool,
    timeout: str,
) -> None:
    """Bring a running cluster to a changed spec, or to changed models of a copied repository.

    What instances are made of (models, triton, instance) is replaced a few at a time, as `update`
    in the spec says; the rest is taken at once. The first new instance that fails undoes it: then
    the exit code is 1, and the fleet serves as before.
    """
    cluster, talk = source.cluster(around), Talk()
    if paused is not None:
        done = cluster.hold_update(paused=paused)
        emit(done, form, lambda: str(done.message))
        return
    plan = cluster.plan_update()
    if dry_run or form == "table":
        emit(list(_rows(plan)) if form != "table" else plan, form, lambda: _table(plan))
    if dry_run:
        click.get_current_context().exit(2 if plan.effect is Effect.REFUSED else 0)
    refuse(plan)
    try:
        done = cluster.update(talk)
        if wait:
            cluster.wait_for_update(timeout, talk)
    finally:
        talk.done()
    status = cluster.status()
    emit(status if form != "table" else done, form, lambda: _ended(cluster, str(done.message)))


@click.command("rollback")
@pass_cluster
@form_option
@click.option("--wait/--no-wait", default=True, help="Wait for its end. [default: wait]")
@click.option("--timeout", default="1h", show_default=True, help="How long to wait.")
def rollback_command(cluster: Cluster, *, form: str, wait: bool, timeout: str) -> None:
    """Undo the newest update, whether it is on its way or done."""
    talk = Talk()
    done = cluster.rollback()
    if wait:
        try:
            cluster.wait_for_update(timeout, talk, undone=True)
        finally:
            talk.done()
    emit(done, form, lambda: str(done.message))


def _rows(plan: UpdatePlan) -> Iterator[dict[str, object]]:
    for one in plan.changes:
        yield {
            "path": one.path,
            "before": one.before,
            "after": one.after,
            "effect": str(one.effect),
            "why": one.why,
        }


def _table(plan: UpdatePlan) -> str:
    if not plan.changes:
        return "the spec is the same"
    rows = [(str(one), _WORDS[one.effect].format(why=one.why)) for one in plan.changes]
    return columns(("change", "what it does"), rows)


def _ended(cluster: Cluster, message: str) -> str:
    return f"{cluster.name}: {message}"
