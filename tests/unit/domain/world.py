"""A world for the pure core: a runtime that is late, rejects, doubles, loses and restarts."""

import random
from collections import Counter

import attrs

from tarn.domain import (
    Ended,
    Endpoint,
    Epoch,
    ExitStatus,
    Fact,
    Known,
    Launch,
    ModelState,
    Pending,
    Reading,
    Recovered,
    Running,
    RuntimeWish,
    Unknown,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import begin, saved
from tarn.domain.spec import ClusterSpec, DrainSpec, InstanceSpec, ModelsSpec, ReplicasSpec
from tarn.domain.tick import Observation, runtime_wish, tick

READY_MODEL = Known((ModelState("echo", "READY"),))


def rules(**replicas: int) -> Rules:
    spec = ClusterSpec(
        "w",
        ModelsSpec("/models"),
        replicas=ReplicasSpec(**({"min": 0, "max": 8} | replicas)),
        drain=DrainSpec(timeout_s=20.0, quiesce_s=2.0),
        instance=InstanceSpec(start_timeout_s=60.0),
    )
    return Rules(spec, "hash")


def launch_of(some: Rules) -> Launch:
    spec = some.spec
    return Launch(spec.models, spec.triton, spec.instance, "/models", some.spec_hash)


@attrs.define
class Process:
    """One instance as the world really has it."""

    id: str
    since_s: float
    granted_s: float
    serves_s: float
    busy: int = 0
    hung_until_s: float = -1.0
    dies_s: float | None = None
    stopping: bool = False
    by: int = 1
    """Attempt of the master under which it began."""
    hidden_until_s: float = -1.0
    """The runtime finds it only then."""
    leaves_s: float = float("inf")
    """Since when a notice says that its place will be taken."""


class World:
    """Obeys wishes with faults; counts each kind it played."""

    def __init__(self, seed: int, some: Rules) -> None:
        self.chance = random.Random(seed)
        self.rules = some
        self.now_s = 1000.0
        self.processes: dict[str, Process] = {}
        self.asked: dict[str, float] = {}
        self.ended: dict[str, Ended] = {}
        self.wish: RuntimeWish | None = None
        self.seen: tuple[Fact, ...] = ()
        self.faults: Counter[str] = Counter()
        self.refused = 0
        self.kind = True
        self.epoch = Epoch(1, 1)
        self.fleet: Fleet = self.master(None)
        self.minted: set[str] = set()
        self.saved = saved(self.fleet, 0.0)

    def master(self, state: object) -> Fleet:
        running = tuple(self._running(p) for p in self._found())
        return begin(
            self.epoch,
            state,  # type: ignore[arg-type]
            Recovered(running),
            self.rules,
            now_s=self.now_s,
            at=self.now_s,
        )

    def play(self, fault: str, probability: float) -> bool:
        if self.kind and self.chance.random() < probability:
            self.faults[fault] += 1
            return True
        return False

    def restart(self) -> None:
        self.epoch = Epoch(1, self.epoch.attempt + 1)
        self.asked.clear()
        before = self.fleet.view.revision
        for process in self.processes.values():
            if self.play("found late", 0.3):
                process.hidden_until_s = self.now_s + self.chance.choice((0.5, 3.0, 40.0))
        self.fleet = self.master(self.saved)
        assert self.fleet.view.revision >= before or self.fleet.view.epoch > Epoch(1, 1)
        self.wish = None

    def step(self) -> None:
        self.now_s += self.chance.choice((0.05, 0.5, 1.0, 2.0))
        self._live()
        if self.play("restart", 0.02):
            self.restart()
        if not self.play("late", 0.1):
            self.seen = self._facts()
        seen = Observation(self.now_s, self.now_s, self.seen, self._readings())
        self.fleet = tick(self.fleet, seen, self.rules)
        self.saved = saved(self.fleet, 0.0)
        self._obey(runtime_wish(self.fleet, (launch_of(self.rules),), self.fleet.next_number))

    def _obey(self, wish: RuntimeWish) -> None:
        if self.play("wish lost", 0.05):
            return
        if self.play("wish doubled", 0.05):
            self._apply(wish)
        self._apply(wish)

    def _apply(self, wish: RuntimeWish) -> None:
        self.wish = wish
        named = {id_ for id_, _ in wish.want} | wish.stop
        self.ended = {id_: e for id_, e in self.ended.items() if id_ in named}
        for id_, _ in sorted(wish.want):
            if id_ in self.processes or id_ in self.asked or id_ in self.ended:
                continue
            if self.play("rejected", 0.15):
                self.ended[id_] = Ended(id_, "hash", ExitStatus("rejected"))
            else:
                self.asked[id_] = self.now_s + self.chance.choice((0.0, 1.0, 5.0))
        for id_ in wish.stop:
            if self.asked.pop(id_, None) is not None:
                self.ended[id_] = Ended(id_, "hash", ExitStatus("cancelled", expected=True))
            elif id_ in self.processes:
                self.processes[id_].dies_s = min(
                    self.processes[id_].dies_s or float("inf"), self.now_s + 0.5
                )
                self.processes[id_].stopping = True

    def _live(self) -> None:
        for id_, granted_s in list(self.asked.items()):
            if granted_s <= self.now_s:
                del self.asked[id_]
                serves_s = self.now_s + self.chance.choice((0.0, 1.0, 4.0))
                assert id_ not in self.processes
                self.processes[id_] = Process(
                    id_, self.now_s, granted_s, serves_s, by=self.epoch.attempt
                )
        for process in list(self.processes.values()):
            self._suffer(process)
        if self.play("doubled", 0.03):
            self._double()

    def _suffer(self, process: Process) -> None:
        process.busy = self.chance.choice((0, 0, 1, 3)) if self.kind else 0
        if self.play("crash", 0.02):
            process.dies_s = self.now_s
        if self.play("leaving", 0.01):
            process.leaves_s = self.now_s
        elif self.chance.random() < 0.1 or not self.kind:
            process.leaves_s = float("inf")  # the notice is taken back
        if self.play("hang", 0.005):
            process.hung_until_s = self.now_s + self.chance.choice((2.0, 10.0, 60.0))
        if process.dies_s is None or process.dies_s > self.now_s:
            return
        del self.processes[process.id]
        if not self.play("completion lost", 0.4):
            status = ExitStatus("gone", 1, expected=process.stopping)
            self.ended[process.id] = Ended(process.id, "hash", status)

    def _double(self) -> None:
        """Let something run that was given up long ago."""
        stray = f"w-{self.chance.randrange(1, max(2, self.fleet.next_number)):04d}"
        alive = {i.id for i in self.fleet.instances}
        if stray not in self.processes and stray not in alive and stray not in self.asked:
            self.processes[stray] = Process(
                stray, self.now_s, self.now_s, self.now_s, by=self.epoch.attempt
            )

    def _found(self) -> list[Process]:
        return [p for p in self.processes.values() if p.hidden_until_s <= self.now_s]

    def _running(self, process: Process) -> Running:
        port = int(process.id.rpartition("-")[2]) * 3
        endpoint = Endpoint("h", port, port + 1, port + 2)
        return Running(
            process.id,
            "hash",
            f"c{process.id}",
            "h",
            endpoint,
            adopted=process.by < self.epoch.attempt,
            leaving="preempted" if process.leaves_s <= self.now_s else "",
        )

    def _facts(self) -> tuple[Fact, ...]:
        facts: list[Fact] = [Pending(id_, "hash") for id_ in self.asked]
        facts += [self._running(p) for p in self._found()]
        facts += [e for id_, e in self.ended.items() if id_ not in self.processes]
        return tuple(facts)

    def _readings(self) -> dict[str, Reading]:
        return {p.id: self._reading(p) for p in self._found()}

    def _reading(self, process: Process) -> Reading:
        if process.hung_until_s > self.now_s:
            return Reading(process.id, self.now_s, Unknown("no answer for 2 s"))
        if process.serves_s > self.now_s:
            return Reading(process.id, self.now_s, gone="connection refused")
        metrics = {"pending": Known(float(process.busy)), "executing": Known(0.0)}
        return Reading(process.id, self.now_s, Known(value=True), "", READY_MODEL, metrics=metrics)
