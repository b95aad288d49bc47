"""A log that grows, read again and again from its end: what is new in it. Pure, but for `read`."""

from collections.abc import Callable, Iterable, Sequence

__all__ = ["LogFollower"]

LOOK = 500
"""Lines that are read at each look; more when what was seen last is not among them."""
MORE = 8
MOST = 20_000
KNOWN = 20
"""Lines by which the place is found again where the last look ended."""
_SURE = 3
"""So many of them are enough where the log begins with them: the rest was rotated away."""


class LogFollower:
    """Finds in the end of a log what was not there at the last look.

    Args:
        read: Return the last lines of it, so many, or (None) all.
    """

    def __init__(self, read: Callable[[int | None], Iterable[str]]) -> None:
        self._read = read
        self._known: tuple[str, ...] | None = None

    def begin(self, tail: int | None) -> list[str]:
        """Return the last *tail* lines (None: all) that there are now."""
        lines = list(self._read(None if tail is None else max(tail, KNOWN)))
        self._know(lines)
        return lines if tail is None else lines[max(0, len(lines) - tail) :]

    def news(self) -> list[str]:
        """Return what was written since the last look; the whole log where that is not in it."""
        known, size = self._known or (), LOOK
        while True:
            asked = size if size <= MOST else None
            lines = list(self._read(asked))
            at = after(known, lines)
            whole = asked is None or len(lines) < asked
            if whole or (known and at is not None):
                break
            size *= MORE
        self._know(lines)
        return lines[at or 0 :]

    def _know(self, lines: Sequence[str]) -> None:
        self._known = tuple(lines[max(0, len(lines) - KNOWN) :])


def after(known: Sequence[str], lines: Sequence[str]) -> int | None:
    """Return the place in *lines* behind those that are *known*; None: they are not in it.

    The last one of them may have been cut in the middle: then it counts as new once more.
    """
    if not known:
        return 0
    for end in range(len(lines), -1, -1):
        length = min(len(known), end)
        if length < min(len(known), _SURE):
            return None
        theirs, ours = lines[end - length : end], known[len(known) - length :]
        if list(theirs) == list(ours):
            return end
        if length and list(theirs[:-1]) == list(ours[:-1]) and theirs[-1].startswith(ours[-1]):
            return end - 1
    return None
