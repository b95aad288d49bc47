"""The law that no request is cut before the limit, however long it executes unseen."""

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import Process, World, rules

from tarn.domain import Drain, Instance, Known, ModelState, Reading, Scale, Unknown
from tarn.domain.apply_command import apply_command
from tarn.domain.spec import ModelsSpec
from tarn.errors import TarnError

STEPS = 150
LEAVING = Known((ModelState("echo", "UNLOADING"),))
EMPTY = Known((ModelState("echo", "UNAVAILABLE", "unloaded"),))


class Unseen(World):
    """Requests that no estimate sees, models that unload when the last one ended, and refusals."""

    def __init__(self, seed: int) -> None:
        by = rules(initial=3, max=8)
        spec = attrs.evolve(by.spec, models=ModelsSpec("/models", control="explicit"))
        super().__init__(seed, attrs.evolve(by, spec=spec))
        self.until_s: dict[str, float] = {}
        self.asked_to: set[str] = set()
        self.refusing: set[str] = set()

    def serve(self) -> None:
        """Begin requests where some may be sent; some last longer than any drain."""
        for member in self.fleet.view.members:
            if self.chance.random() < 0.2:
                lasts_s = self.chance.choice((0.5, 5.0, 15.0, 60.0))
                ends_s = self.now_s + lasts_s
                before_s = self.until_s.get(member.instance_id, 0.0)
                self.until_s[member.instance_id] = max(before_s, ends_s)
        for instance in self.fleet.instances:
            if instance.unloading and instance.id not in self.asked_to:
                self.asked_to.add(instance.id)
                if self.chance.random() < 0.2:
                    self.refusing.add(instance.id)

    def executes(self, id_: str) -> bool:
        return self.until_s.get(id_, 0.0) > self.now_s

    def _reading(self, process: Process) -> Reading:
        reading = super()._reading(process)
        if process.id not in self.asked_to or isinstance(reading.live, Unknown):
            return reading
        if process.id in self.refusing:
            return attrs.evolve(reading, unloaded=Unknown("refused"))
        left = self.executes(process.id)
        models = LEAVING if left else EMPTY
        return attrs.evolve(reading, models=models, unloaded=Known(not left))


def command(world: World) -> None:
    """Let a person resize or drain at random."""
    some = world.chance.choice(world.fleet.instances or (None,))
    drain = Drain(some.id) if some and world.chance.random() < 0.3 else None
    what = drain or Scale(world.chance.randrange(0, 6))
    try:
        world.fleet, _ = apply_command(
            world.fleet, what, world.rules, now_s=world.now_s, at=world.now_s
        )
    except TarnError:
        world.refused += 1


def may_cut(world: Unseen, stopped: Instance) -> bool:
    """Say whether its stop may cut what executes: broken, past the limit, or not provable."""
    mortal = stopped.condemned or stopped.gone or stopped.untouched
    over = world.now_s - stopped.since_s >= world.rules.spec.drain.timeout_s
    return mortal or over or stopped.id in world.refusing


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_nothing_is_stopped_while_it_executes_what_no_estimate_sees(seed: int) -> None:
    """Through restarts of the master, late words and refusals; and who was emptied never serves."""
    world = Unseen(seed)
    posted: set[str] = set()
    proven = 0
    for _ in range(STEPS):
        if world.chance.random() < 0.15:
            command(world)
        world.step()
        stops = {i.id: i for i in world.fleet.instances if i.stop_posted}
        for id_ in stops.keys() - posted:
            assert not world.executes(id_) or may_cut(world, stops[id_])
            proven += bool(stops[id_].drain and stops[id_].drain.proven)
        posted = set(stops)
        world.serve()
        served = {m.instance_id for m in world.fleet.view.members}
        # one that refused and is found late is taken for one that never left: it serves as before
        assert not (world.asked_to - world.refusing) & served
    PROVEN.append(proven)


PROVEN: list[int] = []


def test_the_law_met_proofs() -> None:
    """It means something only where Triton did prove."""
    assert not PROVEN or sum(PROVEN) > 0
