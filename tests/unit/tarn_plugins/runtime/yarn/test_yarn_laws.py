"""Laws of the ledger against a YARN that is late, doubles, rejects, loses and restarts.

One machine of commands plays a master and its YARN for hundreds of steps; the fake YARN notes what
must never happen (a second start, a shared node, an ask with two contents, an old master's act).
"""

import random
from collections import Counter

from fake_yarn import FakeYarn, names
from hand_driven_yarn import GOOD, HandDrivenMaster, spec_with
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Phase_
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tarn.domain import Ended, Pending, Running, RuntimeWish
from tarn.testing.fakes import FakeClock
from tarn_plugins.runtime.yarn.master.recovery import avoided_host, record_of
from tarn_plugins.runtime.yarn.master.slots import Phase

ODDS = {
    "completion lost": 0.2,
    "recovered late": 0.3,
    "recovered later still": 0.5,
    "stop ignored": 0.2,
    "death late": 0.3,
    "rejected": 0.2,
    "grant later": 0.2,
    "late": 0.3,
    "told twice": 0.2,
    "doubled": 0.2,
    "exchange lost": 0.1,
    "answer late": 0.1,
    "start failed": 0.1,
    "start unheard": 0.1,
    "unreachable": 0.1,
    "unprepared": 0.1,
}
FAULTS: Counter[str] = Counter()
STEPS = 150


class YarnMachine(RuleBasedStateMachine):
    """A control thread that mints ids, and everything that can go wrong below it."""

    plain = False
    spread = "node"

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.yarn = FakeYarn(6, plain=self.plain, chance=random.Random(1))
        self.yarn.odds = dict(ODDS)
        self.spec = spec_with(spread=self.spread)
        self.master = HandDrivenMaster(self.yarn, self.clock, self.spec)
        self.old: list[HandDrivenMaster] = []
        self.want: set[str] = set()
        self.stop: set[str] = set()
        self.minted = 0

    # What the control thread does.

    @precondition(lambda self: len(self.want) < 8)
    @rule(count=st.integers(1, 3))
    def grow(self, count: int) -> None:
        for _ in range(count):
            self.minted += 1
            self.want.add(f"fleet-{self.minted:04d}")
        self.post()

    @precondition(lambda self: self.want)
    @rule(pick=st.integers(0, 100))
    def shrink(self, pick: int) -> None:
        instance_id = sorted(self.want)[pick % len(self.want)]
        self.want.discard(instance_id)
        self.stop.add(instance_id)
        self.post()

    @rule()
    def post(self) -> None:
        """Say the whole truth, and drop what is told to be over, as the fleet does."""
        self.master.take(self.wish())
        for fact in self.master.facts():
            if isinstance(fact, Ended):
                self.want.discard(fact.instance_id)
                self.stop.discard(fact.instance_id)
        self.notice()
        for old in self.old:
            old.take(self.wish(old))

    def notice(self) -> None:
        """Give up what is said to run and answers no probe, as the fleet does."""
        real = self.yarn.running()
        for fact in self.master.facts():
            if isinstance(fact, Running) and fact.instance_id not in real:
                self.want.discard(fact.instance_id)
                self.stop.add(fact.instance_id)

    def wish(self, master: HandDrivenMaster | None = None) -> RuntimeWish:
        master = master or self.master
        want = frozenset((i, GOOD) for i in self.want)
        return RuntimeWish(master.epoch, 1, want, frozenset(self.stop), (master.launch,))

    # What happens.

    @rule(by_s=st.sampled_from((0.2, 1.0, 5.0)), jobs=st.integers(0, 5))
    def beat(self, by_s: float, jobs: int) -> None:
        self.master.step(by_s, jobs=jobs)
        for old in self.old:
            old.step(0.0)

    @rule(seed=st.integers(0, 2**16))
    def chance(self, seed: int) -> None:
        """Let hypothesis choose what is random."""
        self.yarn.chance.seed(seed)

    @rule()
    def crash(self) -> None:
        running = sorted(self.yarn.running().values())
        if running:
            self.yarn.end(self.yarn.chance.choice(running), 137, "")
            FAULTS["crash"] += 1

    @rule()
    def lose_a_node(self) -> None:
        alive = [n.name for n in self.yarn.nodes.values() if n.alive]
        if len(alive) > 2:
            self.yarn.kill_node(self.yarn.chance.choice(alive))
            FAULTS["node lost"] += 1

    @rule()
    def break_a_node(self) -> None:
        node = self.yarn.chance.choice(list(self.yarn.nodes.values()))
        node.breaks = True

    @rule()
    def mend_nodes(self) -> None:
        self.yarn.revive()

    @precondition(lambda self: len(self.old) < 3)
    @rule()
    def restart(self) -> None:
        """A new attempt comes while the old one still lives; the stops are posted again."""
        self.old.append(self.master)
        # One that was avoided a moment ago may not be noted yet: it would stay avoided. That is so
        # of a container without a process, too: it is not handed over, and may have no file yet.
        known = {c.grant.node for c in self.yarn.containers.values() if c.record is not None}
        known |= {r.node for r in map(record_of, names(self.yarn.files)) if r is not None}
        known |= {host for name in names(self.yarn.files) if (host := avoided_host(name))}
        self.yarn.avoided &= known
        self.master = HandDrivenMaster(self.yarn, self.clock, self.spec)
        running = {fact.instance_id for fact in self.master.recovered.running}
        self.want &= running
        self.stop |= running - self.want
        FAULTS["restart"] += 1

    # What always holds.

    @invariant()
    def never_more_than_wanted(self) -> None:
        self.take_strays()
        slots = list(self.master.ledger._slots.values())
        asked = [s for s in slots if s.phase is Phase.ASKED]
        held = [s for s in slots if s.holds]
        assert len(asked) + len(held) <= len(self.want | self.stop)
        numbers = [s.number for s in slots]
        assert len(numbers) == len(set(numbers))

    def take_strays(self) -> None:
        """Stop what a late NodeManager brought back and nobody wants, as the fleet does."""
        known = self.want | self.stop
        found = [f for f in self.master.facts() if isinstance(f, Pending | Running)]
        strays = [f for f in found if f.instance_id not in known]
        assert all(isinstance(f, Running) and f.adopted for f in strays)
        self.stop |= {f.instance_id for f in strays}

    @invariant()
    def nothing_happened_that_must_not(self) -> None:
        assert self.yarn.violations == []

    @invariant()
    def one_place_a_node(self) -> None:
        if self.spread == "node":
            nodes = [f.node for f in self.master.facts() if isinstance(f, Running)]
            assert len(nodes) == len(set(nodes))
        places = [f.endpoint.http for f in self.master.facts() if isinstance(f, Running)]
        assert len(places) == len(set(places))

    def teardown(self) -> None:
        """After the faults every wanted instance runs once, and nothing else."""
        FAULTS.update(self.yarn.faults)
        self.yarn.odds.clear()
        self.yarn.revive()
        for _ in range(400):
            self.take_strays()
            self.post()
            self.want |= {f"fleet-{self.minted + 1:04d}"} if not self.want else set()
            self.minted += 1
            self.beat(1.0, 1_000)
            if self.settled():
                break
        told = "\n".join(map(str, self.master.facts()))
        assert self.settled(), f"{self.want}\n{self.stop}\n{told}\n{self.yarn.containers}"
        assert self.yarn.violations == []
        assert {n for n in names(self.yarn.files) if "secret" in n} == set()

    def settled(self) -> bool:
        most = len(self.yarn.nodes) if self.spread == "node" else 100
        facts = {f.instance_id: f for f in self.master.facts()}
        running = {i for i, f in facts.items() if isinstance(f, Running)}
        told = {f.container_id for f in facts.values() if isinstance(f, Running)}
        real = self.yarn.running()
        return (
            not self.stop
            and facts.keys() == self.want
            and len(running) == min(len(self.want), most)
            and real.keys() == running
            and set(real.values()) == told
            and not self.yarn.surplus()
        )


