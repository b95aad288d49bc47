"""A master's half of YARN without threads: heartbeat, pool and time are moved by hand."""

import random
from collections import deque

import attrs
from fake_yarn import LAUNCHES, FakeYarn

from tarn.domain import ClusterSpec, Epoch, Fact, Launch, Recovered, Running, RuntimeWish
from tarn.errors import NotFoundError, Superseded
from tarn.testing.context import cluster_spec, launch_of
from tarn.testing.fakes import FakeClock
from tarn_plugins.runtime.yarn.master.heartbeat import Heartbeat
from tarn_plugins.runtime.yarn.master.ledger import Ledger
from tarn_plugins.runtime.yarn.master.node_pool import ContainerOps, node_of
from tarn_plugins.runtime.yarn.master.recovery import RecoveredRecords, recover
from tarn_plugins.runtime.yarn.master.slots import Job

GOOD = "aaaaaaaaaaaa"


class HandPool:
    """Does jobs when told to: in order for a node, in any order between nodes."""

    def __init__(self, hands: ContainerOps, chance: random.Random) -> None:
        self.hands = hands
        self.chance = chance
        self.jobs: deque[Job] = deque()
        self.closed = False
        self.beat: Heartbeat | None = None

    def post(self, jobs: tuple[Job, ...]) -> None:
        assert not self.closed
        self.jobs += jobs

    def close(self) -> None:
        self.closed = True
        self.jobs.clear()

    def work(self, most: int = 1_000) -> None:
        assert self.beat is not None
        for _ in range(min(most, len(self.jobs))):
            node = self.chance.choice([node_of(job) for job in self.jobs])
            job = next(job for job in self.jobs if node_of(job) == node)
            self.jobs.remove(job)
            self.beat.told(job, self.hands.do(job, self.beat.calling))


class HandDrivenMaster:
    """One attempt's runtime."""

    def __init__(
        self,
        yarn: FakeYarn,
        clock: FakeClock,
        spec: ClusterSpec | None = None,
        attempt: int | None = None,
    ) -> None:
        self.yarn, self.clock = yarn, clock
        self.spec = spec or cluster_spec()
        self.attempt = attempt or yarn.claim()
        self.epoch = Epoch(1, self.attempt)
        self.launch = launch_of(self.spec, GOOD)
        services = yarn.services(self.attempt, GOOD)
        self.woken = 0
        self.ledger = Ledger(self.spec.placement, plain=yarn.plain)
        self.beating = Heartbeat(services.rm, self.ledger, clock, self._wake, 1.0)
        hands = ContainerOps(services.nodes, services.files, services.launcher, LAUNCHES)
        self.pool = HandPool(hands, yarn.chance)
        self.pool.beat = self.beating
        self.services = services
        self.recovered = self._start()
        self.revision = 0
        self.superseded = False

    def _wake(self) -> None:
        self.woken += 1

    def _start(self) -> Recovered:
        registered = self.services.rm.register("h", 1, "http://h:1")
        self.ledger.maximum = registered.maximum
        try:
            entries = self.services.files.listing(LAUNCHES)
        except NotFoundError:
            entries = ()
        memory, notes = RecoveredRecords.read(entry.path for entry in entries)
        found = recover(registered.recovered, memory)
        self.beating.begin(found, memory, self.pool)
        running = tuple(f for f in self.facts() if isinstance(f, Running))
        return Recovered(running, (*notes, *found.notes))

    def facts(self) -> tuple[Fact, ...]:
        return self.beating.facts()

    def fact(self, instance_id: str) -> Fact | None:
        return next((f for f in self.facts() if f.instance_id == instance_id), None)

    def take(self, wish: RuntimeWish) -> None:
        """Take a wish in, without waiting for YARN."""
        try:
            self.beating._take(wish)
        except Superseded:
            self.superseded = True

    def want(
        self,
        *ids: str,
        stop: tuple[str, ...] = (),
        launch: Launch | None = None,
        gone: tuple[str, ...] = (),
    ) -> None:
        """Wish for instances of one launch."""
        launch = launch or self.launch
        self.revision += 1
        want = frozenset((i, launch.spec_hash) for i in ids)
        wish = RuntimeWish(
            self.epoch, self.revision, want, frozenset(stop), (launch,), frozenset(gone)
        )
        self.beating._take(wish)

    def step(self, by_s: float = 1.0, *, jobs: int = 1_000) -> None:
        """Let time pass, speak with YARN once, and do jobs."""
        self.clock.advance(by_s)
        if not self.superseded:
            self.beating.beat()
        self.superseded = self.superseded or self.pool.closed
        self.pool.work(jobs)

    def steps(self, count: int, by_s: float = 1.0) -> None:
        for _ in range(count):
            self.step(by_s)


def spec_with(spec: ClusterSpec | None = None, **placement: object) -> ClusterSpec:
    """Return a spec with another placement."""
    spec = spec or cluster_spec()
    return attrs.evolve(spec, placement=attrs.evolve(spec.placement, **placement))
