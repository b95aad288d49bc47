"""The contract of a runtime: wishes and facts each describe the whole state."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.domain import (
    ClusterSpec,
    Ended,
    Epoch,
    Issue,
    Launch,
    Pending,
    Recovered,
    Running,
    RuntimeWish,
    StubEnded,
)
from tarn.errors import NotFoundError, Superseded
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import LogTail, Runtime
from tarn.testing.context import cluster_spec, launch_of, master_context
from tarn.testing.wait import until, within

__all__ = ["RuntimeContract"]

WORK_WITHIN_S = 60.0
API_URL = "http://127.0.0.1:1"
GOOD, BROKEN = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
FIRST = "fleet-0001"


@attrs.define
class RuntimeSession:
    """One started runtime, driven like a master's worker does."""

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
        """Close the runtime within `answer_within_s`."""
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
        """Return the end of a log within the deadline."""
        found = within(
            WORK_WITHIN_S, lambda: self.runtime.log(instance_id, lines), f"log of {instance_id!r}"
        )
        assert isinstance(found, LogTail)
        assert len(found.lines) <= lines
        return found

    def all_facts(self) -> dict[str, Pending | Running | Ended]:
        """Return the facts by id, at most one for each, within the deadline."""
        return self._read()[0]

    def stub_ended(self, instance_id: str) -> StubEnded | None:
        """Return the present fact about an ended process of its Python models."""
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
        """Return the present fact about one id."""
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
        """Repeat a wish that names it until a fact reports its end."""

        def ask() -> Ended | None:
            self.want(*want, broken=broken, stop=stop)
            fact = self.fact(instance_id)
            return fact if isinstance(fact, Ended) else None

        found = until(ask, self.within_s, f"the end of {instance_id}")
        assert found is not None
        return found

    def settled(self, instance_id: str, stop: set[str]) -> bool:
        """Repeat the stop; return whether the id is neither pending nor running."""
        self.want(stop=stop)
        return not isinstance(self.fact(instance_id), Pending | Running)

    def unnamed(self, instance_id: str) -> bool:
        """Repeat a wish that names nothing; return whether the id has no fact."""
        self.want()
        return self.fact(instance_id) is None

    def hears_of_its_successor(self) -> bool:
        """Call `heard_s` and repeat a wish; return whether either raised `Superseded`."""
        try:
            self.runtime.heard_s()
            self.want(FIRST)
        except Superseded:
            return True
        return False

    def heard_after(self, moment_s: float) -> bool:
        """Repeat the last wish; return whether a later answer was heard."""
        self.want(FIRST)
        return self.runtime.heard_s() > moment_s


_A, _B, _C = FIRST, "fleet-0002", "fleet-0003"
_ODD = ("", ".", "..", "../state", "/etc", "fleet-0001/..", "fleet-0001\n", "fleet-9999", "\0")


