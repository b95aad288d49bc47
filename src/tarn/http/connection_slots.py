"""How many connections the API holds, and who leaves when one more comes.

Connections are bounded, not requests: who says nothing holds a place, too. Everybody who was let in
by a proof, and a trusted proxy from the start, has places that nobody else can take.
"""

import logging
from collections import Counter
from collections.abc import Callable

import attrs

__all__ = ["PLACE", "ConnectionSlot", "ConnectionSlots"]

log = logging.getLogger(__name__)

PLACE = "tarn.place"
"""Key in the scope of a request: the `ConnectionSlot` of its connection."""
_IDLERS = {"kind": "idle connections are closed"}
_REFUSED = {"kind": "connections are refused"}


def _nothing() -> None:
    """Close nothing: the connection has just begun."""


@attrs.define(eq=False)
class ConnectionSlot:
    """One connection, from its acceptance to its end."""

    peer: str
    """Numeric address of who connected."""
    places: "ConnectionSlots"
    drop: Callable[[], None] = _nothing
    """Ends the connection at once."""
    kept: bool = False
    """Nobody without a proof can take it."""

    def keep(self) -> None:
        """Note that a request on it was let in by a proof."""
        if not self.kept:
            self.places.keep(self)

    def work(self) -> None:
        """Note that a request on it is being answered."""
        self.places.work(self)

    def rest(self) -> None:
        """Note that no request on it is being answered any more."""
        self.places.rest(self)

    def leave(self) -> None:
        """Give the place back. Idempotent."""
        self.places.leave(self)


class ConnectionSlots:
    """The connections of one server. Lives on one event loop.

    Of the places half are for everybody, and of these half for one address. Where one more would be
    too many, the connection goes on which nothing has been asked for the longest time: it has
    sent no whole head, or rests between two requests. One on which a request is being answered is
    never taken away; where there are no others, the new one is refused.

    Args:
        most: Connections in all.
        trusted: Says of an address that its connections are kept from the start.
    """

    def __init__(self, most: int, trusted: Callable[[str], bool] = lambda _peer: False) -> None:
        self._most, self._trusted = most, trusted
        self._open_most = max(1, most // 2)
        self._one_most = max(1, most // 4)
        self._all: set[ConnectionSlot] = set()
        self._open: Counter[str] = Counter()
        """Address -> its connections that are not kept."""
        self._open_count = 0
        self._idle: dict[ConnectionSlot, None] = {}
        """Those on which nothing is answered, the longest idle first."""

    def __len__(self) -> int:
        return len(self._all)

    def take(self, peer: str) -> ConnectionSlot | None:
        """Return a place for a new connection from *peer*; None: there is none for it."""
        kept = self._trusted(peer)
        if not self._make_room(peer, kept=kept):
            log.warning(
                "connections from %s are refused: all its connections are in use",
                peer,
                extra=_REFUSED,
            )
            return None
        place = ConnectionSlot(peer, self, kept=kept)
        self._all.add(place)
        self._idle[place] = None
        if not kept:
            self._open[peer] += 1
            self._open_count += 1
        return place

    def make_room(self) -> bool:
        """Close the connection that has been idle the longest; False: there is none."""
        return self._close_idle(lambda place: not place.kept) or self._close_idle(lambda _: True)

    def keep(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.keep`."""
        if place in self._all:
            place.kept = True
            self._forget_open(place)

    def work(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.work`."""
        self._idle.pop(place, None)

    def rest(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.rest`."""
        if place in self._all:
            self._idle.setdefault(place, None)

    def leave(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.leave`."""
        if place not in self._all:
            return
        self._all.discard(place)
        self._idle.pop(place, None)
        if not place.kept:
            self._forget_open(place)

    def _forget_open(self, place: ConnectionSlot) -> None:
        self._open_count -= 1
        self._open[place.peer] -= 1
        if not self._open[place.peer]:
            del self._open[place.peer]

    def _make_room(self, peer: str, *, kept: bool) -> bool:
        """Return whether there is room for one more, after closing an idle one if need be."""
        if not kept and self._open[peer] >= self._one_most:
            return self._close_idle(lambda place: not place.kept and place.peer == peer)
        if not kept and self._open_count >= self._open_most:
            return self._close_idle(lambda place: not place.kept)
        return len(self._all) < self._most or self.make_room()

    def _close_idle(self, of: Callable[[ConnectionSlot], bool]) -> bool:
        """Close the longest idle connection of those; False: none of them is idle."""
        place = next((one for one in self._idle if of(one)), None)
        if place is None:
            return False
        log.warning(
            "idle connections are closed to make room, this one from %s: %d are open",
            place.peer,
            len(self._all),
            extra=_IDLERS,
        )
        self.leave(place)
        place.drop()
        return True
