"""Following what grows: the stream of events over masters that move, and logs."""

import threading
from collections.abc import Callable, Iterable, Iterator

from tarn.cluster.link import Link
from tarn.cluster.surroundings import Surroundings
from tarn.errors import TimedOutError, UnreachableError
from tarn.follow import Api, Message

__all__ = ["follow_events", "follow_lines"]

LOOK_EVERY_S = 1.0
GIVE_UP_AFTER_S = 60.0
"""A master that was not found again for so long ends the following."""


def follow_events(
    link: Link, surroundings: Surroundings, stop: threading.Event
) -> Iterator[Message]:
    """Yield events until *stop* is set; a new master is asked to go on after the last one.

    Raises:
        UnreachableError: No master answered for a minute.
    """
    last: str | None = None
    lost_s = surroundings.clock.now_s()
    while not stop.is_set():
        try:
            for message in _stream(link, last, stop):
                last, lost_s = message.id or last, surroundings.clock.now_s()
                yield message
        except (UnreachableError, TimedOutError):
            if surroundings.clock.now_s() - lost_s >= GIVE_UP_AFTER_S:
                raise
            link.close()  # so that the next question looks for the master again
            surroundings.rest(LOOK_EVERY_S)


def _stream(link: Link, last: str | None, stop: threading.Event) -> Iterator[Message]:
    def begin(api: Api) -> Iterator[Message]:
        return api.stream("events", last, stop, give_up_s=LOOK_EVERY_S)

    return link.ask(begin)


def follow_lines(
    read: Callable[[], Iterable[str]], tail: int | None, surroundings: Surroundings
) -> Iterator[str]:
    """Yield the last *tail* lines of a log (None: all), then what is added, until interrupted."""
    lines = list(read())
    yield from lines if tail is None else lines[max(0, len(lines) - tail) :]
    while True:
        seen = len(lines)
        surroundings.rest(LOOK_EVERY_S)
        lines = list(read())
        yield from lines[seen if len(lines) >= seen else 0 :]  # fewer: it was rotated