class RuntimeContract:
    """Set `factory` and `settings`; override `spec` and `broken_launch` for real servers."""

    factory: RuntimeFactory
    settings: Mapping[str, Any] = {}
    within_s: float = 30.0
    """Seconds that the runtime may take to carry out a wish."""
    answer_within_s: float = 1.0
    """Seconds that a call which never blocks may take on a busy machine, and `close` on any."""

    def spec(self, tmp_path: Path) -> ClusterSpec:
        """Return the spec of the cluster, whose instances start."""
        return cluster_spec(repository=str(tmp_path))

    def broken_launch(self, tmp_path: Path) -> Launch:
        """Return a launch that ends at its start; its spec hash is ``bbbbbbbbbbbb``."""
        return launch_of(self.spec(tmp_path), BROKEN)

    def end_stub(self, runtime: Runtime, running: Running) -> bool:
        """End a process of a Python model; return False if the runtime does not watch them."""
        return False

    def start_stub(self, runtime: Runtime, running: Running) -> None:
        """Make the instance load the model of `end_stub` again."""

    def make(self, tmp_path: Path) -> tuple[Runtime, Epoch]:
        """Return the runtime of a new master of the cluster, and the epoch that it claimed."""
        made = self.factory.settings(**self.settings)
        context = master_context(tmp_path, spec=self.spec(tmp_path))
        epoch = self.factory.epoch(made, context.directory, context.environ)
        return self.factory.runtime(made, attrs.evolve(context, epoch=epoch)), epoch

    def test_starts_with_nothing(self, tmp_path: Path) -> None:
        """A new cluster recovers nothing and has no facts."""
        with self._session(tmp_path) as session:
            assert session.recovered == Recovered((), session.recovered.notes)
            assert session.runtime.facts() == ()

    def test_brings_about_what_is_wanted(self, tmp_path: Path) -> None:
        """Each wanted id becomes one running instance, with its own container and endpoint."""
        with self._session(tmp_path) as session:
            session.want(_A, _B)
            first, second = session.running(_A), session.running(_B)
            assert first.spec_hash == second.spec_hash == GOOD
            assert first.container_id
            assert first.node
            assert first.container_id != second.container_id
            assert first.endpoint != second.endpoint
            assert not first.adopted

    def test_a_wish_twice_is_a_wish_once(self, tmp_path: Path) -> None:
        """An instance that runs or starts is not started again."""
        with self._session(tmp_path) as session:
            session.want(_A)
            session.want(_A)
            before = session.running(_A)
            session.want(_A)
            session.want(_A, _B)
            session.running(_B)
            assert _without_adopted(session.running(_A)) == _without_adopted(before)

    def test_an_id_in_neither_set_is_left_alone(self, tmp_path: Path) -> None:
        """Only an id in `stop` is stopped."""
        with self._session(tmp_path) as session:
            session.want(_A, _B)
            before = session.running(_A)
            session.running(_B)
            session.want(_B)
            session.want()
            session.want(_C)
            session.running(_C)
            assert session.running(_A) == before

    def test_stops_what_is_to_be_stopped_and_nothing_else(self, tmp_path: Path) -> None:
        """Its end is marked as expected; the other instances continue."""
        with self._session(tmp_path) as session:
            session.want(_A, _B)
            session.running(_A)
            kept = session.running(_B)
            session.want(_B, stop={_A})
            ended = session.ended(_A, stop={_A}, want=(_B,))
            assert ended.exit.expected
            assert ended.exit.reason.strip()
            assert session.running(_B) == kept

    def test_stopping_an_unknown_id_is_no_error(self, tmp_path: Path) -> None:
        """The stop has no effect."""
        with self._session(tmp_path) as session:
            session.want(_A, stop={"fleet-0099"})
            session.running(_A)
            assert not isinstance(session.fact("fleet-0099"), Pending | Running)

    def test_stop_wins_over_an_ask_that_was_not_granted(self, tmp_path: Path) -> None:
        """An instance that is stopped right after its request does not stay."""
        with self._session(tmp_path) as session:
            session.want(_A)
            session.want(stop={_A})
            until(lambda: session.settled(_A, stop={_A}), self.within_s, f"the end of {_A} by stop")

    def test_a_start_that_fails_is_a_fact_and_not_an_exception(self, tmp_path: Path) -> None:
        """The fact has a reason, the end is not expected, and the other instances start."""
        with self._session(tmp_path) as session:
            session.want(_A, broken=(_B,))
            ended = session.ended(_B, want=(_A,), broken=(_B,))
            assert not ended.exit.expected
            assert ended.exit.reason.strip()
            assert ended.spec_hash == BROKEN
            session.running(_A)

    def test_an_end_is_told_until_no_wish_names_the_id(self, tmp_path: Path) -> None:
        """A busy master still learns of the end; after that it is forgotten."""
        with self._session(tmp_path) as session:
            session.want(broken=(_A,))
            first = session.ended(_A, broken=(_A,))
            for _ in range(3):
                session.want(broken=(_A,))
                assert session.fact(_A) == first
            session.want()
            until(lambda: session.unnamed(_A), self.within_s, f"silence about {_A}, named no more")

    def test_an_older_master_is_superseded_and_does_nothing(self, tmp_path: Path) -> None:
        """After a newer master started, the old one neither starts nor stops anything."""
        with self._session(tmp_path) as old:
            old.want(_A)
            before = old.running(_A)
            with self._session(tmp_path, within=old) as new:
                new.running(_A)
                for want, stop in (((_A, _B), set()), ((), {_A})):
                    with pytest.raises(Superseded):
                        old.want(*want, stop=stop)
                new.want(_A)
                assert new.fact(_B) is None
                assert new.running(_A).container_id == before.container_id

    def test_a_stub_that_ended_is_told_until_it_is_started_again(self, tmp_path: Path) -> None:
        """It is reported together with `Running`, which does not change, and for this id only."""
        with self._session(tmp_path) as session:
            session.want(_A, _B)
            before = session.running(_A)
            session.running(_B)
            assert session.stub_ended(_A) is None
            if not self.end_stub(session.runtime, before):
                return
            told = until(lambda: session.stub_ended(_A), self.within_s, f"{_A}: a stub ended")
            session.want(_A, _B)
            assert session.stub_ended(_A) == told
            assert session.running(_A) == before
            assert session.stub_ended(_B) is None
            self.start_stub(session.runtime, before)
            until(lambda: session.stub_ended(_A) is None, self.within_s, f"{_A}: a stub again")
            assert session.running(_A) == before

    def test_an_end_takes_the_word_of_a_stub_with_it(self, tmp_path: Path) -> None:
        """An ended instance has no fact about its stubs."""
        with self._session(tmp_path) as session:
            session.want(_A)
            if not self.end_stub(session.runtime, session.running(_A)):
                return
            until(lambda: session.stub_ended(_A), self.within_s, f"{_A}: a stub ended")
            session.ended(_A, stop={_A})
            assert session.stub_ended(_A) is None

    def test_a_new_master_adopts_what_runs(self, tmp_path: Path) -> None:
        """The same containers at the same addresses, marked as adopted, nothing restarted."""
        with self._session(tmp_path) as old:
            old.want(_A, _B)
            before = {fact.instance_id: fact for fact in (old.running(_A), old.running(_B))}
            old.close()
            with self._session(tmp_path, within=old) as new:
                found = {fact.instance_id: fact for fact in new.recovered.running}
                assert found.keys() == before.keys()
                for instance_id, fact in found.items():
                    assert fact.adopted
                    assert _without_adopted(fact) == _without_adopted(before[instance_id])
                new.want(_A, _B)
                assert new.running(_A).container_id == before[_A].container_id

    def test_a_new_master_stops_what_it_adopted(self, tmp_path: Path) -> None:
        """Adopted instances can be stopped like its own."""
        with self._session(tmp_path) as old:
            old.want(_A)
            old.running(_A)
            old.close()
            with self._session(tmp_path, within=old) as new:
                new.want(_A)
                new.want(stop={_A})
                assert new.ended(_A, stop={_A}).exit.expected

    def test_closing_leaves_the_instances(self, tmp_path: Path) -> None:
        """A master that closes ends no instance; closing again does nothing, quickly."""
        with self._session(tmp_path) as session:
            session.want(_A)
            before = session.running(_A)
            session.close()
            session.close()
            with self._session(tmp_path, within=session) as successor:
                found = [fact.container_id for fact in successor.recovered.running]
                assert found == [before.container_id]

    def test_facts_never_block(self, tmp_path: Path) -> None:
        """The control thread reads while the worker works; at most one fact for an id."""
        with self._session(tmp_path) as session:
            worker = threading.Thread(target=lambda: session.want(_A, _B, broken=(_C,)))
            worker.start()
            for _ in range(50):
                session.all_facts()
            worker.join(WORK_WITHIN_S)
            assert not worker.is_alive()
            session.running(_A)
            session.all_facts()

    def test_hears_from_whoever_grants(self, tmp_path: Path) -> None:
        """The time of the last answer advances, and is never in the future."""
        with self._session(tmp_path) as session:
            clock = master_context(tmp_path).clock
            session.want(_A)
            first_s = session.runtime.heard_s()
            assert first_s <= clock.now_s()
            until(
                lambda: session.heard_after(first_s), self.within_s, "a later word from the runtime"
            )
            assert session.runtime.heard_s() <= clock.now_s()

    def test_a_superseded_master_hears_of_it(self, tmp_path: Path) -> None:
        """`heard_s` or the next wish raises `Superseded`, and no other error."""
        with self._session(tmp_path) as old:
            old.want(_A)
            old.running(_A)
            with self._session(tmp_path, within=old) as new:
                new.running(_A)
                until(old.hears_of_its_successor, self.within_s, "word of the newer master")

    def test_shows_the_end_of_a_log(self, tmp_path: Path) -> None:
        """It returns the last lines without newlines, and whether there are earlier ones."""
        with self._session(tmp_path) as session:
            session.want(_A)
            session.running(_A)
            until(lambda: len(session.log(_A, 100).lines) > 1, self.within_s, f"a log of {_A}")
            last, more = session.log(_A, 1), session.log(_A, 100)
            assert len(last.lines) == 1
            assert last.truncated
            assert last.lines[0] in session.log(_A, 100).lines
            assert more.lines
            assert not any("\n" in line for line in more.lines)

    def test_a_log_that_is_not_there_is_not_found(self, tmp_path: Path) -> None:
        """An id comes over HTTP, so it may be anything."""
        with self._session(tmp_path) as session:
            session.want(_A)
            session.running(_A)
            for odd in _ODD:
                with pytest.raises(NotFoundError):
                    session.log(odd, 10)

    def test_the_log_of_who_ended_is_shown_while_its_end_is_told(self, tmp_path: Path) -> None:
        """The log shows why the instance ended."""
        with self._session(tmp_path) as session:
            session.want(broken=(_A,))
            session.ended(_A, broken=(_A,))
            assert session.log(_A, 100).lines

    def test_warns_in_lines(self, tmp_path: Path) -> None:
        """Warnings are for people: each is one line, and not empty."""
        with self._session(tmp_path) as session:
            warnings = within(self.answer_within_s, session.runtime.warnings, "warnings")
            assert isinstance(warnings, tuple)
            lines = [one.found if isinstance(one, Issue) else one for one in warnings]
            assert all(line.strip() and "\n" not in line for line in lines)

    def test_finishing_leaves_nothing_to_recover(self, tmp_path: Path) -> None:
        """After `down` the next cluster of this name starts from nothing."""
        with self._session(tmp_path) as session:
            session.want(_A)
            session.running(_A)
            session.want(stop={_A})
            session.ended(_A, stop={_A})
            session.want()
            session.runtime.finish()
            session.close()
            with self._session(tmp_path, within=session) as successor:
                assert successor.recovered.running == ()
                assert successor.runtime.facts() == ()

    @contextmanager
    def _session(
        self, tmp_path: Path, within: "RuntimeSession | None" = None
    ) -> Iterator["RuntimeSession"]:
        """Start a runtime; at the end stop everything it knows, unless *within* another session."""
        runtime, epoch = self.make(tmp_path)
        launches = (launch_of(self.spec(tmp_path), GOOD), self.broken_launch(tmp_path))
        session = RuntimeSession(runtime, epoch, launches, self.within_s, self.answer_within_s)
        session.revision = within.revision if within else 0
        try:
            session.start()
            yield session
        finally:
            session.close()
            if within is None:
                self._sweep(tmp_path, session)

    def _sweep(self, tmp_path: Path, session: "RuntimeSession") -> None:
        """Stop the remaining instances, as a master newer than all others."""
        runtime, epoch = self.make(tmp_path)
        sweeper = attrs.evolve(session, runtime=runtime, epoch=epoch)
        sweeper.start()
        left = {fact.instance_id for fact in sweeper.recovered.running}
        if left:
            sweeper.want(stop=left)
            until(
                lambda: not any(isinstance(sweeper.fact(i), Pending | Running) for i in left),
                self.within_s,
                "the end of what a test left",
            )
        sweeper.close()


def _without_adopted(fact: Running) -> Running:
    """Return *fact* without the field that a new master may change."""
    return attrs.evolve(fact, adopted=False)
