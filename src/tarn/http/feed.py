"""Server-sent events: numbered changes of the snapshot, kept in a ring so that readers resume.

A reader holds nothing but a number. One that is slow, or was away, finds in the ring what it
missed; when the ring no longer has it (or the epoch is another) it is told ``reset`` and gets the
whole again. So no reader can make the master queue anything.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

import attrs

from tarn.control.snapshot import Board, Snapshot
from tarn.http.render import decision_json, encode, event_json, instances_json, status_json

__all__ = ["Change", "Feed", "decision_changes", "event_changes", "fleet_changes"]

KEEP_ALIVE_S = 10.0
RING = 1000

_ID = re.compile(r"(\d{1,15}-\d{1,9})\.(\d{1,15})\.(\d{1,15})")


@attrs.frozen
class Change:
    """One message: the name of the event, and its JSON on one line."""

    event: str
    data: str


Changes = Callable[[Snapshot | None, Snapshot], Iterable[Change]]
"""What became different between two snapshots; None before: everything a newcomer needs."""


def event_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return events that are new, or were counted once more."""
    if before and before.events is after.events:
        return []
    old = frozenset(before.events) if before else frozenset()
    return [Change("event", encode(event_json(e))) for e in after.events if e not in old]


def decision_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return the decisions that are new."""
    if before and before.decisions is after.decisions:
        return []
    old = frozenset(before.decisions) if before else frozenset()
    return [Change("decision", encode(decision_json(d))) for d in after.decisions if d not in old]


def fleet_changes(before: Snapshot | None, after: Snapshot) -> Iterable[Change]:
    """Return ``instances`` (the whole view) and ``status`` where they changed."""
    if before is None or before.view != after.view:
        yield Change("instances", encode(instances_json(after)))
    old = status_json(before) | {"at": after.at} if before else None
    if status_json(after) != old:
        yield Change("status", encode(status_json(after)))


class Feed:
    """Follows the board, and lets any number of readers follow it. Lives on one event loop."""

    def __init__(self, board: Board, changes: Changes) -> None:
        self._changes = changes
        self._board = board
        self._folded = board.current
        self._ring: deque[tuple[int, str]] = deque(maxlen=RING)
        self._newest = 0
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
        """Take in a newer snapshot. Event loop only."""
        before = self._folded if snapshot.epoch == self._folded.epoch else None
        self._folded = snapshot
        for change in self._changes(before, snapshot):
            self._newest += 1
            self._ring.append((self._newest, _message(change, self._id(self._newest))))
        self._wake()

    def close(self) -> None:
        """End every reader. Event loop only; idempotent."""
        self._closed = True
        self._wake()

    async def read(self, last_id: str | None) -> AsyncIterator[str]:
        """Yield text for one reader until the feed is closed; *last_id* is where it stopped."""
        cursor = None if last_id is None else self._resume(last_id)
        if cursor is None:
            cursor = self._newest  # before the yield: more may be folded in while it is sent
            yield self._whole(reset=last_id is not None)
        while not self._closed:
            if cursor == self._newest:
                if not await self._heard():
                    yield ": keep-alive\n\n"
            elif self._has(cursor):
                texts = [text for number, text in self._ring if number > cursor]
                cursor = self._newest
                yield "".join(texts)
            else:
                cursor = self._newest
                yield self._whole(reset=True)

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
        oldest = self._ring[0][0] if self._ring else self._newest + 1
        return oldest - 1 <= cursor <= self._newest

    def _resume(self, last_id: str) -> int | None:
        match = _ID.fullmatch(last_id.strip())
        if not match or match[1] != str(self._folded.epoch):
            return None
        return int(match[3]) if self._has(int(match[3])) else None

    def _whole(self, *, reset: bool) -> str:
        """Return everything; only its last message has an id, so a torn one is sent again."""
        changes = list(self._changes(None, self._folded))
        texts = [_message(Change("reset", encode({"epoch": str(self._folded.epoch)})))] * reset
        texts += [_message(change) for change in changes[:-1]]
        texts += [_message(change, self.last_id) for change in changes[-1:]]
        return "".join(texts) or ": nothing yet\n\n"


def _message(change: Change, number: str = "") -> str:
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {change.event}\ndata: {change.data}\n\n"
