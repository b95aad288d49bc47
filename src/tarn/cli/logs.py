"""`tarn logs`."""

import json
import sys
import zlib
from collections.abc import Iterable
from typing import TextIO

import click

from tarn.cli.options import NAME, WholeType, cluster_option, pass_around
from tarn.cluster import ClusterEnvironment, choose, remembered
from tarn.cluster.read.logs import MASTER, LogLine
from tarn.plain import since as moment_of
from tarn.plain import underlying, visible

__all__ = ["Painter"]

_EPILOG = """\b
tarn logs                         the master's log
tarn logs llama-0003 --tail 50    the last lines of one instance
tarn logs --all --since 10m -f    everything in order of time, and new lines
"""
_SOURCE_COLOURS = (
    "cyan",
    "green",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_magenta",
)
_LEVELS = {"error": "red", "warning": "yellow"}


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
def logs_command(  # noqa: PLR0913 (an option each)
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
            alone = cluster.follow_logs if follow else cluster.logs
            _print(map(Painter().line, alone((chosen or ("",))[0], tail)))
            return
        begin = None if since is None else moment_of(since, around.clock.at(), "--since")
        read = cluster.follow_log_lines if follow else cluster.log_lines
        lines = read(None if every else chosen or (MASTER,), since=begin, tail=tail)
        named = every or len(chosen) > 1  # with one source its name is not repeated in each line
        painter = Painter(len(f"{cluster.name}-0000") if named else None)
        if form == "json":
            said = (
                {"source": one.source, "at": one.at, "level": one.level, "line": one.text}
                for one in lines
            )
            _print(json.dumps(one, ensure_ascii=False) for one in said)
        else:  # the stream below, since the painter adds its own colours
            _print(map(painter.stamped, lines), underlying(sys.stdout))
    finally:
        cluster.detach()


def _print(lines: Iterable[str], stream: TextIO | None = None) -> None:
    for line in lines:
        click.echo(line, stream)


class Painter:
    """Formats log lines for a terminal; elsewhere they stay as they were written.

    Args:
        width: Width of the column with the source; None: no such column.
        terminal: Whether the output is a terminal; None: find out.
    """

    def __init__(self, width: int | None = None, *, terminal: bool | None = None) -> None:
        self._width = width
        self._terminal = sys.stdout.isatty() if terminal is None else terminal

    def line(self, text: str) -> str:
        """Return a line of a single log."""
        bare = text.rstrip("\r\n")
        return visible(bare) if self._terminal else bare

    def stamped(self, line: LogLine) -> str:
        """Return a line of one of several logs."""
        text = self.line(line.text)
        if self._terminal and line.level in _LEVELS:
            text = click.style(text, fg=_LEVELS[line.level])
        if self._width is None:
            return text
        whose = f"{self.line(line.source):<{self._width}} |"
        if self._terminal and line.source == MASTER:
            whose = click.style(whose, bold=True)
        elif self._terminal:
            # By the instance's number, so that its colour is the same in every run.
            number = line.source.rpartition("-")[2]
            key = int(number) if number.isdecimal() else zlib.crc32(line.source.encode())
            whose = click.style(whose, fg=_SOURCE_COLOURS[key % len(_SOURCE_COLOURS)])
        return f"{whose} {text}"
