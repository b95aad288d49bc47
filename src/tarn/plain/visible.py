"""Text as a person on a terminal may see it: nothing in it is obeyed instead of being shown."""

import re
from typing import Any, TextIO

__all__ = ["VisibleStream", "underlying", "visible"]

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, what turns the direction of writing, halves of a pair."""


def visible(text: str) -> str:
    r"""Return *text* with each character that a terminal would obey as ``\x1b`` or ``\u202e``.

    A model, a follower or another user may have written it. JSON stays JSON.
    """
    return _OBEYED.sub(_named, text)


def _named(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < ord(" ") else f"\\u{number:04x}"


class VisibleStream:
    """A terminal's stream on which everything is `visible`; who draws takes `underlying`."""

    def __init__(self, stream: TextIO) -> None:
        self.underlying = stream

    def write(self, text: str) -> int:
        """Write *text*, of which nothing is obeyed."""
        return self.underlying.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        """Return what the terminal itself has."""
        return getattr(self.underlying, name)


def underlying(stream: TextIO) -> TextIO:
    """Return the stream for text that is `visible` already, and for escapes of one's own."""
    return stream.underlying if isinstance(stream, VisibleStream) else stream
