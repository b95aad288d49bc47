"""The control thread among fakes."""

import threading
import time
from concurrent.futures import Future
from typing import Any

import attrs
import pytest
from desk import Desk, spec

from tarn.control import mailbox
from tarn.control.loop import CONFIRM_WITHIN_S, ControlResult
from tarn.domain import (
    Acknowledge,
    Adapt,
    Applied,
    ClusterState,
    Demand,
    DiscoveryView,
    Done,
    Down,
    Drain,
    Epoch,
    Fact,
    InstanceState,
    Issue,
    PauseScaling,
    Resume,
    RuntimeWish,
    SavedState,
    Scale,
    Wish,
)
from tarn.domain.spec import MasterSpec
from tarn.errors import ConflictError, PluginError, RefusedError, Superseded
from tarn.testing.fakes import (
    FakeClock,
    FakeDiscovery,
    FakeRuntime,
    FakeShelf,
    FakeStateStore,
    FakeWorld,
)
from tarn.testing.wait import until

TICK_S = 0.05
"""The longest that a tick may take, whatever a provider does."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "RETRY_S", 0.01)


class Blocked:
    """Holds whoever calls it, until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.going = threading.Event()

    def wait(self) -> None:
        self.begun.set()
        self.going.wait(30.0)


class FullStore(FakeStateStore):
    """Saves when it is let, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Blocked()
        self.fails = False

    def save(self, state: SavedState, epoch: Epoch) -> None:
        self.block.wait()
        if self.fails:
            raise OSError("No space left on device")
        super().save(state, epoch)


class BlockedDiscovery(FakeDiscovery):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock, name="slow")
        self.block = Blocked()

    def sync(self, view: DiscoveryView) -> None:
        self.block.wait()
        super().sync(view)


class BlockedRuntime(FakeRuntime):
    def __init__(self) -> None:
        super().__init__(clock=FakeClock())
        self.block = Blocked()
        self.block.going.set()
        self.wishes: list[RuntimeWish] = []
        self.broken = False

    def apply(self, wish: RuntimeWish) -> None:
        self.wishes.append(wish)
        self.block.wait()
        super().apply(wish)

    def facts(self) -> tuple[Fact, ...]:
        if self.broken:
            raise RuntimeError("a fault of ours")
        return super().facts()


def heard_codes(desk: Desk) -> list[str]:
    return [what for kind, what in desk.listener.heard if kind == "event"]


# The usual.


def test_a_fleet_comes_up_scales_and_goes_down() -> None:
    """Wishes, views, targets and the state follow; the end withdraws everything."""
    with Desk() as desk:
        desk.reach(2)
        assert desk.now.state is ClusterState.READY
        assert set(desk.scraper.targets) == {"w-0001", "w-0002"}
        until(lambda: len(desk.discovery.registry.members) == 2)
        assert desk.ask(Scale(3)).message == "3 replicas, by hand"
        desk.reach(3)
        until(lambda: desk.store.shelf.kept[-1].state.manual == 3)
        desk.ask(Scale(1))
        desk.reach(1)
        until(lambda: desk._woken() or len(desk.runtime.world.stopped) == 2)
        desk.ask(Down())
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert desk.control.outcome is ControlResult.ENDED
        assert desk.now.state is ClusterState.STOPPED
        assert desk.discovery.closed == [True]
        assert desk.discovery.registry.members == {}
        assert len(desk.runtime.world.stopped) == 3


def test_nothing_is_posted_while_nothing_changes() -> None:
    """One wish, one view, one set of targets, one save."""
    runtime = BlockedRuntime()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        until(lambda: len(desk.discovery.registry.members) == 2)
        desk.tick(1.0)
        counts = (len(runtime.wishes), len(desk.discovery.views), desk.scraper.watched)
        for _ in range(5):
            desk.tick(1.0)
        assert (len(runtime.wishes), len(desk.discovery.views), desk.scraper.watched) == counts


def test_an_unchanged_wish_is_posted_again_after_ten_seconds() -> None:
    """What was asked may have been lost on its way; the revision stays."""
    runtime = BlockedRuntime()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        desk.tick()
        before = len(runtime.wishes)
        desk.tick(9.0)
        assert len(runtime.wishes) == before
        desk.tick(1.0)
        until(lambda: len(runtime.wishes) == before + 1)
        assert runtime.wishes[-1] == runtime.wishes[-2]


def test_an_ask_that_the_runtime_lost_is_made_again() -> None:
    """No fact tells of it, and the instance comes up after all."""
    runtime = FakeRuntime(clock=FakeClock())
    runtime.world.hold_grants()
    with Desk(runtime=runtime) as desk:
        until(lambda: desk._woken() or len(runtime.facts()) == 2)
        runtime.world.vanish("w-0001")
        runtime.world.late_s = 0.0
        desk.reach(1)
        desk.tick(10.0)
        desk.reach(2)


# Commands.


def test_an_answer_comes_after_the_snapshot_that_shows_it() -> None:
    """Whoever reads after the answer sees what was asked."""
    with Desk() as desk:
        desk.reach(2)
        seen: list[int | None] = []

        def look(_answer: Future[Done]) -> None:
            seen.append(desk.now.manual)

        for size in (3, 4, 5):
            answer = desk.inbox.ask(Scale(size))
            answer.add_done_callback(look)
            answer.result(5.0)
        until(lambda: len(seen) == 3)
        assert seen == [3, 4, 5]


def test_a_stale_if_match_is_a_conflict_and_a_size_beyond_the_limits_is_refused() -> None:
    """Each asker gets an own answer."""
    with Desk() as desk:
        desk.ask(Scale(3), if_match=1)
        with pytest.raises(ConflictError) as conflict:
            desk.ask(Scale(4), if_match=1)
        assert conflict.value.spec_revision == 2
        with pytest.raises(RefusedError, match="0 to 8"):
            desk.ask(Scale(9))
        assert desk.now.manual == 3


def test_an_asker_who_gave_up_disturbs_nobody() -> None:
    """The command is obeyed all the same."""
    with Desk() as desk:
        given_up = desk.send(Scale(3))
        given_up.cancel()
        assert desk.ask(Adapt(min=1)).spec_revision == 3


def test_a_command_that_breaks_something_is_answered_and_the_others_go_on() -> None:
    """An error of ours reaches its asker, is counted, and ends nothing."""
    with Desk() as desk:
        desk.reach(2)
        with pytest.raises(AttributeError):
            desk.ask(Acknowledge(None))  # type: ignore[arg-type]
        assert desk.ask(Scale(3)).message == "3 replicas, by hand"
        assert "1 ticks raised; see the master's log" in desk.now.faults


def test_drain_replaces_the_instance() -> None:
    """Withdrawn, drained, stopped; a new one comes."""
    with Desk() as desk:
        desk.reach(2)
        desk.ask(Drain("w-0001"))
        until(lambda: desk._woken() or "w-0001" in desk.runtime.world.stopped)
        desk.reach(2)
        assert {i.id for i in desk.now.instances if i.in_view} == {"w-0002", "w-0003"}


# Providers that block or fail.


def test_a_discovery_that_is_blocked_for_ten_minutes_costs_the_others_nothing() -> None:
    """Ticks go on, other followers and the runtime are served, and `/health` names it."""
    clock = FakeClock()
    slow = BlockedDiscovery(clock)
    runtime = FakeRuntime(clock=clock)
    quick_one = FakeDiscovery(clock=clock, name="quick")
    providers = {"slow": slow, "quick": quick_one}
    with Desk(runtime=runtime, discoveries=providers) as desk:
        assert slow.block.begun.wait(5.0)
        desk.reach(2)
        desk.tick(10.0)
        assert desk.now.faults == ()
        for minute in range(1, 11):
            began_s = time.thread_time()
            snapshot = desk.tick(60.0)
            assert time.thread_time() - began_s < TICK_S
            assert f"discovery slow has been at work for {10 + 60 * minute} s" in snapshot.faults
        desk.ask(Scale(3))
        desk.reach(3)
        until(lambda: len(quick_one.registry.members) == 3)
        assert slow.views == []
        assert desk.now.event_totals["TARN-1009"] == 1
        slow.block.going.set()
        until(lambda: len(slow.registry.members) == 3)
        assert desk.tick().faults == ()


def test_a_runtime_that_is_blocked_is_named_and_readers_are_served() -> None:
    """Its newest wish waits; it gets no older one afterwards."""
    runtime = BlockedRuntime()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        runtime.block.begun.clear()
        runtime.block.going.clear()
        desk.ask(Scale(3))
        assert runtime.block.begun.wait(5.0)
        desk.ask(Scale(4))
        desk.ask(Scale(5))
        assert "runtime has been at work for 11 s" in desk.tick(11.0).faults
        count = len(runtime.wishes)
        runtime.block.going.set()
        desk.reach(5)
        assert len(runtime.wishes[count].want) == 5


def test_ticks_stay_short_in_real_time_while_a_provider_blocks() -> None:
    """A second of ticks as fast as they come, measured from wake to snapshot."""
    clock = FakeClock()
    slow = BlockedDiscovery(clock)
    with Desk(runtime=FakeRuntime(clock=clock), discoveries={"slow": slow}) as desk:
        desk.reach(2)
        took: list[float] = []
        until_s = time.monotonic() + 1.0
        while time.monotonic() < until_s:
            began_s = time.monotonic()
            desk.tick(0.01)
            took.append((time.monotonic() - began_s) / 2)
        slow.block.going.set()
    took.sort()
    assert took[len(took) // 2] < TICK_S


def test_a_discovery_that_fails_is_a_warning_with_its_words_and_one_event() -> None:
    """The fault, open to all, does not repeat the words."""
    with Desk() as desk:
        desk.discovery.broken = "no quorum at zk1"
        desk.reach(2)
        until(lambda: desk._woken() or desk.now.faults)
        assert desk.now.faults == ("discovery fake failed and is tried again",)
        assert desk.now.warnings == ("discovery fake: fake: no quorum at zk1",)
        desk.tick(1.0)
        assert desk.now.event_totals["TARN-1303"] == 1
        desk.discovery.broken = ""
        until(lambda: desk._woken() or not desk.now.faults)
        desk.discovery.broken = "again"
        desk.ask(Scale(3))
        desk.reach(3)
        until(lambda: desk._woken() or desk.now.event_totals["TARN-1303"] == 2)


def test_the_runtimes_own_warnings_are_shown() -> None:
    """A line each."""
    with Desk() as desk:
        desk.runtime.notes = ("node h is full", Issue("", "no keeper", code="TARN-1014"))
        now = desk.tick()
        assert now.warnings == ("node h is full", "TARN-1014 no keeper")
        assert now.faults == ()
        assert {issue.subject for issue in now.issues} == {desk.rules.spec.runtime.use}
        assert "TARN-1014" not in desk.codes()


def test_an_issue_has_its_beginning_as_long_as_it_lasts() -> None:
    """One that comes again begins again."""
    with Desk() as desk:
        desk.reach(2)
        desk.scraper.lack = "too many files are open"
        until(lambda: desk.tick(5.0).issues, what="the issue")
        (first,) = desk.now.issues
        (later,) = desk.tick(7.0).issues
        assert first.since is not None
        assert (later.code, later.since) == (first.code, first.since)
        desk.scraper.lack = ""
        until(lambda: not desk.tick(1.0).issues, what="its end")
        desk.scraper.lack = "too many files are open"
        until(lambda: desk.tick(1.0).issues, what="the issue again")
        (again,) = desk.now.issues
        assert again.since is not None
        assert again.since > first.since


# Policies.


def test_a_policys_wish_moves_the_size() -> None:
    """It is asked each interval."""
    with Desk() as desk:
        desk.reach(2)
        desk.policy.answer = Wish(4, "load")
        desk.tick(1.0)
        desk.reach(4)
        assert desk.now.decisions[-1].reason == "load"


@pytest.mark.parametrize("nonsense", [ValueError("no such signal"), "four", Wish(-1, "")])
def test_a_policy_that_raises_or_babbles_keeps_the_size_and_is_told_once(nonsense: Any) -> None:
    """However often it is asked again; a good answer ends it."""
    with Desk() as desk:
        desk.reach(2)
        desk.policy.answer = nonsense
        desk.tick(1.0)
        until(lambda: desk._woken() or "TARN-1012" in desk.now.event_totals)
        for _ in range(5):
            desk.tick(1.0)
        assert (desk.now.desired, desk.now.event_totals["TARN-1012"]) == (2, 1)
        assert "the scaling policy has no answer; the size is kept" in desk.now.faults
        desk.policy.answer = Wish(3, "load")
        desk.tick(1.0)
        desk.reach(3)
        assert desk.now.faults == ()


def test_a_policy_that_hangs_is_left_alone_until_resume() -> None:
    """The size is kept; `resume` asks on a new thread."""
    with Desk() as desk:
        desk.reach(2)
        hanging = desk.policy.going
        hanging.clear()
        asked = desk.policy.asked
        desk.tick(1.0)
        until(lambda: desk.policy.asked > asked)
        desk.tick(5.1)
        desk.tick(5.0)
        assert desk.now.event_totals["TARN-1012"] == 1
        assert desk.now.warnings[0].startswith("the scaling policy has no answer: the policy has")
        desk.policy.going = threading.Event()
        desk.policy.going.set()
        desk.policy.answer = Wish(3, "load")
        desk.ask(Resume())
        desk.tick(1.0)
        desk.reach(3)
        assert desk.tick().faults == ()
        hanging.set()


# The fence.


def test_a_fenced_master_posts_nothing_refuses_commands_and_acts_again_later() -> None:
    """Sixty seconds without a good word; followers are heard all the while."""
    runtime = BlockedRuntime()
    with Desk(spec(master=MasterSpec(fence_after_s=60.0)), runtime=runtime) as desk:
        desk.reach(2)
        desk.tick()
        runtime.world.fall_silent(desk.clock.now_s())
        assert not desk.tick(60.0).stale
        assert desk.tick(1.0).stale
        revision = runtime.wishes[-1].revision
        runtime.world.crash("w-0001")
        for command in (Scale(3), Adapt(), PauseScaling(1.0), Resume(), Drain("w-0002"), Down()):
            with pytest.raises(RefusedError, match="lost contact with its runtime") as refused:
                desk.ask(command)
            assert refused.value.code == "TARN-1008"
        assert desk.ask(Acknowledge(Applied("lb", Epoch(1, 1), 1, 0.0))).spec_revision == 1
        assert desk.ask(Demand("lb", 1)).message == "heard"
        assert desk.tick(30.0).ready == 2
        assert runtime.wishes[-1].revision == revision
        assert desk.now.faults[0] == "the master has lost contact with its runtime and does not act"
        assert desk.now.event_totals["TARN-1008"] == 1
        runtime.world.answer()
        assert not desk.tick().stale
        desk.reach(2)
        assert desk.ask(Scale(3)).message == "3 replicas, by hand"


def test_a_fenced_master_does_not_spin() -> None:
    """It looks once an interval, not as fast as it can."""
    with Desk() as desk:
        desk.reach(2)
        desk.runtime.world.fall_silent(desk.clock.now_s())
        assert desk.tick(61.0).stale
        before = desk.published
        assert not desk.over.wait(0.3)
        assert desk.published - before <= 3


def test_silences_after_a_fence_are_the_masters_own() -> None:
    """Whoever is silent in the first tick gets the whole time again."""
    with Desk() as desk:
        desk.reach(2)
        desk.scraper.silent = {"w-0001"}
        desk.tick(1.0)
        desk.runtime.world.fall_silent(desk.clock.now_s())
        desk.tick(300.0)
        desk.runtime.world.answer()
        assert desk.tick().ready == 2
        assert desk.tick(4.0).ready == 1


# Newer masters.


def test_a_newer_master_met_while_saving_ends_this_one_and_nothing_is_touched() -> None:
    """No wish, no withdrawal, no save; commands that wait are answered."""
    shelf = FakeShelf()
    runtime = BlockedRuntime()
    with Desk(runtime=runtime, store=FakeStateStore(shelf)) as desk:
        desk.reach(2)
        until(lambda: len(desk.discovery.registry.members) == 2)
        saves, wishes, views = shelf.saves, len(runtime.wishes), len(desk.discovery.views)
        shelf.highest = Epoch(1, 2)
        desk.send(PauseScaling(60.0))
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert desk.control.outcome is ControlResult.SUPERSEDED
        assert (shelf.saves, len(runtime.wishes), len(desk.discovery.views)) == (
            saves,
            wishes,
            views,
        )
        assert len(desk.discovery.registry.members) == 2
        assert desk.discovery.closed == []
        assert runtime.world.stopped == []


@pytest.mark.parametrize("who", ["runtime", "discovery"])
def test_a_newer_master_met_by_a_provider_ends_this_one(who: str) -> None:
    """Whoever refuses the lower epoch, this master leaves everything as it is."""
    with Desk() as desk:
        desk.reach(2)
        until(lambda: len(desk.discovery.registry.members) == 2)
        if who == "runtime":
            desk.runtime.world.claim(Epoch(1, 2))
        else:
            desk.discovery.registry.epoch = Epoch(1, 2)
        desk.send(Scale(3))
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert desk.control.outcome is ControlResult.SUPERSEDED
        assert desk.runtime.world.stopped == []
        assert len(desk.discovery.registry.members) >= 2


def test_a_newer_master_told_of_by_the_facts_ends_this_one() -> None:
    """It is no error of a tick."""
    runtime = FakeRuntime(clock=FakeClock())
    with Desk(runtime=runtime) as desk:
        desk.reach(2)

        def facts() -> tuple[Fact, ...]:
            raise Superseded("1-1", "1-2")

        runtime.facts = facts  # type: ignore[method-assign]
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert desk.control.outcome is ControlResult.SUPERSEDED


def test_a_fenced_master_hears_of_a_newer_one() -> None:
    """It posts no wish any more, so it asks the runtime itself."""
    runtime = FakeRuntime(clock=FakeClock())
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        runtime.world.fall_silent(runtime.clock.now_s() - 1_000.0)
        runtime.world.claim()
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert desk.control.outcome is ControlResult.SUPERSEDED


def test_a_runtime_that_failed_ends_the_master_and_the_fleet_stays() -> None:
    """The next master begins with what was saved."""
    runtime = FakeRuntime(clock=FakeClock())
    with Desk(runtime=runtime) as desk:
        desk.reach(2)

        def heard_s() -> float:
            raise PluginError("fake", "its thread ended")

        runtime.heard_s = heard_s  # type: ignore[method-assign]
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert desk.control.outcome is ControlResult.FAILED
        assert runtime.world.stopped == []


# Leaving.


def test_leaving_saves_the_last_state_and_touches_no_instance() -> None:
    """Even one that is younger than a second; the fleet and its entries stay."""
    with Desk() as desk:
        revision = desk.reach(2).view.revision
        until(lambda: len(desk.discovery.registry.members) == 2)
        assert desk.leave() is ControlResult.LEFT
        until(lambda: ("event", "TARN-1003") in desk.listener.heard)
        assert desk.store.shelf.kept[-1].state.view_revision == revision
        assert desk.over.is_set()
        assert desk.discovery.closed == [False]
        assert len(desk.discovery.registry.members) == 2
        assert (desk.runtime.world.finished, desk.runtime.world.stopped) == (0, [])


def test_leaving_waits_for_a_last_save_that_is_not_yet_begun() -> None:
    """The disk is slow: one save is in work, and the last one waits behind it."""
    store = FullStore()
    with Desk(store=store) as desk:
        assert store.block.begun.wait(5.0)
        close = desk.saver.close

        def close_slowly(within_s: float, *, finish: bool) -> None:
            threading.Timer(0.03, store.block.going.set).start()
            close(within_s, finish=finish)

        desk.saver.close = close_slowly  # type: ignore[method-assign]
        answer = desk.send(PauseScaling(60.0))
        desk.tick()
        desk.leave()
        assert store.shelf.kept[-1].state.pause is not None
        assert "not saved" not in answer.result(0.0).message


def test_a_command_is_confirmed_once_its_state_is_saved() -> None:
    """A master that is killed right after its answer loses nothing of it."""
    store = FullStore()
    store.block.going.set()
    with Desk(store=store) as desk:
        desk.reach(2)
        store.block.going.clear()
        answer = desk.send(Scale(3))
        until(lambda: desk.tick().desired == 3)
        assert not answer.done()
        store.block.going.set()
        assert answer.result(10.0).message == "3 replicas, by hand"
        assert store.shelf.kept[-1].state.manual == 3


def test_a_follower_waits_for_no_save() -> None:
    """Its words are not saved one by one."""
    store = FullStore()
    with Desk(store=store) as desk:
        assert store.block.begun.wait(5.0)
        assert desk.ask(Demand("lb", 1)).message
        store.block.going.set()


@pytest.mark.parametrize("fails", [False, True])
def test_a_command_that_cannot_be_saved_is_confirmed_with_a_warning(fails: bool) -> None:
    """A disk that hangs or is full stops no fleet."""
    store = FullStore()
    store.fails = fails
    if fails:
        store.block.going.set()
    with Desk(store=store) as desk:
        answer = desk.send(Scale(3))
        until(lambda: desk.tick().desired == 3)
        assert not answer.done()
        desk.tick(CONFIRM_WITHIN_S)
        assert answer.result(10.0).message == (
            "3 replicas, by hand (not saved yet: a master that starts now does not know it)"
        )
        store.block.going.set()


def test_a_command_that_waits_when_its_master_leaves_is_answered() -> None:
    """Nobody waits for a thread that has ended."""
    runtime = BlockedRuntime()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        gate = threading.Event()
        entered = threading.Event()

        def facts() -> tuple[Fact, ...]:
            entered.set()
            gate.wait(10.0)
            return FakeRuntime.facts(runtime)

        runtime.facts = facts  # type: ignore[method-assign]
        desk.wake.set()
        assert entered.wait(5.0)
        late = desk.send(Scale(3))
        desk.control.leave()
        gate.set()
        with pytest.raises(RefusedError, match="the master is leaving"):
            late.result(5.0)


def test_a_discovery_that_raises_while_it_is_closed_keeps_nobody_from_leaving() -> None:
    """The others are closed, and whoever waits for the end is told."""

    class Angry(FakeDiscovery):
        def close(self, *, withdraw: bool) -> None:
            raise OSError("socket gone")

    angry, calm = Angry(), FakeDiscovery()
    with Desk(discoveries={"angry": angry, "calm": calm}) as desk:
        desk.reach(2)
        until(lambda: calm.registry.members)
        desk.ask(Down())
        assert until(lambda: desk._woken() or desk.over.is_set())
        assert desk.control.wait(5.0)
        assert calm.registry.members == {}


# Errors of our own.


def test_a_tick_that_raises_is_counted_and_shown_and_the_loop_goes_on() -> None:
    """Commands are answered, readers see the fault, and the next tick acts again."""
    runtime = BlockedRuntime()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        runtime.broken = True
        assert desk.ask(Scale(3)).message == "3 replicas, by hand"
        assert desk.tick().faults[0].endswith("ticks raised; see the master's log")
        assert "RuntimeError: a fault of ours" in [e.message for e in desk.now.events]
        runtime.broken = False
        desk.reach(3)
        until(lambda: "TARN-1013" in heard_codes(desk))


def test_a_tick_that_raises_each_time_does_not_spin() -> None:
    """Once an interval, not as fast as the log can be written."""
    with Desk() as desk:
        desk.reach(2)
        desk.scraper.broken = "no readings"
        before = desk.clock.now_s()
        desk.clock.advance(1.0)
        desk.wake.set()
        assert not desk.over.wait(0.3)
        desk.scraper.broken = ""
        totals = desk.tick().event_totals
        assert 1 <= totals["TARN-1013"] <= 3
        assert desk.clock.now_s() > before


def test_announcements_that_are_lost_are_a_fault() -> None:
    """Plugins that are too slow are known to have missed something."""
    with Desk() as desk:
        desk.announcer.lost = 2
        assert desk.tick().faults == ("2 announcements to plugins were lost",)


# Ids, states, recovery.


def test_no_id_is_used_before_its_number_is_saved() -> None:
    """The next master must not use it for another instance."""
    store = FullStore()
    with Desk(store=store) as desk:
        assert store.block.begun.wait(5.0)
        desk.tick()
        assert [i.state for i in desk.now.instances] == [InstanceState.REQUESTED] * 2
        assert desk.runtime.world.launched == []
        store.block.going.set()
        desk.reach(2)


def test_a_disk_that_is_full_holds_no_id_back_and_is_told_once() -> None:
    """The master goes on; `status` warns with the words, `/health` without."""
    store = FakeStateStore()
    store.shelf.broken = "No space left on device: /secret/path"
    with Desk(store=store) as desk:
        desk.reach(2)
        until(lambda: desk._woken() or "the state cannot be saved" in desk.now.faults)
        assert "the state is not saved: No space left on device: /secret/path" in desk.now.warnings
        desk.tick(2.0)
        assert desk.now.event_totals["TARN-1005"] == 1
        store.shelf.broken = ""
        until(lambda: desk._woken() or not desk.now.faults)


def test_a_disk_that_hangs_is_named_and_stops_no_launch() -> None:
    """After ten seconds it counts as one that cannot be written."""
    store = FullStore()
    with Desk(store=store) as desk:
        assert store.block.begun.wait(5.0)
        assert "state has been at work for 11 s" in desk.tick(11.0).faults
        desk.reach(2)
        store.block.going.set()


def test_a_next_master_takes_over_and_plugins_hear_of_what_it_found() -> None:
    """Same instances, same size, a drain that goes on."""
    world, store = FakeWorld(), FakeStateStore()
    first = FakeRuntime(world, FakeClock(), Epoch(1, 1))
    with Desk(runtime=first, store=store) as desk:
        desk.ask(Scale(3))
        desk.reach(3)
        assert desk.leave() is ControlResult.LEFT
    second = FakeRuntime(world, FakeClock(2000.0), Epoch(1, 2))
    state, alerts = store.load()
    assert alerts == ()
    with Desk(runtime=second, store=store, state=state) as desk:
        desk.reach(3)
        assert (desk.now.manual, desk.now.desired) == (3, 3)
        assert world.launched == ["w-0001", "w-0002", "w-0003"]
        assert desk.now.view.complete
        until(lambda: ("instance", ("w-0001", "starting", "ready")) in desk.listener.heard)
        assert desk.listener.heard[:2] == [("event", "TARN-1002"), ("event", "TARN-1004")]


def test_a_late_tick_forgives_silences() -> None:
    """The process was stopped: nobody is withdrawn for it, though all seem silent."""
    with Desk(spec()) as desk:
        desk.ask(Scale(4))
        desk.reach(4)
        desk.scraper.silent = set(desk.scraper.targets)
        assert desk.tick(120.0).ready == 4
        assert all(i.silent_s == desk.clock.now_s() for i in desk.now.instances)
        desk.scraper.silent = set()
        assert desk.tick(1.0).ready == 4


def test_a_mass_silence_is_a_fault_until_it_thaws() -> None:
    """Most at once: the observer is suspect, nothing is replaced."""
    with Desk() as desk:
        desk.ask(Scale(4))
        desk.reach(4)
        desk.tick()
        desk.scraper.silent = {"w-0001", "w-0002", "w-0003"}
        assert (
            "replacements are frozen: most instances fell silent at once" in desk.tick(1.0).faults
        )
        for _ in range(12):
            desk.tick(5.0)
        assert desk.now.ready == 4
        assert desk.ask(Resume()).message == "resumed"
        until(lambda: desk._woken() or len(desk.runtime.world.launched) == 7)


def test_required_followers_that_never_came_are_a_warning() -> None:
    """After thirty seconds, once."""
    with Desk(required=frozenset({"lb"})) as desk:
        desk.reach(2)
        assert desk.now.warnings == ()
        assert desk.tick(31.0).warnings == ("follower lb never came; drains do not wait for it",)
        desk.tick(5.0)
        assert desk.now.event_totals["TARN-1302"] == 1
        desk.ask(Acknowledge(Applied("lb", Epoch(1, 1), desk.now.view.revision, 0.0)))
        assert desk.tick().warnings == ()
        lost = attrs.evolve(desk.tick(16.0)).followers[-1]
        assert (lost.name, lost.lost) == ("lb", True)


def test_a_loop_that_raises_is_said_once_and_is_not_alive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Counted, rested after, and shown by the pulse until a tick goes through again."""
    runtime = BlockedRuntime()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        assert desk.pulse.silent_s() == 0
        runtime.broken = True
        until(lambda: desk.wake.set() or desk.control._errors >= 3, what="three errors")
        desk.clock.advance(11.0)
        assert desk.pulse.silent_s() >= 11.0
        runtime.broken = False
        until(lambda: desk.wake.set() or desk.pulse.silent_s() == 0, what="a tick")
        assert desk.control._errors >= 3
        assert desk.now.event_totals["TARN-1013"] == 1
        assert "ticks raised" in " ".join(desk.now.faults)


