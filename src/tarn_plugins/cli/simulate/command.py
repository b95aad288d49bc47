"""`tarn simulate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarn.cli.options import NAME, WholeType, form_option, overlay, pass_around
from tarn.cli.show import Talk, columns, emit
from tarn.cluster import Cluster, ClusterEnvironment
from tarn.cluster.simulated import HEADS
from tarn.config.draft import copied
from tarn.interfaces import Progress
from tarn_plugins.cli.simulate.drawing import plot
from tarn_plugins.cli.simulate.replay import default_spec, load_of, replayed, world

if TYPE_CHECKING:
    from tarn.cluster.simulated import Run

# Decisions in the table; all of them are in the JSON.
_SHOWN = 20


@click.command("simulate")
@click.option("--trace", required=True, metavar="FILE|FAMILY:SEED",
              help="CSV with t_s,requests_per_s; or a generated load, as daily:1.")  # fmt: skip
@click.option(
    "--policy",
    metavar="NAME",
    type=NAME,
    help="Scaling policy. [default: the one of -f, else target]",
)
@click.option(
    "-f", "--file", metavar="SPEC", type=NAME, help="Take limits, guard and policy from this spec."
)
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True,
              help="Set an option of the policy; may be repeated.")  # fmt: skip
@click.option("--against", metavar="NAME,NAME", default="",
              help="More policies to compare: hpa, knative, java, or others.")  # fmt: skip
@click.option("--min", "low", type=WholeType(0), default=1, show_default=True,
              help="Fewest replicas, without -f.")  # fmt: skip
@click.option("--max", "high", type=WholeType(1), default=20, show_default=True,
              help="Most replicas, without -f.")  # fmt: skip
@click.option("--world", "assumed", metavar="KEY=VALUE", multiple=True,
              help="Assume this of instances: slots=16, service=100ms; repeatable.")  # fmt: skip
@click.option("--plot", "drawing", metavar="FILE.html|FILE.png",
              help="Plot load, size, queue and cost into this file.")  # fmt: skip
@form_option
@pass_around
def simulate_command(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    *,
    trace: str,
    policy: str | None,
    file: str | None,
    options: tuple[str, ...],
    against: str,
    low: int,
    high: int,
    assumed: tuple[str, ...],
    drawing: str | None,
    form: str,
) -> None:
    """Try a scaling policy against a load, in seconds: nothing is started, and no server is asked.

    The tick, the signals, the guard and the policy are those of the master; the instances and
    their queues are modelled (`tarn simulate --world` sets the assumptions about them).
    """
    if file is None and low > high:
        raise click.UsageError(f"--max = {high} is below --min = {low}")
    spec = Cluster(Path(file), environment=around).spec if file else default_spec(low, high)
    model, load = world(_overlay(assumed, "--world"), "--world"), load_of(trace)
    names = [policy, *(name.strip() for name in against.split(",") if name.strip())]
    talk, runs = Talk(), []
    try:
        for place, name in enumerate(names):
            talk(
                Progress("simulating", f"{name or spec.scaling.use} ({place + 1} of {len(names)})")
            )
            own = _overlay(options, "--option") if not place else None
            runs.append(replayed(spec, around.plugins(), load, model, name, own))
    finally:
        talk.done()
    if drawing:
        plot(runs, Path(drawing))
        click.echo(f"drawn in {drawing}", err=True)
    emit([run.plain() for run in runs], form, lambda: _text(runs))


def _overlay(assignments: Sequence[str], option: str) -> dict[str, object]:
    plain: dict[str, object] = copied(overlay(assignments, option))
    return plain


def _text(runs: "Sequence[Run]") -> str:
    heads = [head.upper() for head in HEADS]
    first = runs[0]
    lines = [
        columns(heads, [run.words() for run in runs]),
        "",
        f"{first.policy}, change by change:",
    ]
    changes = first.plain()["decisions"]
    lines.append(columns(("AT", "SIZE", "WANTED", "WHY"), map(_change, changes[:_SHOWN])))
    if len(changes) > _SHOWN:
        lines.append(f"... and {len(changes) - _SHOWN} more: -o json has them")
    for reason, count in sorted(first.silences.items(), key=lambda item: -item[1])[:3]:
        lines.append(f"! {count} times without an opinion: {reason}")
    return "\n".join(lines)


def _change(decision: Mapping[str, object]) -> tuple[object, ...]:
    held = decision["held_back"]
    why = f"{decision['reason']} ({held})" if held else decision["reason"]
    return f"{decision['t_s']:.0f} s", decision["desired"], decision["wanted"], why
