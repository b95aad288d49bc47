"""The authorizer `ranger` over an engine in memory: the contract, and what goes wrong."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from tarn.domain import ANONYMOUS, Principal, Readiness
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer, MasterContext
from tarn.testing.contracts.authorizer import AuthorizerContract
from tarn.testing.fakes.runtime import FakeClock
from tarn_plugins.authorizer.ranger.authorizer import Engine, RangerAuthorizer
from tarn_plugins.authorizer.ranger.engine import (
    AccessRequest,
    AdminContact,
    RangerDecision,
)

ALICE = Principal("alice", frozenset({"ds"}), "spnego")


@attrs.define
class FakeEngine:
    """Allows what stands in a table of (name of a user or group, access, resource)."""

    table: frozenset[tuple[str, str, str]] = frozenset({("alice", "infer", "ocr")})
    policies: int = 1
    raises: bool = False
    short: bool = False
    closed: int = 0
    asked: list[tuple[Principal, tuple[AccessRequest, ...]]] = attrs.field(factory=list)

    def version(self) -> int:
        return self.policies

    def decide(
        self, asker: Principal, questions: Sequence[AccessRequest]
    ) -> tuple[RangerDecision | None, ...]:
        self.asked.append((asker, tuple(questions)))
        if self.raises:
            raise RuntimeError("in Java")
        if self.policies < 0:
            return (None,) * len(questions)
        names = {asker.user, *asker.groups}
        found = tuple(
            RangerDecision(allowed=hit, policy=7 if hit else -1)
            for one in questions
            for hit in [any((name, one.access, one.resource) in self.table for name in names)]
        )
        return found[1:] if self.short else found

    def close(self, within_s: float) -> None:
        self.closed += 1


@attrs.frozen
class Settings:
    """Of the fake: whether it has policies."""

    policies: int = 1


def make(settings: Settings, context: MasterContext) -> Authorizer:
    heard = AdminContact(context.clock, 30, context.directory / "confirmed")
    if settings.policies >= 0:
        heard.answered()
    one = RangerAuthorizer("prod", "fleet", heard, lambda: FakeEngine(policies=settings.policies))
    assert one.wait(10)
    return one


class TestRangerOverAFake(AuthorizerContract):
    """The whole contract."""

    factory = Factory(Settings, make, "a fake")


class TestRangerWithoutPolicies(TestRangerOverAFake):
    """The engine answers nothing."""

    settings: Mapping[str, int] = {"policies": -1}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def heard(clock: FakeClock, tmp_path: Path) -> AdminContact:
    one = AdminContact(clock, 30, tmp_path / "confirmed")
    one.answered()
    return one


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def authorizer(engine: FakeEngine, heard: AdminContact) -> Iterator[RangerAuthorizer]:
    one = RangerAuthorizer("prod", "fleet", heard, lambda: engine)
    assert one.wait(10)
    yield one
    one.close()


def test_the_fleet_is_asked_about_by_its_name(
    authorizer: RangerAuthorizer, engine: FakeEngine
) -> None:
    """And models by theirs; an unknown action is asked of nobody."""
    authorizer.check(ALICE, "admin", "")
    authorizer.check(ALICE, "list", "ocr")
    authorizer.check(ALICE, "delete", "ocr")
    authorizer.check(ALICE, "infer", "")
    assert [questions for _, questions in engine.asked] == [
        (AccessRequest("cluster", "fleet", "admin"),),
        (AccessRequest("model", "ocr", "list"),),
    ]


@pytest.mark.parametrize("via", ["token", "trusted-proxy"])
def test_who_proved_no_name_is_asked_about_as_nobody(
    authorizer: RangerAuthorizer, engine: FakeEngine, via: str
) -> None:
    """A trusted proxy may be called like a user."""
    assert not authorizer.check(attrs.evolve(ALICE, via=via), "infer", "ocr").allowed
    assert engine.asked[-1][0] == ANONYMOUS


def test_an_engine_that_raises_or_answers_too_little_denies(
    authorizer: RangerAuthorizer, engine: FakeEngine
) -> None:
    """Fail closed."""
    assert authorizer.check(ALICE, "infer", "ocr").allowed
    engine.raises = True
    assert not authorizer.check(ALICE, "infer", "ocr").allowed
    engine.raises, engine.short = False, True
    assert not any(one.allowed for one in authorizer.check_each(ALICE, "infer", ("ocr", "ocr")))


def test_an_engine_that_does_not_start_denies_for_ever(heard: AdminContact) -> None:
    """With the reason in /health, and no exception to the caller."""

    def broken() -> Engine:
        raise RuntimeError("no such class")

    one = RangerAuthorizer("prod", "fleet", heard, broken)
    assert one.wait(10)
    assert not one.check(ALICE, "infer", "ocr").allowed
    assert one.ready() == Readiness(
        ready=False, reason="Ranger's engine did not start (RuntimeError: no such class)"
    )


def test_while_it_is_being_opened_it_denies_and_one_that_is_late_is_closed(
    heard: AdminContact, engine: FakeEngine
) -> None:
    """A master that leaves waits for no download."""
    go = threading.Event()

    def slow() -> Engine:
        go.wait(10)
        return engine

    one = RangerAuthorizer("prod", "fleet", heard, slow)
    assert not one.check(ALICE, "infer", "ocr").allowed
    assert "being loaded" in one.ready().reason
    one.close()
    go.set()
    assert one.wait(10)
    assert engine.closed == 1
    assert not one.check(ALICE, "infer", "ocr").allowed


def test_stale_policies_decide_and_say_their_age(
    authorizer: RangerAuthorizer, heard: AdminContact, clock: FakeClock
) -> None:
    """From the first answer that did not come; a silence without an error shows later."""
    clock.advance(20)
    assert not authorizer.check(ALICE, "infer", "ocr").stale
    heard.failed("Ranger Admin answered HTTP 500")
    clock.advance(700)
    verdict = authorizer.check(ALICE, "infer", "ocr")
    assert verdict.allowed
    assert verdict.stale
    assert verdict.reason.endswith("policies of 12 min ago: Ranger Admin answered HTTP 500")
    assert authorizer.ready().reason.startswith("stale: policies of 12 min ago")
    heard.answered()
    assert not authorizer.check(ALICE, "infer", "ocr").stale
    clock.advance(200)
    assert authorizer.check(ALICE, "infer", "ocr").stale, "three polls without a message"


def test_a_service_that_is_gone_decides_nothing(
    authorizer: RangerAuthorizer, heard: AdminContact, engine: FakeEngine
) -> None:
    """Though the engine still has its policies."""
    heard.failed("Ranger Admin has no such service", gone=True)
    assert not authorizer.check(ALICE, "infer", "ocr").allowed
    assert not authorizer.ready().ready
    heard.answered()
    assert authorizer.check(ALICE, "infer", "ocr").allowed


def test_the_age_outlives_a_master(clock: FakeClock, tmp_path: Path) -> None:
    """The next one finds when policies were confirmed; or nobody knows."""
    kept = tmp_path / "confirmed"
    stale = AdminContact(clock, 30, kept).stale()
    assert stale is not None
    assert str(stale).startswith("policies of an unknown age: ")
    AdminContact(clock, 30, kept).answered()
    again = AdminContact(clock, 30, kept)
    clock.jump(kept.stat().st_mtime + 3 * 86400)
    again.failed("refused")
    assert str(again.stale()) == "policies of 3 d ago: refused"
