"""The world of a simulated master: a runtime that grants containers, and modelled Tritons.

The world offers what a master can see: facts, readings, and the number of requests that wait for an
instance. Requests go to the instances of the view by least connections, as the load balancer sends
them: the emptiest instance is filled first. A request that finds no instance waits outside, and is
lost when its patience ends. The requests of an instance that fails or is stopped are lost, too.

The model is simple on purpose: loads are fluids (half a request can wait), every request takes the
same time, and there is no batching, no noise in the numbers, and only one kind of node.
"""

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

import attrs

from tarn.domain import (
    Ended,
    Endpoint,
    ExitStatus,
    Fact,
    Known,
    ModelState,
    Pending,
    Reading,
    Running,
    RuntimeWish,
    Unknown,
)
from tarn.domain.counters import CounterSet
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn_plugins.cli.simulate.model import Queueing, WorldModel

__all__ = ["StepResult", "World"]

_MODELS = Known((ModelState("model", "READY"),))
_LIVE = Known(True)  # noqa: FBT003 (the value of a sample)
_ABSENT = Unknown("its process has not answered yet")
_QUIET = 0.05  # fewer requests than this count as none: a fluid never ends by itself
_US = 1e6
_SAID = {"": "", "failing": "it is ill", "stalled": "no answer"}


@attrs.define(eq=False)
class _Triton:
    """One instance of the world, from its request to its end."""

    id: str
    spec_hash: str
    number: int
    granted_s: float | None = None
    serves_s: float = math.inf
    fails_s: float = math.inf
    held: float = 0.0
    utilization: float = 0.0
    wait_s: float = 0.0
    """The wait of a request that arrives at the end of the last step."""
    requests: float = 0.0
    queue_us: float = 0.0
    request_us: float = 0.0
    end: ExitStatus | None = None
    fact: Fact | None = None
    """The runtime's fact about it; None: it has changed."""
    reading: Reading | None = None
    sick: str = ""
    """``failing`` or ``stalled``; empty while it is healthy."""
    failed: float = 0.0
    tests: int = 0
    """Test requests that it got."""


@attrs.frozen
class StepResult:
    """The result of one step."""

    waits: tuple[tuple[float, float], ...]
    """(seconds waited, requests) of those that reached an instance, or gave up, in this step."""
    pending: float
    """Requests that wait at its end, also outside."""
    utilization: float
    """Mean share of busy slots of the instances in the view."""
    lost: float


