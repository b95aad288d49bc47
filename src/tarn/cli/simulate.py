"""`tarn simulate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarn.cli.options import NAME, WholeType, form_option, pass_around
from tarn.cli.show import columns, emit
from tarn.cli.source import overlay
from tarn.cli.talk import Talk
from tarn.cluster import Cluster, ClusterEnvironment
from tarn.cluster.replaying import default_spec, load_of, plot, replayed, world
from tarn.config.draft import copied
from tarn.domain import ClusterSpec
from tarn.interfaces import Progress
from tarn.simulator.run import HEADS

if TYPE_CHECKING:
    from tarn.simulator import Run

_SHOWN = 20
"""Decisions in the table; all of them are in the JSON."""


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
def command(  # noqa: PLR0913 (one for each option)
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
    spec = _spec(around, file, low, high)
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


def _spec(around: ClusterEnvironment, file: str | None, low: int, high: int) -> ClusterSpec:
    if file is not None:
        return Cluster(Path(file), environment=around).spec
    if low > high:
        raise click.UsageError(f"--max = {high} is below --min = {low}")
    return default_spec(low, high)


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
