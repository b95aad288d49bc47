"""Print results to stdout as a table, JSON or YAML, and progress to stderr."""

import json
import shutil
import sys
from collections.abc import Callable

import click

from tarn.cluster.read.table import cluster_table, columns, instance_table, moment
from tarn.config.document import text_of
from tarn.interfaces import Progress
from tarn.plain import underlying, visible

__all__ = ["Talk", "cluster_table", "columns", "emit", "instance_table", "moment", "note"]


def emit(value: object, form: str, table: Callable[[], str]) -> None:
    """Print *value* in *form*; *table* returns it as text."""
    match form:
        case "json":
            text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
        case "yaml":
            # JSON leaves only the types that safe YAML can represent.
            text = text_of(json.loads(json.dumps(value, default=str))).rstrip()
        case _:
            text = table()
    if text:
        click.echo(text)


def note(text: str) -> None:
    """Print a note on the configuration to stderr."""
    click.echo(f"note: {text} (TARN-2005)", err=True)


class Talk:
    """Prints progress: one line that is rewritten in a terminal, else a line for each phase."""

    def __init__(self, *, terminal: bool | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._phase = ""
        self._said = ""

    @property
    def phase(self) -> str:
        """The last phase; '' before the first."""
        return self._phase

    def __call__(self, progress: Progress) -> None:
        """Print *progress*, unless it repeats the last line."""
        text = f"{progress.phase}: {'note: ' if progress.note else ''}{progress.message}"
        if text == self._said:
            return
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._draw(visible(text)[:width], nl=progress.note)
        elif progress.note or progress.phase != self._phase:
            click.echo(text, err=True)
        self._phase, self._said = progress.phase, text

    def done(self) -> None:
        """End the line that was being rewritten."""
        if self._terminal and self._said:
            self._draw("", nl=False)
        self._said = self._phase = ""

    def _draw(self, text: str, *, nl: bool) -> None:
        click.echo(f"\r\x1b[K{text}", underlying(sys.stderr), nl=nl, color=True)
