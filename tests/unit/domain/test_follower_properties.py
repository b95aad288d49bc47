"""The law that no request is lost: nothing is stopped while a follower may still send to it."""

import attrs
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from world import World, rules

from tarn.domain import Acknowledge, Applied, Drain, Epoch, Instance, Scale
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Rules
from tarn.errors import TarnError

STEPS = 150
LEASE_S = 15.0


def held() -> Rules:
    return attrs.evolve(rules(initial=3, max=8), required=frozenset({"lb"}))


class Follower:
    """A load balancer that is late, and obeys views as it must."""

    def __init__(self) -> None:
        self.table: set[str] = set()
        self.sessions: dict[str, int] = {}
        self.said: dict[str, int] = {}
        self.applied = (Epoch(0, 0), -1)

    def read(self, world: World) -> None:
        """Obey the newest view: an incomplete one adds and removes nothing."""
        view = world.fleet.view
        if (view.epoch, view.revision) <= self.applied:
            return
        members = {m.instance_id for m in view.members}
        self.table = members if view.complete else self.table | members
        self.applied = (view.epoch, view.revision)

    def carry(self, world: World) -> None:
        """Open sessions where it may, and let some of those that are open end."""
        for id_ in sorted(self.table):
            self.sessions[id_] = self.sessions.get(id_, 0) + world.chance.choice((0, 0, 1))
        for id_, count in self.sessions.items():
            self.sessions[id_] = max(0, count - world.chance.choice((0, 1, 2)))

    def acknowledge(self, world: World) -> None:
        epoch, revision = self.applied
        self.said = dict(self.sessions)
        sessions = tuple(self.said.items())
        applied = Applied("lb", epoch, revision, world.now_s, sessions=sessions)
        word = Acknowledge(applied, LEASE_S)
        world.fleet, _ = apply_command(
            world.fleet, word, world.rules, now_s=world.now_s, at=world.now_s
        )


def command(world: World) -> None:
    """Let a person resize or drain at random."""
    some = world.chance.choice(world.fleet.instances or (None,))
    ask = Scale(world.chance.randrange(0, 6))
    try:
        what = Drain(some.id) if some and world.chance.random() < 0.3 else ask
        world.fleet, _ = apply_command(
            world.fleet, what, world.rules, now_s=world.now_s, at=world.now_s
        )
    except TarnError:
        world.refused += 1


def held_open(world: World, lb: Follower, stopped: Instance) -> bool:
    """Say whether its stop cuts what the follower, alive, said to have open before the limit."""
    heard = world.fleet.followers.get("lb")
    if heard is None:  # it first came after what this master knows of was saved
        return False
    mortal = stopped.condemned or stopped.gone or stopped.untouched
    over = world.now_s - stopped.since_s >= world.rules.spec.drain.timeout_s
    return bool(lb.said.get(stopped.id)) and not (heard.lost or mortal or over)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
@example(seed=1748)  # found late, with sessions that were told before
def test_nothing_is_stopped_while_a_living_follower_may_send_to_it(seed: int) -> None:
    """Through restarts of the master, late views and lost words; strays were never in a view.

    Nor while its last word counts sessions there, until the limit of the drain.
    """
    world = World(seed, held())
    lb = Follower()
    lb.read(world)
    lb.acknowledge(world)
    posted: set[str] = set()
    for _ in range(STEPS):
        if world.chance.random() < 0.1:
            command(world)
        world.step()
        stops = {i.id: i for i in world.fleet.instances if i.stop_posted}
        for id_ in stops.keys() - posted:
            stray = stops[id_].reason.startswith("it runs although")
            heard = world.fleet.followers.get("lb")
            assert stray or id_ not in lb.table or heard is None or heard.lost
            assert not held_open(world, lb, stops[id_])
        posted = set(stops)
        if world.chance.random() < 0.5:
            lb.read(world)
        lb.carry(world)
        if world.chance.random() < 0.8:
            lb.acknowledge(world)
