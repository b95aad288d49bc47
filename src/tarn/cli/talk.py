"""Talk on stderr: progress by phase."""

import shutil
import sys

import click

from tarn.interfaces import Progress
from tarn.plain import underlying, visible

__all__ = ["Talk"]


class Talk:
    """Tells of progress: one line that is rewritten on a terminal, else a line for each phase."""

    def __init__(self, *, terminal: bool | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._phase = ""
        self._said = ""

    @property
    def phase(self) -> str:
        """The phase that was last heard of; empty before the first."""
        return self._phase

    def __call__(self, progress: Progress) -> None:
        """Hear of *progress*; what was said before is not said again."""
        text = f"{progress.phase}: {progress.message}"
        if text == self._said:
            return
        note = progress.message.startswith("note: ")
        if self._terminal:
            self._rewrite(text, keep=note)
        elif note or progress.phase != self._phase:
            click.echo(text, err=True)
        self._phase, self._said = progress.phase, text

    def _rewrite(self, text: str, *, keep: bool) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._draw(visible(text)[:width], nl=keep)

    def done(self) -> None:
        """End the line that was being rewritten."""
        if self._terminal and self._said:
            self._draw("", nl=False)
        self._said = self._phase = ""

    def _draw(self, text: str, *, nl: bool) -> None:
        click.echo(f"\r\x1b[K{text}", underlying(sys.stderr), nl=nl, color=True)
