"""Following the stream of events over masters that move."""

import threading
from collections.abc import Iterator

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.event_query import SeenEvents
from tarn.cluster.link import Link
from tarn.errors import TimedOutError, UnreachableError
from tarn.follow import MasterApi, Message

__all__ = ["follow_events"]

LOOK_EVERY_S = 1.0
GIVE_UP_AFTER_S = 60.0
"""A master that was not found again for so long ends the following."""


def follow_events(
    link: Link, environment: ClusterEnvironment, stop: threading.Event
) -> Iterator[Message]:
    """Yield events until *stop* is set; a new master is asked to go on after the last one.

    None is yielded twice, but again when its count grew: a new master tells the whole again.
    Through a proxy, which holds streams back, the events are asked for each second.

    Raises:
        UnreachableError: No master answered for a minute.
    """
    last: str | None = None
    told = SeenEvents()
    lost_s, found = environment.clock.now_s(), True
    while not stop.is_set():
        try:
            if not found:
                link.ask(lambda api: api.status())  # a stream does not look for its master
            found = True
            for message in _news(link, last, stop):
                last, lost_s = message.id or last, environment.clock.now_s()
                if message.event != "event" or told.new(message.data):
                    yield message
            if link.proxied:
                lost_s = environment.clock.now_s()
                environment.rest(LOOK_EVERY_S)
        except (UnreachableError, TimedOutError):
            if environment.clock.now_s() - lost_s >= GIVE_UP_AFTER_S:
                raise
            found = False
            environment.rest(LOOK_EVERY_S)


def _news(link: Link, last: str | None, stop: threading.Event) -> Iterator[Message]:
    """Yield what is pushed; through a proxy all that is kept, once."""

    def begin(api: MasterApi) -> Iterator[Message]:
        return api.stream("events", last, stop, give_up_s=LOOK_EVERY_S)

    stream = None if link.proxied else link.ask(begin)
    if stream is not None and not link.proxied:  # it may have been found through its proxy
        yield from stream
        return
    for event in link.ask(lambda api: api.events()):
        yield Message("", "event", event)
