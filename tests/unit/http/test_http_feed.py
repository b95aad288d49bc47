"""Streams: numbered, resumable, and never a reason to queue anything."""

import asyncio
from collections.abc import AsyncIterator, Callable

import attrs
import pytest
from fake_master import FakeMaster, event, instance, snapshot

from tarn.domain import Epoch
from tarn.http import feed as feeds
from tarn.http.app import Application
from tarn.http.feed import Feed, event_changes, fleet_changes
from tarn.http.visibility import VisibilityFilter
from tarn.read.snapshot import Board, Snapshot


async def _next(texts: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(texts), 5)


def _ids(text: str) -> list[str]:
    return [line[4:] for line in text.splitlines() if line.startswith("id: ")]


def _feed(*messages: str) -> tuple[Feed, Board]:
    board = Board(snapshot(instance(1)))
    feed = Feed(board, event_changes)
    for count in range(1, len(messages) + 1):
        feed.fold(snapshot(instance(1), events=tuple(event(m) for m in messages[:count])))
    return feed, board


def test_a_newcomer_gets_everything_that_is_kept() -> None:
    """Then the id of the last one resumes without a gap."""

    async def story() -> None:
        feed, _ = _feed("a", "b")
        text = await _next(feed.read(None))
        assert text.count("event: event\n") == 2
        assert _ids(text) == ["1764201600000-1.3.2"] == [feed.last_id]

    asyncio.run(story())


def test_a_reader_that_was_away_gets_what_it_missed() -> None:
    """Only that, in order."""

    async def story() -> None:
        feed, _ = _feed("a", "b", "c")
        text = await _next(feed.read("1764201600000-1.3.1"))
        assert [i.rpartition(".")[2] for i in _ids(text)] == ["2", "3"]
        assert "reset" not in text

    asyncio.run(story())


@pytest.mark.parametrize(
    "last_id",
    ["1764201600000-2.3.1", "1764201600000-1.3.99", "nonsense", "1-1.1", "1764201600000-1.3.-1"],
)
def test_a_foreign_or_unknown_id_is_a_reset(last_id: str) -> None:
    """Another epoch, a number never given, or no id at all: the whole again, and said so."""

    async def story() -> None:
        feed, _ = _feed("a")
        text = await _next(feed.read(last_id))
        assert text.startswith("event: reset\n")
        assert text.count("event: event\n") == 1

    asyncio.run(story())


def test_a_reader_slower_than_the_ring_is_reset() -> None:
    """It costs the master nothing but the ring."""

    async def story() -> None:
        feed, _ = _feed("a")
        reader = feed.read(feed.last_id)
        waiting = asyncio.ensure_future(_next(reader))
        await asyncio.sleep(0)
        for number in range(feeds.RING + 10):
            feed.fold(snapshot(instance(1), events=(event(f"{number}"),)))
        assert (await waiting).startswith("event: reset\n")
        feed.fold(snapshot(instance(1), events=(event("z"),)))
        assert '"message": "z"' in await _next(reader)

    asyncio.run(story())


def test_an_event_counted_once_more_is_told_again() -> None:
    """Aggregated events change their count, not their number of lines."""

    async def story() -> None:
        feed, _ = _feed("a")
        reader = feed.read(feed.last_id)
        feed.fold(snapshot(instance(1), events=(event("a", 2),)))
        assert '"count": 2' in await _next(reader)

    asyncio.run(story())


def test_closing_ends_every_reader() -> None:
    """So that a master leaves within a second."""

    async def story() -> None:
        feed, _ = _feed("a")
        readers = [feed.read(feed.last_id) for _ in range(3)]
        waiting = [asyncio.ensure_future(_next(reader)) for reader in readers]
        await asyncio.sleep(0)
        feed.close()
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [StopAsyncIteration] * 3

    asyncio.run(story())


