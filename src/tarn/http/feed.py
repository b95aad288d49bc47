"""Server-sent events: numbered changes of the snapshot, kept in a ring so that readers resume.

A reader holds only a number, so no reader can make the master queue anything. A slow reader finds
in the ring what it missed. If the ring no longer has it, or the epoch is another one, the reader
gets ``reset`` and then everything. Of messages that each carry a whole state only the newest is
kept; a reader that missed an older one does not get it.
"""

import asyncio
import contextlib
import json
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

import attrs

from tarn.domain import Principal
from tarn.domain.affinity import AffinityStatus
from tarn.domain.events import event_fields
from tarn.http.render import decision_json, encode, status_json, view_json
from tarn.http.render_details import affinity_json
from tarn.http.visibility import NOTHING, VisibilityFilter
from tarn.read.snapshot import Board, Snapshot

__all__ = [
    "Change",
    "Feed",
    "StreamPlaces",
    "decision_changes",
    "event_changes",
    "fleet_changes",
]

KEEP_ALIVE_S = 10.0
RING = 1000
MOST_STREAMS = 200
# Of these, places only for principals with the right to follow.
KEPT_FOR_FOLLOWERS = 100
# Of those, places only for principals with fewer than FEW streams: load balancers that reconnect.
KEPT_FOR_FEW = 20
FEW = 4
# Streams of one principal that may only view.
EACH_VIEWER = 20
# Characters of the messages in one ring; the newest message is kept whatever its size.
RING_BYTES = 4 << 20

_ID = re.compile(r"(\d{1,15}-\d{1,9})\.(\d{1,15})\.(\d{1,15})")


@attrs.frozen
class Change:
    """One message: the name of an event, and its data."""

    event: str
    said: Mapping[str, object]
    whole: bool = False
    """Whether it carries a whole state, which the next message of its name replaces."""
    status: Snapshot | None = attrs.field(default=None, eq=False, repr=False)
    """The snapshot whose status it carries; None for other messages."""
    affinity: AffinityStatus | None = attrs.field(default=None, eq=False, repr=False)
    """The rules that it carries; None for other messages."""

    def message(self, number: str = "", hidden: VisibilityFilter = NOTHING) -> str:
        """Return it as it is sent, without *hidden* models."""
        head, said = f"id: {number}\n" if number else "", self.said
        if hidden and self.status is not None:
            said = status_json(self.status, hidden)
        if self.affinity is not None:  # its lists of models are not like others
            said = affinity_json(self.affinity, hidden)
        else:
            said = hidden.head(said)
        return f"{head}event: {self.event}\ndata: {encode(said)}\n\n"


# Returns what is hidden from a reader now; None if it may not read any more.
Look = Callable[[], Awaitable[VisibilityFilter | None]]


async def _all() -> VisibilityFilter | None:
    return NOTHING


# Returns the changes between two snapshots; with None for the first, all that a new reader needs.
Changes = Callable[[Snapshot | None, Snapshot], Iterable[Change]]


def event_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return the events that are new or were counted again."""
    if before and before.events is after.events:
        return []
    old = before.events if before else ()
    # Mostly the same objects: only the others are compared by what they say.
    were, are = set(map(id, old)), set(map(id, after.events))
    gone = frozenset(event for event in old if id(event) not in are)
    fresh = (event for event in after.events if id(event) not in were and event not in gone)
    return [Change("event", event_fields(event, after.name)) for event in fresh]


def decision_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return the decisions that are new."""
    if before and before.decisions is after.decisions:
        return []
    old = frozenset(before.decisions) if before else frozenset()
    return [Change("decision", decision_json(d)) for d in after.decisions if d not in old]


