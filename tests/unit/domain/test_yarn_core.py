"""The core's laws once more, with the YARN runtime over a fake YARN in the world's place."""

import random
from collections import Counter

from fake_yarn import FakeYarn
from hand_driven_yarn import HandDrivenMaster
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_tick_properties import check_invariant, command, settle
from world import Process, World, launch_of, rules

from tarn.domain import Fact, InstanceState, Reading, RuntimeWish
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import begin
from tarn.domain.plan import Plan, plan
from tarn.testing.fakes import FakeClock

STEPS = 200
FAULTS: Counter[str] = Counter()
ODDS = {
    "completion lost": 0.3,
    "recovered late": 0.3,
    "recovered later still": 0.3,
    "stop ignored": 0.1,
    "death late": 0.3,
    "rejected": 0.15,
    "grant later": 0.2,
    "late": 0.2,
    "told twice": 0.1,
    "doubled": 0.1,
    "exchange lost": 0.05,
    "answer late": 0.05,
    "start failed": 0.05,
    "start unheard": 0.02,
    "unreachable": 0.05,
}
OURS = ("restart", "wish lost", "wish doubled", "crash", "hang", "leaving", "node lost")
NODES = 16
"""Twice as many as instances: half of the nodes may be avoided, and draining ones hold theirs."""


class YarnWorld(World):
    """Processes are containers of a fake YARN; every master has a YARN runtime of its own."""

    def __init__(self, seed: int, some: Rules) -> None:
        self.clock = FakeClock(1000.0, 1000.0)
        self.yarn = FakeYarn(NODES, chance=random.Random(seed ^ 1))
        self.yarn.odds = dict(ODDS)
        self.old: list[HandDrivenMaster] = []
        super().__init__(seed, some)

    def master(self, state: object) -> Fleet:
        self.runtime = HandDrivenMaster(self.yarn, self.clock, self.rules.spec)
        self.runtime.launch = launch_of(self.rules)
        return begin(
            self.epoch,
            state,  # type: ignore[arg-type]
            self.runtime.recovered,
            self.rules,
            now_s=self.now_s,
            at=self.now_s,
        )

    def restart(self) -> None:
        self.old.append(self.runtime)
        super().restart()
        self.seen = ()  # a new process knows no facts of the old one's

    def _apply(self, wish: RuntimeWish) -> None:
        self.wish = wish
        self.runtime.take(wish)
        for old in self.old[-2:]:
            old.take(wish)

    def _facts(self) -> tuple[Fact, ...]:
        return self.runtime.facts()

    def _readings(self) -> dict[str, Reading]:
        """Nothing listens where a container ended unheard, and a probe finds that."""
        dead = [i.id for i in self.fleet.instances if i.endpoint and i.id not in self.processes]
        gone = {id_: Reading(id_, self.now_s, gone="connection refused") for id_ in dead}
        return gone | super()._readings()

    def _live(self) -> None:
        self.clock.advance(max(0.0, self.now_s - self.clock.now_s()))
        self._strike()
        for old in self.old[-2:]:
            old.step(0.0)
        self.runtime.step(0.0, jobs=self.chance.choice((1, 2, 100)) if self.kind else 100)
        running = self.yarn.running()
        for id_ in [i for i in self.processes if i not in running]:
            del self.processes[id_]
        for id_ in running:
            if id_ not in self.processes:
                serves_s = self.now_s + self.chance.choice((0.0, 1.0, 4.0))
                self.processes[id_] = Process(id_, self.now_s, self.now_s, serves_s)

    def _strike(self) -> None:
        if not self.kind:
            self.yarn.odds.clear()
            self.yarn.revive()
        for id_, container_id in self.yarn.running().items():
            process = self.processes.get(id_)
            if self.play("crash", 0.02):
                self.yarn.end(container_id, 137)
            elif self.play("leaving", 0.01):
                self.yarn.leaving[container_id] = "preempted in 30 s"
            elif process is not None and self.play("hang", 0.005):
                process.hung_until_s = self.now_s + self.chance.choice((2.0, 10.0, 60.0))
        if self.play("node lost", 0.01):
            self.yarn.kill_node(self.chance.choice(list(self.yarn.nodes)))
        if self.play("nodes back", 0.02):
            self.yarn.revive()


@settings(
    max_examples=50,
    phases=(Phase.generate,),
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_any_start_over_yarn_settles(seed: int) -> None:
    """After any 200 steps of faults a kind YARN runs the desired size, each exactly once."""
    world = YarnWorld(seed, rules(initial=3, max=8))
    for _ in range(STEPS):
        if world.chance.random() < 0.05:
            command(world)
        world.step()
        check_invariant(world)
        assert world.yarn.violations == []
    settle(world)
    assert plan(world.fleet, world.rules, world.now_s) == Plan()
    assert [i.state for i in world.fleet.instances] == [InstanceState.READY] * world.fleet.desired
    assert set(world.yarn.running()) == {i.id for i in world.fleet.instances}
    world.step()
    assert world.yarn.surplus() == []
    assert world.yarn.violations == []
    FAULTS.update(world.faults + world.yarn.faults)


def test_every_fault_of_yarn_was_played() -> None:
    """The law above means something only if each fault really happened."""
    for seed in range(200):
        if all(FAULTS[fault] >= 20 for fault in (*ODDS, *OURS)):
            break
        world = YarnWorld(seed, rules(initial=5, max=8))
        for _ in range(STEPS):
            world.step()
            check_invariant(world)
        FAULTS.update(world.faults + world.yarn.faults)
    assert [fault for fault in (*ODDS, *OURS) if FAULTS[fault] < 20] == []