class World:
    """Instances, their machines, and the requests.

    Args:
        model: The assumptions.
        running: Instances that serve from the beginning.
    """

    def __init__(self, model: WorldModel, running: Iterable[Running] = ()) -> None:
        self._model = model
        self._law = Queueing(model.slots, model.service_s, model.step_s)
        self._tritons: dict[str, _Triton] = {}
        self._outside: deque[tuple[float, float]] = deque()
        """(moment of arrival, requests) of those that found no instance."""
        a_second = math.inf if model.grants_per_second is None else model.grants_per_second
        self._grants_per_step = a_second * model.step_s
        self._grants = 0.0
        self._lost = 0.0
        # Requests of `WorldModel.clients` that are not answered yet.
        self._unanswered = 0.0
        self._misfortunes = sorted(model.fail_at_s)
        self._illnesses = sorted(model.sick_at_s)
        self._members: set[str] = set()
        """Ids of the instances in the view of the last step."""
        for fact in running:
            triton = _Triton(fact.instance_id, fact.spec_hash, _number(fact.instance_id), 0.0, 0.0)
            triton.fails_s = model.living_s(triton.number)
            triton.fact = fact
            self._tritons[triton.id] = triton

    @property
    def waiting(self) -> int:
        """Requests that wait outside for want of an instance, rounded up."""
        if not self._outside:
            return 0
        # A rounding error of the sum must not count as a request.
        return math.ceil(sum(requests for _, requests in self._outside) - 1e-9)

    # The side of the master.

    def apply_wish(self, wish: RuntimeWish) -> None:
        """Request the containers that should run, and end those that should stop."""
        named = {instance_id for instance_id, _ in wish.want} | wish.stop
        for triton in [t for t in self._tritons.values() if t.end and t.id not in named]:
            del self._tritons[triton.id]
        for instance_id in wish.stop:
            triton_ = self._tritons.get(instance_id)
            if triton_ is not None and triton_.end is None:
                self._end(triton_, ExitStatus("stopped as asked", 0, expected=True))
        for instance_id, spec_hash in sorted(wish.want):
            if instance_id not in self._tritons:
                fresh = _Triton(instance_id, spec_hash, _number(instance_id))
                self._tritons[instance_id] = fresh

    def facts(self) -> tuple[Fact, ...]:
        """Return the runtime's facts; an unchanged fact is the same object."""
        return tuple(self._fact(triton) for triton in self._tritons.values())

    def readings(
        self, now_s: float, *, fresh: bool, tested: Collection[str] = ()
    ) -> Mapping[str, Reading]:
        """Return the readings of a scrape at *now_s*.

        Args:
            now_s: The moment.
            fresh: Whether to scrape every instance; else only those that are not in the view,
                because they start or leave. The others keep their last reading.
            tested: Ids of the instances that were sent a test request.
        """
        if fresh:
            for instance_id in tested:
                self._tritons[instance_id].tests += 1
        return {
            triton.id: self._reading(triton, now_s, fresh=fresh or triton.id not in self._members)
            for triton in self._tritons.values()
            if triton.granted_s is not None and triton.end is None
        }

    # The passing of time.

    def begin_step(self, now_s: float) -> None:
        """Let instances fail, and grant containers, as is due at *now_s*."""
        self._fail(now_s)
        # unused grants are not saved up, except for the fraction of one that a short step adds
        self._grants = min(self._grants, 1.0) + self._grants_per_step
        for triton in self._tritons.values():
            if triton.granted_s is None and triton.end is None:
                self._maybe_grant(triton, now_s)

    def pass_step(self, view: Iterable[str], rate: float, now_s: float) -> StepResult:
        """Let one step pass, in which *rate* requests per second arrive for the *view*."""
        step_s = self._model.step_s
        members = [
            triton for id_ in view if (triton := self._tritons.get(id_)) and triton.end is None
        ]
        arrived = rate * step_s + self._model.clients - self._unanswered
        there = self._there() + arrived
        waits: list[tuple[float, float]] = []
        if members:
            waits += self._poured(members, arrived, now_s)
        elif arrived:
            self._outside.append((now_s, arrived))
        self._members = {triton.id for triton in members}
        for triton in self._tritons.values():
            if triton.id not in self._members and triton.held and triton.end is None:
                self._serve(triton, 0.0)
                if triton.held < _QUIET:
                    triton.held = 0.0
        waits += self._given_up(now_s + step_s)
        # Requests of clients and of the trace are answered alike.
        self._unanswered = self._model.clients * (self._there() / there) if there else 0.0
        busy = sum(triton.utilization for triton in members)
        lost, self._lost = self._lost, 0.0
        return StepResult(
            tuple(waits), self._pending(), busy / len(members) if members else 0.0, lost
        )

    def _poured(
        self, members: list[_Triton], arrived: float, now_s: float
    ) -> Iterator[tuple[float, float]]:
        came_in = list(self._outside)
        self._outside.clear()
        total = arrived + sum(requests for _, requests in came_in)
        level = _level([triton.held for triton in members], total)
        spent_s, poured = 0.0, 0.0
        for triton in members:
            share = max(0.0, level - triton.held)
            before_s = triton.wait_s
            self._serve(triton, share)
            if share and total:
                wait_s = (before_s + triton.wait_s) / 2
                spent_s, poured = spent_s + wait_s * share, poured + share
                if arrived:
                    yield wait_s, share * arrived / total
        inside_s = spent_s / poured if poured else 0.0
        for since_s, requests in came_in:
            yield now_s - since_s + inside_s, requests

    def _serve(self, triton: _Triton, arrived: float) -> None:
        held = triton.held + arrived
        if triton.sick == "failing":
            triton.failed += held
            self._lost += held
            triton.held = triton.utilization = triton.wait_s = 0.0
            return
        if triton.sick:
            triton.held, triton.utilization = held, min(1.0, held / self._model.slots)
            triton.wait_s = self._model.patience_s
            return
        before_s = triton.wait_s
        triton.held, triton.utilization = self._law.step(triton.held, arrived)
        triton.wait_s = self._law.wait_s(triton.held, triton.utilization)
        served = held - triton.held
        waited_us = served * (before_s + triton.wait_s) / 2 * _US
        triton.requests += served
        triton.queue_us += waited_us
        triton.request_us += waited_us + served * self._model.service_s * _US

    def _given_up(self, now_s: float) -> Iterator[tuple[float, float]]:
        patience_s = self._model.patience_s
        while self._outside and now_s - self._outside[0][0] >= patience_s:
            _, requests = self._outside.popleft()
            self._lost += requests
            yield patience_s, requests

    def _there(self) -> float:
        inside = sum(triton.held for triton in self._tritons.values())
        return inside + sum(requests for _, requests in self._outside)

    def _pending(self) -> float:
        inside = sum(
            triton.held - self._law.executing(triton.held, triton.utilization)
            for triton in self._tritons.values()
        )
        return inside + sum(requests for _, requests in self._outside)

    def _maybe_grant(self, triton: _Triton, now_s: float) -> None:
        held = sum(t.granted_s is not None and t.end is None for t in self._tritons.values())
        room = self._model.room
        if room is not None and held >= room:
            waits_for = f"no node has room ({held} of {room} places are used)"
            triton.fact = Pending(triton.id, triton.spec_hash, waits_for)
        elif self._grants >= 1:
            self._grants -= 1
            triton.granted_s = now_s
            triton.serves_s = now_s + self._model.starting_s(triton.number)
            triton.fails_s = triton.serves_s + self._model.living_s(triton.number)
            triton.fact = None

    def _fail(self, now_s: float) -> None:
        for triton in self._tritons.values():
            if triton.fails_s <= now_s and triton.end is None:
                self._end(triton, ExitStatus("killed by signal 9", -9))
        while self._misfortunes and self._misfortunes[0] <= now_s:
            self._misfortunes.pop(0)
            serving = [t for t in self._tritons.values() if t.serves_s <= now_s and not t.end]
            if serving:
                # By number, so that every run with the same arguments is the same.
                self._end(min(serving, key=_by_number), ExitStatus("killed by signal 9", -9))
        while self._illnesses and self._illnesses[0] <= now_s:
            self._illnesses.pop(0)
            well = [
                t for t in self._tritons.values() if t.serves_s <= now_s and not (t.end or t.sick)
            ]
            if well:
                min(well, key=_by_number).sick = self._model.sickness

    def _end(self, triton: _Triton, status: ExitStatus) -> None:
        self._lost += triton.held if triton.held >= _QUIET else 0.0
        triton.held = triton.utilization = triton.wait_s = 0.0
        triton.end, triton.fact = status, None

    def _fact(self, triton: _Triton) -> Fact:
        if triton.fact is not None:
            return triton.fact
        if triton.end is not None:
            triton.fact = Ended(triton.id, triton.spec_hash, triton.end)
        elif triton.granted_s is None:
            triton.fact = Pending(triton.id, triton.spec_hash)
        else:
            triton.fact = running(triton.id, triton.spec_hash)
        return triton.fact

    def _reading(self, triton: _Triton, now_s: float, *, fresh: bool) -> Reading:
        old = triton.reading
        if triton.serves_s > now_s:
            if old is None:
                triton.reading = Reading(triton.id, now_s, _ABSENT, models=_ABSENT)
        elif fresh or old is None:
            triton.reading = self._scraped(triton, now_s)
        assert triton.reading is not None
        return triton.reading

    def _scraped(self, triton: _Triton, now_s: float) -> Reading:
        executing = self._law.executing(triton.held, triton.utilization)
        numbers = {
            "pending": triton.held - executing,
            "executing": executing,
            "requests_total": triton.requests,
            "failures_total": triton.failed,
            "queue_us_total": triton.queue_us,
            "request_us_total": triton.request_us,
            "gpu_utilization": triton.utilization,
        }
        metrics = {name: Known(number) for name, number in numbers.items()}
        counted = CounterSet(
            triton.requests,
            triton.failed,
            compute_us=triton.request_us - triton.queue_us,
        )
        outcome = RequestCounts(counted, numbers["pending"])
        tested = None
        if triton.tests:
            said = _SAID[triton.sick]
            tested = TestResult(now_s - self._model.step_s, not said, said, triton.tests)
        return Reading(
            triton.id,
            now_s,
            _LIVE,
            models=_MODELS,
            metrics=metrics,
            outcomes={"model": outcome},
            tested=tested,
        )


def running(instance_id: str, spec_hash: str) -> Running:
    """Return the fact of a running process with invented addresses."""
    number = _number(instance_id)
    endpoint = Endpoint(f"node-{number}", 8000, 8001, 8002)
    return Running(instance_id, spec_hash, f"process-{number}", endpoint.host, endpoint)


def _number(instance_id: str) -> int:
    return int(instance_id.rpartition("-")[2])


def _by_number(triton: _Triton) -> int:
    return triton.number


def _level(heights: list[float], amount: float) -> float:
    """Return the level to which *amount* fills equal vessels that are filled to *heights*."""
    filled = sorted(heights)
    total = amount
    for count, height in enumerate(filled, start=1):
        total += height
        if count == len(filled) or total / count <= filled[count]:
            return total / count
    raise AssertionError("there is a container")
