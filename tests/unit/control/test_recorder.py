"""What a master saw is kept for the next one: whole, rarely, and never over what is not read."""

import contextlib
import gzip
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from fake_master import instance, reading, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.control.recorder import KEEP_EACH_S, Recorder
from tarn.domain import ClusterState, Epoch, Issue
from tarn.domain.counters import CounterSet
from tarn.domain.history import COLUMNS
from tarn.errors import ProviderError
from tarn.interfaces import MasterContext
from tarn.read.retained_history import NAME, RetainedHistory, read, written
from tarn.read.snapshot import Board, Snapshot
from tarn.testing.context import master_context
from tarn.testing.fakes import FakeClock, FakeStateStore
from tarn.testing.wait import until

AT = 1_764_201_600.0


def seen(at: float, requests: float = 0.0, **changes: object) -> Snapshot:
    """A picture of one instance that counted so much."""
    said = {"llama-0001": reading(1, requests_total=requests, request_us_total=requests, pending=1)}
    return snapshot(instance(1), readings=said, at=at, **changes)


def past_of(steps: list[tuple[float, float]]) -> RetainedHistory:
    """What is remembered after such looks."""
    past, at = RetainedHistory(), AT
    for step_s, requests in steps:
        at += step_s
        issues = (Issue("llama", "ä\n", code="TARN-1005"),)
        past = past.looked(seen(at, requests, issues=issues), gpus=2)
    return past


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(0.001, 900), st.floats(0, 1e12)), max_size=30))
def test_the_next_master_remembers_all_of_it(steps: list[tuple[float, float]]) -> None:
    """Rows, open steps, counters, usage, and since when things are wrong."""
    past = past_of(steps)
    again = read(written(past))
    assert again == attrs.evolve(past, trouble="")
    assert again.since == past.since
    assert again.usage.slots == past.usage.slots
    assert [s.slots for s in again.usage.slots] == [s.slots for s in past.usage.slots]


@pytest.mark.parametrize(
    ("found", "ended"),
    [(105.0, 2.0), (40.0, 0.0)],
    ids=["it goes on", "a model was unloaded meanwhile"],
)
def test_the_next_master_counts_on_from_what_the_counters_said(found: float, ended: float) -> None:
    """It has not seen the reload that this one has; and a sum that fell tells nothing of its parts.

    Under this master a model began again at 0, so that it counted more than the Triton says.
    """
    first = seen(AT, 1004.0)
    said = attrs.evolve(first.readings["llama-0001"], as_read=CounterSet(103.0))
    past = RetainedHistory().looked(attrs.evolve(first, readings={"llama-0001": said}))
    adopted = (instance(1, adopted=True),)
    later = attrs.evolve(seen(AT + 5, found), instances=adopted)
    again = read(written(past)).looked(later)
    assert (
        again.usage.total(AT, AT + 5).spent["instance", "llama-0001"].requests
        - (past.usage.total(AT, AT).spent["instance", "llama-0001"].requests)
        == ended
    )
    (row,) = again.history.grains[0].since(0.0)
    assert row[COLUMNS.index("requests_per_s")] == ended / 5


def test_a_file_that_is_damaged_or_another_is_refused_in_one_way() -> None:
    """Cut anywhere, a byte changed, or made by somebody else: never anything but ``ValueError``."""
    whole = written(past_of([(10.0, float(n)) for n in range(30)]))
    dice = random.Random(7)
    for _ in range(200):
        cut = whole[: dice.randrange(len(whole))]
        with pytest.raises(ValueError):
            read(cut)
        at = dice.randrange(len(whole))
        bad = whole[:at] + bytes([whole[at] ^ (1 << dice.randrange(8))]) + whole[at + 1 :]
        with contextlib.suppress(ValueError):  # a bit of the packing's own head changes nothing
            read(bad)
    lines = [b'["tarn history",1]', b'["row",10]', b'["row",10,"x"]', b'["open",10,1]', b"{}", b"5"]
    for line in lines[1:]:
        with pytest.raises(ValueError):
            read(gzip.compress(lines[0] + b"\n" + line))
    for other in (b"", b"\0", gzip.compress(b""), gzip.compress(b"[1]"), gzip.compress(b"{}")):
        with pytest.raises(ValueError):
            read(other)


def test_a_line_of_a_later_kind_is_skipped() -> None:
    """A master of this version goes on with what it knows."""
    later = gzip.decompress(written(past_of([(1.0, 1.0)]))) + json.dumps(["later", {}]).encode()
    assert read(gzip.compress(later)) == past_of([(1.0, 1.0)])


