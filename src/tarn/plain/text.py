"""Make text safe to show on a terminal, or to paste into a shell."""

import re
import shlex
from typing import Any, TextIO

from tarn.errors import ConfigError

__all__ = ["VisibleStream", "not_empty", "pasted", "underlying", "visible"]

# Control characters except tab and newline, changes of the writing direction, and surrogates.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return *text* with control characters escaped as ``\x1b`` or ``\u202e``; JSON stays JSON."""

    def escaped(found: re.Match[str]) -> str:
        number = ord(found[0])
        return f"\\x{number:02x}" if number < ord(" ") else f"\\u{number:04x}"

    return _OBEYED.sub(escaped, text)


class VisibleStream:
    """A terminal's stream that escapes control characters; to draw, use `underlying`."""

    def __init__(self, stream: TextIO) -> None:
        self.underlying = stream

    def write(self, text: str) -> int:
        """Write *text* with control characters escaped."""
        return self.underlying.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the terminal's own stream."""
        return getattr(self.underlying, name)


def underlying(stream: TextIO) -> TextIO:
    """Return the stream that does not escape, for text with its own control sequences."""
    return stream.underlying if isinstance(stream, VisibleStream) else stream


def not_empty(given: str, where: str) -> str:
    """Return the name *given*, unless it is empty.

    Raises:
        ConfigError: *given* is empty or blank; the message names *where*.
    """
    # An unset shell variable gives an empty name, which must not mean the default cluster.
    if not given.strip():
        step = "Name it, or leave it out; is a variable of the shell unset?"
        raise ConfigError("the name is empty", code="TARN-2002", where=where, next_step=step)
    return given


def pasted(*words: object) -> str:
    """Return *words* as one line for a shell, in quotes where needed."""
    # Every command in a message is made here, since a model may be called ``$(…)``.
    return shlex.join(str(word) for word in words)