def test_a_loop_that_hangs_is_not_alive() -> None:
    """A tick that never ends, for real: the thread stands in a call of the runtime's."""
    block = Blocked()

    class Hanging(BlockedRuntime):
        def facts(self) -> tuple[Fact, ...]:
            if self.broken:
                block.wait()
            return super(BlockedRuntime, self).facts()

    runtime = Hanging()
    with Desk(runtime=runtime) as desk:
        desk.reach(2)
        runtime.broken = True
        desk.wake.set()
        assert block.begun.wait(10.0)
        desk.clock.advance(9.0)
        assert desk.pulse.silent_s() == 0
        desk.clock.advance(2.0)
        assert desk.pulse.silent_s() >= 11.0
        runtime.broken = False
        block.going.set()
        until(lambda: desk.wake.set() or desk.pulse.silent_s() == 0, what="a tick")


def test_what_the_master_lacks_is_an_alert_and_no_instances_fault() -> None:
    """It is said in the snapshot, as a fault and an event, and ends with the lack."""
    with Desk() as desk:
        desk.reach(2)
        desk.scraper.lack = "this process has as many files open as it may"
        until(lambda: desk.tick(5.0) and "TARN-1021" in desk.codes(), what="the alert")
        now = desk.tick(100.0)
        assert now.ready == 2
        assert [issue.code for issue in now.issues] == ["TARN-1021"]
        assert "TARN-1106" not in desk.codes()
        assert "TARN-1108" not in desk.codes()
        desk.scraper.lack = ""
        until(lambda: not desk.tick(1.0).issues, what="the end of the alert")


def test_looks_that_fall_behind_are_said_once_and_with_the_interval() -> None:
    """A warning in the status, an event, and no instance suspected for it."""
    with Desk() as desk:
        desk.reach(2)
        assert desk.now.look_interval_s == 1.0
        desk.scraper.behind_s = 30.0
        until(lambda: desk.tick(1.0) and "TARN-1061" in desk.codes(), what="the warning")
        assert [issue.code for issue in desk.now.issues] == ["TARN-1061"]
        desk.scraper.behind_s = 0.0
        until(lambda: not desk.tick(1.0).issues, what="the end of the warning")
        assert desk.codes().count("TARN-1061") == 1
