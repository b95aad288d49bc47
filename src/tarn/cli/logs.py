"""`tarn logs`."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

import click

from tarn.cli.options import NAME, WholeType, cluster_option, pass_around
from tarn.cli.stamped import Painter
from tarn.cluster import Cluster, ClusterEnvironment, choose, remembered
from tarn.cluster.log_lines import MASTER, LogLine
from tarn.plain import since as moment_of
from tarn.plain import underlying

_EPILOG = """\b
tarn logs                         the master's log
tarn logs llama-0003 --tail 50    the last lines of one instance
tarn logs --all --since 10m -f    everything in order of time, and new lines
"""


@click.command("logs", epilog=_EPILOG)
@cluster_option
@click.argument("instance", required=False, type=NAME)
@click.option(
    "-i",
    "--instance",
    "more",
    metavar="ID",
    multiple=True,
    type=NAME,
    help="Also this instance; may be repeated.",
)
@click.option("--all", "every", is_flag=True, help="The logs of the master and of every instance.")
@click.option("--tail", type=WholeType(min=0), help="Show the last N lines.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only lines since then: 10m (ten minutes ago), or a time in UTC.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on printing lines as they are written.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines as they were written, or a JSON object for each.",
)
@pass_around
def command(  # noqa: PLR0913 (an option each)
    around: ClusterEnvironment,
    *,
    name: str | None,
    instance: str | None,
    more: tuple[str, ...],
    every: bool,
    tail: int | None,
    since: str | None,
    follow: bool,
    form: str,
) -> None:
    """Show Triton's log of INSTANCE; without one, the master's log.

    Several logs are shown as one, in order of time; a line without a time stays with the line
    before it. The logs of ended instances are shown too, as long as the runtime keeps them.
    """
    chosen = tuple(dict.fromkeys((*((instance,) if instance else ()), *more)))
    if every and chosen:
        raise click.UsageError("--all shows every log; name instances without it.")
    cluster = remembered(name or choose(around), environment=around)
    try:
        if form == "text" and since is None and not every and len(chosen) < 2:  # noqa: PLR2004
            _print(_plain(cluster, (chosen or ("",))[0], tail, follow=follow))
            return
        begin = None if since is None else moment_of(since, around.clock.at(), "--since")
        read = cluster.follow_log_lines if follow else cluster.log_lines
        lines = read(None if every else chosen or (MASTER,), since=begin, tail=tail)
        named = every or len(chosen) > 1  # whose a line is, is said where it can be several
        painter = Painter(len(f"{cluster.name}-0000") if named else None)
        if form == "json":
            _print(map(_json, lines))
        else:
            _print(map(painter.stamped, lines), underlying(sys.stdout))  # colours of ours
    finally:
        cluster.detach()


def _plain(cluster: Cluster, instance: str, tail: int | None, *, follow: bool) -> Iterator[str]:
    read: Callable[[str, int | None], Iterator[str]]
    read = cluster.follow_logs if follow else cluster.logs
    return map(Painter().line, read(instance, tail))


def _json(line: LogLine) -> str:
    said = {"source": line.source, "at": line.at, "level": line.level, "line": line.text}
    return json.dumps(said, ensure_ascii=False)


def _print(lines: Iterable[str], stream: TextIO | None = None) -> None:
    for line in lines:
        click.echo(line, stream)
