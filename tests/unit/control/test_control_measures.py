"""What the control thread measures from step to step."""

from typing import cast

import attrs
from desk import FakeScraper

from tarn.control.loop import Measures
from tarn.control.scrape import Scraper
from tarn.domain import Decision, DiscoveryView, Epoch
from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.read.snapshot import SnapshotInputs, build_snapshot
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeClock

EPOCH = Epoch(1, 1)
RULES = Rules(cluster_spec("w"), "hash")
FLEET = Fleet("w", EPOCH, 1)


def measures(clock: FakeClock) -> Measures:
    return Measures(FLEET, cast("Scraper", FakeScraper(clock)), clock)


def test_each_step_counts_what_happened_since_the_last_one() -> None:
    """Once, also when a step counts nothing in between; and how long it took."""
    clock = FakeClock()
    some = measures(clock)
    began_s = clock.now_s()
    after = FLEET.decided(Decision(1.0, 2, 2, "scale", "asked"))
    some.count(after, (), began_s, late=True)
    some.count(after, (), began_s, late=False)
    clock.advance(0.02)
    some.ticked(began_s)
    assert some.tally.decisions == {("scale", "up"): 1}
    assert (some.tally.late, some.tally.ticks.count) == (1, 1)
    assert abs(some.tally.ticks.total - 0.02) < 1e-6
    assert some.tally.started_at > 0


def test_the_models_are_looked_at_once_a_second() -> None:
    """However often the thread turns."""
    clock = FakeClock()
    some = measures(clock)
    for _ in range(5):
        some.look(clock.now_s())
        clock.advance(0.5)
    assert len(some.models.looks) == 3
    assert some.models.rates("echo").requests_per_s == 1.0


def test_a_picture_shows_how_far_a_follower_is_behind_and_what_is_open_through_it() -> None:
    """Nothing open is not the same as nobody counting."""
    view = DiscoveryView(EPOCH, 3, complete=True)
    followers = {
        "lb": FollowerState(2, 4.0, sessions={"w-0001": 2, "w-0002": 5}),
        "zk": FollowerState(3, 4.0),
    }
    fleet = attrs.evolve(FLEET, view=view, followers=followers)
    some = measures(FakeClock())
    some.count(fleet, (), 10.0, late=False)
    around = SnapshotInputs(14.0, 100.0, tally=some.tally, models=some.models)
    shown = build_snapshot(fleet, RULES, around, None)
    assert [(f.behind_s, f.sessions) for f in shown.followers] == [(4.0, 7), (0.0, None)]
    assert (shown.now_s, shown.tally) == (14.0, some.tally)