def test_the_longest_past_there_is_is_small_and_quickly_written() -> None:
    """Thousands of rows: less than a megabyte, and no line that holds anybody up."""
    past, at = RetainedHistory(), AT
    many = tuple(instance(n) for n in range(10))
    said = {i.id: reading(i.number, requests_total=1e6 + i.number) for i in many}
    for _ in range(1500):
        at += 240
        past = past.looked(snapshot(*many, readings=said, at=at))
    begun = time.thread_time()
    data = written(past)
    assert len(data) < 1_000_000
    assert time.thread_time() - begun < 5
    assert max(map(len, gzip.decompress(data).splitlines())) < 2000


@pytest.fixture
def context(tmp_path: Path) -> MasterContext:
    return master_context(tmp_path, epoch=Epoch(1, 1))


def recorder(
    context: MasterContext, store: FakeStateStore, board: Board, clock: FakeClock | None = None
) -> Recorder:
    return Recorder(board, store, attrs.evolve(context, clock=clock or FakeClock()))


def looked_at(one: Recorder, at: float) -> Callable[[], bool]:
    """Say whether the snapshot of *at* was taken in."""
    return lambda: one.past().history.at == at


def test_a_new_master_goes_on_where_the_last_one_stopped(context: MasterContext) -> None:
    """It leaves, and what it saw last is there."""
    store, board = FakeStateStore(), Board(seen(AT))
    first = recorder(context, store, board)
    board.publish(seen(AT + 1, 3.0))
    until(looked_at(first, AT + 1))
    first.close()
    second = recorder(context, store, board)
    board.publish(seen(AT + 5, 11.0))
    until(looked_at(second, AT + 5))
    (row,) = second.past().history.grains[0].since(0.0)
    assert row[0] == AT
    assert second.past().usage.total(AT, AT + 5).spent["instance", "llama-0001"].requests == 11.0
    second.close()


def test_it_is_written_once_a_minute_and_not_while_the_cluster_ends(context: MasterContext) -> None:
    """Its directory is being cleared then."""
    store, board, clock = FakeStateStore(), Board(seen(AT)), FakeClock()
    one = recorder(context, store, board, clock)
    for second in range(3):
        board.publish(seen(AT + second))
        until(looked_at(one, AT + second))
    assert store.kept(NAME) is None
    clock.advance(KEEP_EACH_S)
    board.publish(seen(AT + 3))
    until(lambda: store.kept(NAME))
    store.shelf.things.clear()
    clock.advance(KEEP_EACH_S)
    board.publish(seen(AT + 4, state=ClusterState.STOPPING))
    until(looked_at(one, AT + 4))
    one.close()
    assert store.kept(NAME) is None


def test_a_store_that_is_away_is_asked_again_and_never_written_over(context: MasterContext) -> None:
    """What an earlier master saw counts for more than a few looks."""

    class Away(FakeStateStore):
        away = True

        def kept(self, name: str) -> bytes | None:
            if self.away:
                raise ProviderError("fake", "away", retry_after_s=1.0)
            return super().kept(name)

    store, board, clock = Away(), Board(seen(AT)), FakeClock()
    old = written(past_of([(1.0, 1.0), (10.0, 2.0)]))
    store.keep(NAME, old, Epoch(1, 0))
    one = recorder(context, store, board, clock)
    clock.advance(KEEP_EACH_S)
    board.publish(seen(AT + 60))
    until(lambda: one._worker.error)
    assert FakeStateStore(store.shelf).kept(NAME) == old
    assert one.past().trouble == "fake: away"
    store.away = False
    until(looked_at(one, AT + 60))
    assert len(one.past().history.grains[0].rows) == 2
    one.close()


def test_what_is_damaged_or_cannot_be_written_is_said_and_the_master_goes_on(
    context: MasterContext,
) -> None:
    """Among the alerts, until it is well again."""
    store, board, clock = FakeStateStore(), Board(seen(AT)), FakeClock()
    store.keep(NAME, b"damaged", Epoch(1, 0))
    one = recorder(context, store, board, clock)
    board.publish(seen(AT + 1))
    until(looked_at(one, AT + 1))
    assert "the history of earlier masters is lost" in one.past().trouble
    store.shelf.broken = "disk full"
    clock.advance(KEEP_EACH_S)
    board.publish(seen(AT + 2))
    until(lambda: one.past().trouble == "disk full")
    store.shelf.broken = ""
    clock.advance(KEEP_EACH_S)
    board.publish(seen(AT + 3))
    until(lambda: not one.past().trouble)
    one.close()