def fleet_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Yield the view (``instances``), ``affinity`` and ``status`` if they changed."""
    if before is None or before.view != after.view:
        yield Change("instances", view_json(after.view), whole=True)
    # Nothing is said while nothing is known, so that a reader keeps the rules that it has.
    rules, none = after.affinity, AffinityStatus()
    if rules != (none if before is None else before.affinity):
        yield Change("affinity", affinity_json(rules, NOTHING), whole=True, affinity=rules)
    old = status_json(before) | {"at": after.at} if before else None
    if status_json(after) != old:
        yield Change("status", status_json(after), whole=True, status=after)


class StreamPlaces:
    """Counts open streams, and keeps places for followers. Lives on one event loop.

    A viewer gets at most `EACH_VIEWER` places, and all viewers together half of them, so a follower
    always finds one. Many streams of one follower leave `KEPT_FOR_FEW` places to the others.
    """

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """Return how many streams are open."""
        return self._taken.total()

    def take(self, principal: Principal, *, follows: bool) -> str:
        """Take a place for *principal*; return why there is none, or an empty text.

        Args:
            principal: The reader.
            follows: Whether it may follow the fleet, not only view it.
        """
        who = (principal.via, principal.user)
        theirs, free = self._taken[who], MOST_STREAMS - len(self)
        if not follows and theirs >= EACH_VIEWER:
            return f"you already have {theirs} open streams"
        few = KEPT_FOR_FEW if theirs >= FEW else 0
        if free <= (few if follows else KEPT_FOR_FOLLOWERS):
            return f"{len(self)} streams are already open"
        self._taken[who] += 1
        return ""

    def give_back(self, principal: Principal) -> None:
        """Free the place of a stream that ended."""
        who = (principal.via, principal.user)
        self._taken[who] -= 1
        if self._taken[who] <= 0:
            del self._taken[who]


class Feed:
    """Follows the board, and lets any number of readers follow it. Lives on one event loop."""

    def __init__(self, board: Board, changes: Changes) -> None:
        self._changes = changes
        self._board = board
        self._folded = board.current
        self._ring: deque[_FeedMessage] = deque()
        self._bytes = 0
        # Numbers of the newest message, and of the newest that a reader may have missed.
        self._newest = self._dropped = 0
        self._news = asyncio.Event()
        self._closed = False

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot that the newest message belongs to."""
        return self._folded

    @property
    def last_id(self) -> str:
        """Return the id after which a reader of `snapshot` continues."""
        return self._id(self._newest)

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot; the same one again changes nothing. Event loop only."""
        if snapshot is self._folded:
            return
        before = self._folded if snapshot.epoch == self._folded.epoch else None
        self._folded = snapshot
        for change in self._changes(before, snapshot):
            self._newest += 1
            number = self._id(self._newest)
            self._keep(_FeedMessage.of(self._newest, number, change))
        self._wake()

    def _keep(self, message: "_FeedMessage") -> None:
        """Put *message* into the ring; remove the state that it replaces, and what is too much."""
        if message.change.whole:
            older = [one for one in self._ring if one.change.event == message.change.event]
            for one in older:
                self._ring.remove(one)
                self._bytes -= len(one.whole)
        self._ring.append(message)
        self._bytes += len(message.whole)
        while len(self._ring) > RING or (self._bytes > RING_BYTES and len(self._ring) > 1):
            lost = self._ring.popleft()
            self._bytes -= len(lost.whole)
            self._dropped = lost.number

    def close(self) -> None:
        """End every reader. Event loop only; idempotent."""
        self._closed = True
        self._wake()

    async def read(self, last_id: str | None, look: Look = _all) -> AsyncGenerator[str, None]:
        """Yield the messages after *last_id* to one reader until the feed is closed.

        *look* is called before each message. The iteration ends when it returns None.
        """
        cursor = None if last_id is None else self._resume(last_id)
        whole, reset = cursor is None, last_id is not None
        while not self._closed and (hidden := await look()) is not None:
            # No await from here to the yield: more messages may come while this one is sent.
            if whole or cursor is None:
                cursor, whole = self._newest, False
                yield self._whole(hidden, reset=reset)
            elif cursor == self._newest:
                if not await self._heard():
                    yield ": keep-alive\n\n"
            elif self._has(cursor):
                texts = [one.text(hidden) for one in self._ring if one.number > cursor]
                cursor = self._newest
                yield "".join(texts)
            else:
                whole = reset = True

    async def _heard(self) -> bool:
        """Wait for a message; return False when the reader needs a sign of life first."""
        news = self._news
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE_S):
                await news.wait()
        return news.is_set()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _id(self, number: int) -> str:
        return f"{self._folded.epoch}.{self._folded.view.revision}.{number}"

    def _has(self, cursor: int) -> bool:
        return self._dropped <= cursor <= self._newest

    def _resume(self, last_id: str) -> int | None:
        match = _ID.fullmatch(last_id.strip())
        if not match or match[1] != str(self._folded.epoch):
            return None
        return int(match[3]) if self._has(int(match[3])) else None

    def _whole(self, hidden: VisibilityFilter, *, reset: bool) -> str:
        """Return all that a new reader needs."""
        # Only the last message has an id: a reader that was cut off before it starts again.
        changes = list(self._changes(None, self._folded))
        begin = Change("reset", {"epoch": str(self._folded.epoch)})
        texts = [begin.message()] * reset
        texts += [change.message(hidden=hidden) for change in changes[:-1]]
        texts += [change.message(self.last_id, hidden) for change in changes[-1:]]
        return "".join(texts) or ": nothing yet\n\n"


@attrs.frozen(eq=False)
class _FeedMessage:
    """One message in the ring."""

    number: int
    id: str
    change: Change
    """The message without its data, of which ``whole`` is the only copy."""
    whole: str
    """As it is sent to readers who may see every model."""

    @classmethod
    def of(cls, number: int, id_: str, change: Change) -> "_FeedMessage":
        return cls(number, id_, attrs.evolve(change, said={}), change.message(id_))

    def text(self, hidden: VisibilityFilter) -> str:
        if not hidden:
            return self.whole
        said = json.loads(self.whole.partition("\ndata: ")[2])
        return attrs.evolve(self.change, said=said).message(self.id, hidden)
