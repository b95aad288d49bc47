"""Laws of control calls, against a world whose Tritons refuse, come, go and outlive masters."""

from collections import Counter

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_tick_properties import settle
from world import Process, World, rules

from tarn.domain import CallKind, ControlRequest, Ended, ExitStatus, InstanceState, Reading
from tarn.domain.apply_command import apply_command
from tarn.domain.command import Scale
from tarn.domain.control_calls import MOST_ATTEMPTS, CallProgress, ControlCall, next_call
from tarn.domain.fleet import Rules
from tarn.domain.spec import ModelsSpec
from tarn.errors import TarnError

STEPS = 120
SEEDS = st.integers(0, 2**32)
LAWS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
MODELS = ("echo", "second", "third")


def explicit() -> Rules:
    some = rules(initial=3, max=6)
    models = ModelsSpec("/models", control="explicit")
    return attrs.evolve(some, spec=attrs.evolve(some.spec, models=models))


class ControlWorld(World):
    """Each process takes calls as a Triton does; the probes are those of the present master."""

    def __init__(self, seed: int) -> None:
        self.done: dict[tuple[str, float], list[int]] = {}
        self.refusals: Counter[tuple[str, int, int]] = Counter()
        self.probes: dict[str, CallProgress] = {}
        self.viewed: set[str] = set()
        self.started: set[str] = set()
        self.bad = {model for place, model in enumerate(MODELS[1:]) if seed >> place & 1}
        super().__init__(seed, explicit())

    def restart(self) -> None:
        self.probes.clear()
        super().restart()

    def _live(self) -> None:
        """No runtime starts an instance twice."""
        for id_ in self.started & self.asked.keys():
            del self.asked[id_]
            self.ended[id_] = Ended(id_, "hash", ExitStatus("gone", 1))
        super()._live()
        self.started |= self.processes.keys()

    def _double(self) -> None:
        """Nothing: what was given up and runs all the same is no more known here."""

    def refuses(self, process: Process, call: ControlCall) -> bool:
        """Some models nobody loads, some only the odd ones do; anything may fail now and then."""
        if call.kind is not CallKind.LOAD:
            return False
        odd = int(process.id[-4:]) % 2 == 1
        always = call.model in self.bad and (call.number % 3 == 0 or (call.number % 3 == 1 and odd))
        return always or self.play("refused for now", 0.1)

    def _reading(self, process: Process) -> Reading:
        reading = super()._reading(process)
        instance = next((i for i in self.fleet.instances if i.id == process.id), None)
        if instance is None:
            return reading
        progress = self.probes.setdefault(process.id, instance.calls)
        away = process.hung_until_s > self.now_s or process.serves_s > self.now_s
        if not away and instance.state in (InstanceState.STARTING, InstanceState.READY):
            progress = self.probes[process.id] = self._sent(process, progress)
        return attrs.evolve(reading, calls=progress)

    def _sent(self, process: Process, progress: CallProgress) -> CallProgress:
        wanted = self.fleet.control
        progress = progress.pruned(wanted)
        call, _ = next_call(wanted, progress, self.now_s)
        if call is None or self.play("slow", 0.3):
            return progress
        if self.refuses(process, call):
            self.refusals[process.id, call.number, self.epoch.attempt] += 1
            return progress.said_no(call.number, "no", self.now_s, wanted)
        self.done.setdefault((process.id, process.since_s), []).append(call.number)
        return progress.did(call.number, wanted)

    def step(self) -> None:
        super().step()
        self.check()

    def check(self) -> None:
        """Who enters the view for the first time lacks nothing that it could have."""
        control = self.fleet.control
        for instance in self.fleet.instances:
            if not instance.in_view or instance.id in self.viewed:
                continue
            self.viewed.add(instance.id)
            if not instance.adopted:
                assert [c.number for c in instance.calls.pending(control)] == []

    def person(self) -> None:
        """Ask for something at random."""
        kind = self.chance.choice((CallKind.LOAD, CallKind.LOAD, CallKind.UNLOAD, CallKind.LOG))
        model = "" if kind is CallKind.LOG else self.chance.choice(MODELS)
        body = '{"log_info": true}' if kind is CallKind.LOG else "{}"
        some = self.chance.choice(
            (ControlRequest(kind, model, body), Scale(self.chance.randrange(0, 7)))
        )
        try:
            self.fleet, _ = apply_command(
                self.fleet, some, self.rules, now_s=self.now_s, at=self.now_s
            )
        except TarnError:
            self.refused += 1


def played(seed: int) -> ControlWorld:
    world = ControlWorld(seed)
    for _ in range(STEPS):
        if world.chance.random() < 0.1:
            world.person()
        world.step()
    settle(world)
    for _ in range(60):
        world.step()
    return world


@LAWS
@given(seed=SEEDS)
def test_everybody_who_serves_has_the_newest_calls_or_refuses_them(seed: int) -> None:
    """Whatever comes and goes, each call reaches an instance once, and none is sent for ever."""
    world = played(seed)
    control, ready = world.fleet.control, world.fleet.of(InstanceState.READY)
    assert not (control.unsettled and ready)
    for call in control.calls:
        assert all(not set(i.calls.pending(control)) for i in ready)
        for instance in ready:
            done = world.done.get((instance.id, world.processes[instance.id].since_s), [])
            assert instance.calls.has(call.number) == (call.number in done)
    assert all(len(done) == len(set(done)) for done in world.done.values())
    assert all(count <= MOST_ATTEMPTS for count in world.refusals.values())


def test_the_world_is_hard() -> None:
    """Each fault is played, or the law above says little."""
    faults: Counter[str] = Counter()
    for seed in range(10):
        faults.update(played(seed).faults)
    assert {"restart", "crash", "refused for now", "slow", "found late"} <= faults.keys()