class PlainMachine(YarnMachine):
    """Where YARN takes no constraints."""

    plain = True


class CrowdMachine(YarnMachine):
    """Several instances on a node."""

    spread = "none"


LAWS = settings(
    max_examples=40,
    phases=(Phase_.generate,),
    stateful_step_count=STEPS,
    derandomize=True,  # the same worlds each time: a new one is looked for with --hypothesis-seed
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
for machine in (YarnMachine, PlainMachine, CrowdMachine):
    machine.TestCase.settings = LAWS
TestScheduling = YarnMachine.TestCase
TestPlain = PlainMachine.TestCase
TestCrowd = CrowdMachine.TestCase


def test_every_fault_was_played() -> None:
    """The laws above mean something only if each fault really happened."""
    for seed in range(300):
        if FAULTS.keys() >= ODDS.keys() and min(FAULTS.values()) >= 10:
            break
        machine = YarnMachine()
        machine.chance(seed)
        for step in range(STEPS):
            acts = (machine.crash, machine.restart, machine.post, machine.lose_a_node)
            if len(machine.want) < 6:
                machine.grow(1)
            if step % 25 == 24 and len(machine.old) < 3:
                acts[(seed + step // 25) % len(acts)]()
            if step % 10 == 9 and machine.want:
                machine.shrink(step)
            machine.mend_nodes()
            machine.beat(1.0, 3)
            machine.never_more_than_wanted()
            machine.nothing_happened_that_must_not()
            machine.one_place_a_node()
        machine.teardown()
    assert FAULTS.keys() >= ODDS.keys()
    assert min(FAULTS.values()) >= 10
