"""Lines of logs on a terminal: whose they are, in colours, and nothing that moves its cursor."""

import sys
import zlib

import click

from tarn.cluster.log_lines import MASTER, LogLine
from tarn.plain import visible

__all__ = ["Painter"]

_COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_LEVELS = {"error": "red", "warning": "yellow"}


class Painter:
    """Makes what is printed of a line; on anything but a terminal it is as it was written.

    Args:
        width: Of the column that says whose a line is; None: there is none.
        terminal: Whether somebody looks; None: that is found out.
    """

    def __init__(self, width: int | None = None, *, terminal: bool | None = None) -> None:
        self._width = width
        self._terminal = sys.stdout.isatty() if terminal is None else terminal

    def line(self, text: str) -> str:
        """Return a line that stands alone."""
        bare = text.rstrip("\r\n")
        return visible(bare) if self._terminal else bare

    def stamped(self, line: LogLine) -> str:
        """Return one of several logs' lines."""
        text = self.line(line.text)
        if self._terminal and line.level in _LEVELS:
            text = click.style(text, fg=_LEVELS[line.level])
        if self._width is None:
            return text
        whose = f"{self.line(line.source):<{self._width}} |"
        return f"{_painted(whose, line.source) if self._terminal else whose} {text}"


def _painted(text: str, source: str) -> str:
    """Return *text* in the colour of a source, which is the same one in every run."""
    if source == MASTER:
        return click.style(text, bold=True)
    number = source.rpartition("-")[2]
    key = int(number) if number.isdecimal() else zlib.crc32(source.encode())
    return click.style(text, fg=_COLOURS[key % len(_COLOURS)])