def test_a_quiet_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment that no client shows."""
    monkeypatch.setattr(feeds, "KEEP_ALIVE_S", 0.01)

    async def story() -> None:
        feed, _ = _feed("a")
        assert await _next(feed.read(feed.last_id)) == ": keep-alive\n\n"

    asyncio.run(story())


def test_a_followers_stream_begins_with_the_whole_view() -> None:
    """``instances`` and ``status``; afterwards what changed."""

    async def story() -> None:
        first = snapshot(instance(1))
        feed = Feed(Board(first), fleet_changes)
        reader = feed.read(None)
        text = await _next(reader)
        assert [line for line in text.splitlines() if line.startswith("event: ")] == [
            "event: instances",
            "event: status",
        ]
        assert '"host": "127.0.0.1", "http_port": 8010' in text
        feed.fold(attrs.evolve(first, desired=5))
        assert "event: instances" not in (later := await _next(reader))
        assert '"desired": 5' in later

    asyncio.run(story())


def test_a_new_epoch_is_told_from_the_beginning() -> None:
    """Numbers of another master mean nothing here."""

    async def story() -> None:
        feed, _ = _feed("a")
        feed.fold(snapshot(instance(1), epoch=Epoch(1764201600000, 2), events=(event("a"),)))
        assert feed.last_id == "1764201600000-2.3.2"

    asyncio.run(story())


def test_of_a_whole_state_only_the_newest_is_kept() -> None:
    """A fleet that changes without a reader costs one view; who missed the others misses none."""

    async def story() -> None:
        first = snapshot(*(instance(n) for n in range(1, 40)))
        feed = Feed(Board(first), fleet_changes)
        for revision in range(4, 300):
            view = attrs.evolve(first.view, revision=revision)
            feed.fold(attrs.evolve(first, view=view, desired=revision))
        assert len(feed._ring) == 2
        text = await _next(feed.read("1764201600000-1.3.0"))
        assert "reset" not in text
        assert [line for line in text.splitlines() if line.startswith("event: ")] == [
            "event: instances",
            "event: status",
        ]
        assert '"revision": 299' in text

    asyncio.run(story())


def test_a_ring_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes for what is gone is told all of it again."""
    monkeypatch.setattr(feeds, "RING_BYTES", 20_000)

    async def story() -> None:
        feed, _ = _feed(*(f"{number:05}" * 200 for number in range(100)))
        assert sum(len(told.whole) for told in feed._ring) == feed._bytes <= 20_000
        assert (await _next(feed.read("1764201600000-1.3.1"))).startswith("event: reset\n")
        newest = feed._newest
        assert "reset" not in await _next(feed.read(f"1764201600000-1.3.{newest - 2}"))

    asyncio.run(story())


def test_a_message_is_kept_once_and_read_from_its_text_for_those_who_may_not_see_all() -> None:
    """A master's memory must not hold each event as a dictionary, too."""

    async def story() -> None:
        feed = Feed(Board(snapshot(instance(1))), event_changes)
        secret = attrs.evolve(event("model payroll failed"), models=("payroll",))
        feed.fold(snapshot(instance(1), events=(event("a"), secret)))
        assert [told.change.said for told in feed._ring] == [{}, {}]
        hidden = VisibilityFilter(frozenset({"payroll"}))

        async def look() -> VisibilityFilter:
            return hidden

        text = await _next(feed.read("1764201600000-1.3.0", look))
        assert '"message": "a"' in text
        assert "payroll" not in text
        assert "payroll" in await _next(feed.read("1764201600000-1.3.0"))

    asyncio.run(story())


class Turns:
    """An event loop, as far as another thread can ask it for something."""

    def __init__(self) -> None:
        self._asked: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, work: Callable[[], None]) -> None:
        self._asked.append(work)

    def turn(self) -> None:
        """Do what was asked until now."""
        asked, self._asked = self._asked, []
        for work in asked:
            work()


class Interleaved(Application):
    """Its loop has a turn whenever the control thread keeps a snapshot for it."""

    turns: Turns | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Snapshot) and self.turns is not None:
            self.turns.turn()
        super().__setattr__(name, value)


def test_no_snapshot_is_lost_wherever_the_loop_has_its_turn() -> None:
    """The newest reaches the readers whatever the two threads do at once."""
    master, turns = FakeMaster(snapshot(at=1.0)), Turns()
    app = Interleaved(master.app._sources)
    app._loop = turns  # type: ignore[assignment]
    master.board.subscribe(app._hand_over)
    master.publish(at=2.0)  # asked for, and the loop's turn has not come yet
    app.turns = turns
    for at in (3.0, 4.0):
        master.publish(at=at)
        turns.turn()
        assert app._api._fleet.snapshot.at == at
    master.server.close()
