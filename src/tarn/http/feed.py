"""Server-sent events: numbered changes of the snapshot, kept in a ring so that readers resume.

A reader holds nothing but a number. One that is slow, or was away, finds in the ring what it
missed; when the ring no longer has it (or the epoch is another) it is told ``reset`` and gets the
whole again. So no reader can make the master queue anything. Of messages that each tell a whole
state the newest is enough: an older one is dropped, and who missed it is not told of it.
"""

import asyncio
import contextlib
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

import attrs

from tarn.control.snapshot import Board, Snapshot
from tarn.domain import Principal
from tarn.http.render import decision_json, encode, event_json, instances_json, status_json
from tarn.http.visibility import NOTHING, VisibilityFilter

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
KEPT_FOR_FOLLOWERS = 100
"""Places that only those get who may follow."""
KEPT_FOR_FEW = 20
"""Of these, places for principals that have few streams: load balancers that look again."""
FEW = 4
EACH_VIEWER = 20
"""Streams of one principal that may only view."""
RING_BYTES = 4 << 20
"""Of the messages in one ring, the newest of all not counted."""

_ID = re.compile(r"(\d{1,15}-\d{1,9})\.(\d{1,15})\.(\d{1,15})")


@attrs.frozen
class Change:
    """One message: the name of the event, and what it says."""

    event: str
    said: Mapping[str, object]
    whole: bool = False
    """It tells a whole state: the next one of its name takes its place."""

    def message(self, number: str = "", hidden: VisibilityFilter = NOTHING) -> str:
        """Return it as it is sent, without *hidden* models, its JSON on one line."""
        head = f"id: {number}\n" if number else ""
        return f"{head}event: {self.event}\ndata: {encode(hidden.head(self.said))}\n\n"


Look = Callable[[], Awaitable[VisibilityFilter | None]]
"""What is hidden from a reader now; None: they may not read any more."""


async def _all() -> VisibilityFilter | None:
    return NOTHING


Changes = Callable[[Snapshot | None, Snapshot], Iterable[Change]]
"""What became different between two snapshots; None before: everything a newcomer needs."""


def event_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return events that are new, or were counted once more."""
    if before and before.events is after.events:
        return []
    old = frozenset(before.events) if before else frozenset()
    return [Change("event", event_json(e, after.name)) for e in after.events if e not in old]


def decision_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return the decisions that are new."""
    if before and before.decisions is after.decisions:
        return []
    old = frozenset(before.decisions) if before else frozenset()
    return [Change("decision", decision_json(d)) for d in after.decisions if d not in old]


def fleet_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return ``instances`` (the whole view) and ``status`` where they changed."""
    if before is None or before.view != after.view:
        yield Change("instances", instances_json(after), whole=True)
    old = status_json(before) | {"at": after.at} if before else None
    if status_json(after) != old:
        yield Change("status", status_json(after), whole=True)


class StreamPlaces:
    """Counts open streams, and keeps places for followers. Lives on one event loop.

    Who may only view gets a share each, and half of the places together; so a follower always finds
    one, and even many streams of one follower leave some to the others.
    """

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """Return how many streams are open."""
        return self._taken.total()

    def take(self, principal: Principal, *, follows: bool) -> str:
        """Take a place for *principal*; return why there is none, empty when there is.

        Args:
            principal: Who reads.
            follows: Whether they may follow the fleet, not only view it.
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
        self._newest = self._dropped = 0
        """Numbers of the newest message, and of the newest that a reader may have missed."""
        self._news = asyncio.Event()
        self._closed = False

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot that the newest message belongs to."""
        return self._folded

    @property
    def last_id(self) -> str:
        """Return the id from which a reader of ``snapshot`` goes on."""
        return self._id(self._newest)

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot; the same once more changes nothing. Event loop only."""
        if snapshot is self._folded:
            return
        before = self._folded if snapshot.epoch == self._folded.epoch else None
        self._folded = snapshot
        for change in self._changes(before, snapshot):
            self._newest += 1
            number = self._id(self._newest)
            self._keep(_FeedMessage(self._newest, number, change, change.message(number)))
        self._wake()

    def _keep(self, told: "_FeedMessage") -> None:
        """Put *told* into the ring, in place of an older state, or of what is too much."""
        if told.change.whole:
            older = [one for one in self._ring if one.change.event == told.change.event]
            for one in older:
                self._ring.remove(one)
                self._bytes -= len(one.whole)
        self._ring.append(told)
        self._bytes += len(told.whole)
        while len(self._ring) > RING or (self._bytes > RING_BYTES and len(self._ring) > 1):
            lost = self._ring.popleft()
            self._bytes -= len(lost.whole)
            self._dropped = lost.number

    def close(self) -> None:
        """End every reader. Event loop only; idempotent."""
        self._closed = True
        self._wake()

    async def read(self, last_id: str | None, look: Look = _all) -> AsyncGenerator[str, None]:
        """Yield text for one reader until the feed is closed; *last_id* is where it stopped.

        Before anything is sent *look* says what is hidden from the reader; it ends at None.
        """
        cursor = None if last_id is None else self._resume(last_id)
        whole, reset = cursor is None, last_id is not None
        while not self._closed and (hidden := await look()) is not None:
            # no wait from here to the yield: more may be folded in while it is sent
            if whole or cursor is None:
                cursor, whole = self._newest, False
                yield self._whole(hidden, reset=reset)
            elif cursor == self._newest:
                if not await self._heard():
                    yield ": keep-alive\n\n"
            elif self._has(cursor):
                texts = [told.text(hidden) for told in self._ring if told.number > cursor]
                cursor = self._newest
                yield "".join(texts)
            else:
                whole = reset = True

    async def _heard(self) -> bool:
        """Wait for news, or until the connection needs a sign of life."""
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
        """Return everything; only its last message has an id, so a torn one is sent again."""
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
    whole: str
    """As it is sent to who may see every model."""

    def text(self, hidden: VisibilityFilter) -> str:
        return self.change.message(self.id, hidden) if hidden else self.whole
