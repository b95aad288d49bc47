"""What can go wrong in a fake world, and that it is recorded."""

import attrs
import pytest

from tarn.domain import Ended, Epoch, ExitStatus, Pending, Running, RuntimeWish
from tarn.errors import ProviderError, Superseded
from tarn.testing.fakes import FakeClock, FakeRuntime, FakeWorld

EPOCH = Epoch(1, 1)


def wish(*ids: str, stop: tuple[str, ...] = (), epoch: Epoch = EPOCH) -> RuntimeWish:
    return RuntimeWish(epoch, 1, frozenset((i, "h1") for i in ids), frozenset(stop))


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def runtime(world: FakeWorld, clock: FakeClock) -> FakeRuntime:
    runtime = FakeRuntime(world, clock, EPOCH)
    runtime.start("http://127.0.0.1:1")
    return runtime


def kinds(runtime: FakeRuntime) -> dict[str, type]:
    return {fact.instance_id: type(fact) for fact in runtime.facts()}


def test_a_late_grant_comes_when_the_clock_says_so(runtime, world, clock):
    """Until then the fact is an ask."""
    world.late_s = 5.0
    runtime.apply(wish("a"))
    clock.advance(4.9)
    assert kinds(runtime) == {"a": Pending}
    clock.advance(0.2)
    assert kinds(runtime) == {"a": Running}


def test_held_grants_come_one_by_one(runtime, world):
    """Holding holds everything but what is granted by name."""
    world.hold_grants()
    runtime.apply(wish("a", "b"))
    world.grant("b")
    assert kinds(runtime) == {"a": Pending, "b": Running}


def test_a_rejected_ask_says_what_it_waits_for(runtime, world):
    """It is granted once it is accepted."""
    world.reject("a", "no node with the tag 'nvidia' is free")
    runtime.apply(wish("a"))
    (fact,) = runtime.facts()
    assert fact == Pending("a", "h1", "no node with the tag 'nvidia' is free")
    world.accept("a")
    assert kinds(runtime) == {"a": Running}


def test_starts_fail_until_they_are_mended(runtime, world):
    """By instance id or by spec hash, each with its status."""
    status = ExitStatus("out of memory", 137)
    world.fail("a", status)
    world.fail("h2")
    want = frozenset({("a", "h1"), ("b", "h2"), ("c", "h1")})
    runtime.apply(attrs.evolve(wish(), want=want))
    assert kinds(runtime) == {"a": Ended, "b": Ended, "c": Running}
    assert next(f for f in runtime.facts() if f.instance_id == "a").exit == status
    world.repair("a")
    runtime.apply(wish())
    runtime.apply(wish("a"))
    assert kinds(runtime)["a"] is Running


def test_a_lost_fact_hides_an_instance_that_goes_on(runtime, world):
    """Nothing is started in its place, and it comes back unchanged."""
    runtime.apply(wish("a"))
    before = runtime.facts()
    world.lose("a")
    assert runtime.facts() == ()
    runtime.apply(wish("a"))
    world.find("a")
    assert runtime.facts() == before
    assert world.launched == ["a"]


def test_a_vanished_instance_leaves_no_end(runtime, world):
    """Its completion is lost; wanted again, it is started again."""
    runtime.apply(wish("a"))
    world.vanish("a")
    assert runtime.facts() == ()
    runtime.apply(wish("a"))
    assert world.launched == ["a", "a"]


def test_a_doubled_grant_gives_the_first_container_back(runtime, world):
    """There is one fact, for the newer container."""
    runtime.apply(wish("a"))
    (before,) = runtime.facts()
    world.double("a")
    (after,) = runtime.facts()
    assert world.given_back == [before.container_id]
    assert after.container_id != before.container_id


def test_a_crash_is_an_end_that_nobody_asked_for(runtime, world):
    """A stop is one that somebody did."""
    runtime.apply(wish("a", "b"))
    world.crash("a")
    runtime.apply(wish("a", stop=("b",)))
    ends = {fact.instance_id: fact.exit.expected for fact in runtime.facts()}
    assert ends == {"a": False, "b": True}
    assert world.stopped == ["b"]


def test_a_silent_world_is_an_exception_and_an_old_word(runtime, world, clock):
    """Nothing is done meanwhile; afterwards everything goes on."""
    world.fall_silent(clock.now_s())
    clock.advance(30.0)
    with pytest.raises(ProviderError):
        runtime.apply(wish("a"))
    assert clock.now_s() - runtime.heard_s() == 30.0
    world.answer()
    runtime.apply(wish("a"))
    assert kinds(runtime) == {"a": Running}
    assert runtime.heard_s() == clock.now_s()


def test_a_second_runtime_adopts_and_supersedes(runtime, world, clock):
    """The world outlives the first one, which may not act any more."""
    runtime.apply(wish("a"))
    later = Epoch(1, 2)
    successor = FakeRuntime(world, clock, later)
    (found,) = successor.start("http://127.0.0.1:2").running
    assert found.adopted
    with pytest.raises(Superseded):
        runtime.apply(wish("b"))
    successor.apply(wish("a", "c", epoch=later))
    assert {f.instance_id: f.adopted for f in successor.facts()} == {"a": True, "c": False}


def test_what_is_lost_at_the_start_of_the_next_master_is_found_late(runtime, world, clock):
    """It is adopted, and in nobody's recovery."""
    runtime.apply(wish("a", "b"))
    world.lose("a")
    following = FakeRuntime(world, clock, Epoch(1, 2))
    assert [fact.instance_id for fact in following.start("http://127.0.0.1:2").running] == ["b"]
    world.find("a")
    found = next(fact for fact in following.facts() if fact.instance_id == "a")
    assert found.adopted


def test_a_place_that_will_be_taken_is_said_until_that_is_taken_back(runtime, world):
    """The fact goes on being `Running`."""
    runtime.apply(wish("a"))
    world.leave("a", "preempted")
    assert runtime.facts()[0].leaving == "preempted"
    world.leave("a", "")
    assert runtime.facts()[0].leaving == ""
