"""One runtime at work, for the promises of `runtime`."""

from collections import Counter

import attrs

from tarn.domain import (
    Ended,
    Epoch,
    Launch,
    Pending,
    Recovered,
    Running,
    RuntimeWish,
    StubEnded,
)
from tarn.errors import Superseded
from tarn.interfaces import LogTail, Runtime
from tarn.testing.wait import until, within

__all__ = ["BROKEN", "FIRST", "GOOD", "WORK_WITHIN_S", "RuntimeSession"]

WORK_WITHIN_S = 60.0
API_URL = "http://127.0.0.1:1"
GOOD, BROKEN = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
FIRST = "fleet-0001"


@attrs.define
class RuntimeSession:
    """One runtime at work, driven as its worker would."""

    runtime: Runtime
    epoch: Epoch
    launches: tuple[Launch, ...]
    within_s: float
    answer_within_s: float
    revision: int = 0
    recovered: Recovered = attrs.field(factory=Recovered)

    def start(self) -> None:
        """Start the runtime, once."""
        self.recovered = self.runtime.start(API_URL)

    def close(self) -> None:
        """Close the runtime; a second is enough."""
        within(self.answer_within_s, self.runtime.close, "close")

    def want(
        self,
        *good: str,
        broken: tuple[str, ...] = (),
        stop: set[str] | frozenset[str] = frozenset(),
    ) -> None:
        """Apply the next wish."""
        self.revision += 1
        want = {(i, GOOD) for i in good} | {(i, BROKEN) for i in broken}
        wish = RuntimeWish(
            self.epoch, self.revision, frozenset(want), frozenset(stop), self.launches
        )
        within(WORK_WITHIN_S, lambda: self.runtime.apply(wish), "apply")

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the end of a log, read in time."""
        found = within(
            WORK_WITHIN_S, lambda: self.runtime.log(instance_id, lines), f"log of {instance_id!r}"
        )
        assert isinstance(found, LogTail)
        assert len(found.lines) <= lines
        return found

    def all_facts(self) -> dict[str, Pending | Running | Ended]:
        """Return the facts by id, read in time, one for each."""
        return self._read()[0]

    def stub_ended(self, instance_id: str) -> StubEnded | None:
        """Return what is said of its Python models' processes now."""
        return self._read()[1].get(instance_id)

    def _read(self) -> tuple[dict[str, Pending | Running | Ended], dict[str, StubEnded]]:
        facts = within(self.answer_within_s, self.runtime.facts, "facts")
        assert isinstance(facts, tuple)
        assert all(isinstance(fact, Pending | Running | Ended | StubEnded) for fact in facts)
        counts = Counter((isinstance(f, StubEnded), f.instance_id) for f in facts)
        assert not [i for i, count in counts.items() if count > 1], "more than one fact for an id"
        lives = {fact.instance_id: fact for fact in facts if not isinstance(fact, StubEnded)}
        stubs = {fact.instance_id: fact for fact in facts if isinstance(fact, StubEnded)}
        for instance_id, stub in stubs.items():
            assert isinstance(lives.get(instance_id), Running), (
                f"{stub} of an instance that does not run"
            )
            assert stub.said.strip()
        return lives, stubs

    def fact(self, instance_id: str) -> Pending | Running | Ended | None:
        """Return what is said of one id now."""
        return self.all_facts().get(instance_id)

    def running(self, instance_id: str) -> Running:
        """Wait until it runs."""

        def ask() -> Running | None:
            fact = self.fact(instance_id)
            assert not isinstance(fact, Ended), fact
            return fact if isinstance(fact, Running) else None

        found = until(ask, self.within_s, f"{instance_id} running")
        assert found is not None
        return found

    def ended(
        self,
        instance_id: str,
        *,
        want: tuple[str, ...] = (),
        broken: tuple[str, ...] = (),
        stop: set[str] | frozenset[str] = frozenset(),
    ) -> Ended:
        """Repeat a wish that names it, until its end is told."""

        def ask() -> Ended | None:
            self.want(*want, broken=broken, stop=stop)
            fact = self.fact(instance_id)
            return fact if isinstance(fact, Ended) else None

        found = until(ask, self.within_s, f"the end of {instance_id}")
        assert found is not None
        return found

    def settled(self, instance_id: str, stop: set[str]) -> bool:
        """Repeat the stop; say whether the id neither asks nor runs."""
        self.want(stop=stop)
        return not isinstance(self.fact(instance_id), Pending | Running)

    def unnamed(self, instance_id: str) -> bool:
        """Repeat a wish that names nothing; say whether the id is forgotten."""
        self.want()
        return self.fact(instance_id) is None

    def hears_of_its_successor(self) -> bool:
        """Ask for the last answer, and repeat a wish; say whether either was superseded."""
        try:
            self.runtime.heard_s()
            self.want(FIRST)
        except Superseded:
            return True
        return False

    def heard_after(self, moment_s: float) -> bool:
        """Repeat the last wish, and say whether a later word was heard."""
        self.want(FIRST)
        return self.runtime.heard_s() > moment_s
