"""One master's half of a YARN in memory, moved by hand: no thread, no time that passes."""

from fake_yarn import LAUNCHES, FakeYarn
from tarn_plugins.runtime.yarn.ledger import Ledger
from tarn_plugins.runtime.yarn.node_pool import Hands
from tarn_plugins.runtime.yarn.slots import Start, Stop

from tarn.domain import ClusterSpec, Epoch, Fact, Launch, RuntimeWish
from tarn.testing.context import cluster_spec, launch_of

__all__ = ["Master"]


class Master:
    """Asks for instances ``fleet-0001`` and so on."""

    def __init__(self, yarn: FakeYarn, spec: ClusterSpec | None = None) -> None:
        self.yarn, spec = yarn, spec or cluster_spec()
        self.launch: Launch = launch_of(spec)
        doors = yarn.doors(yarn.claim())
        doors.rm.register("h", 1, "http://h:1")
        self.rm = doors.rm
        self.hands = Hands(doors.nodes, doors.files, doors.launcher, LAUNCHES)
        self.ledger = Ledger(spec.placement, plain=yarn.plain)
        self.now_s = 0.0
        self.revision = 0
        self.started: list[str] = []
        """Container ids of processes whose start was tried."""

    def want(self, *numbers: int, stop: frozenset[str] = frozenset()) -> None:
        """Wish for these instances."""
        self.revision += 1
        want = frozenset((f"fleet-{n:04d}", self.launch.spec_hash) for n in numbers)
        wish = RuntimeWish(Epoch(1, 1), self.revision, want, stop, (self.launch,))
        self.ledger.wish(wish, self.now_s)

    def step(self) -> None:
        """Let a second pass: one heartbeat, then every job."""
        self.now_s += 1.0
        said = self.ledger.say(self.now_s)
        self.ledger.heard(said, self.rm.exchange(said), self.now_s, self.now_s)
        for job in self.ledger.jobs():
            failed = self.hands.do(job)
            if isinstance(job, Start):
                self.started.append(job.grant.container_id)
                self._started(job.grant.container_id, None if failed is None else failed.error)
            elif isinstance(job, Stop) and failed is not None:
                self.ledger.stop_failed(job.grant.container_id, self.now_s)

    def _started(self, container_id: str, error: Exception | None) -> None:
        if error is None:
            self.ledger.started(container_id, self.now_s)
        else:
            self.ledger.start_failed(container_id, error, self.now_s, at_node=True)

    def facts(self) -> dict[str, Fact]:
        """Return what is known, by instance id."""
        return {fact.instance_id: fact for fact in self.ledger.facts(self.now_s)}
