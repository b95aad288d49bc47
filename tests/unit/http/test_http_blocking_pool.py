"""The gate in front of an authorizer: late, full and broken are all a no."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from tarn.domain import ANONYMOUS, Principal, Readiness, Verdict
from tarn.http.blocking_pool import AuthorizerPool, DirectAuthorizer

YES = Verdict(allowed=True, reason="yes")


@attrs.define
class Scripted:
    """Does what its script says for each check."""

    script: Callable[[], Any]

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        answer: Verdict = self.script()
        return answer

    def ready(self) -> Readiness:
        return Readiness(ready=True)


@pytest.fixture
def stuck() -> Iterator[tuple[Scripted, threading.Event]]:
    release = threading.Event()

    def script() -> Verdict:
        release.wait(timeout=30)
        return YES

    yield Scripted(script), release
    release.set()


def _fails() -> Verdict:
    raise RuntimeError("engine lost")


def _allow(gate: AuthorizerPool | DirectAuthorizer, times: int = 1) -> list[Verdict]:
    async def ask() -> list[Verdict]:
        asked = (gate.allow_each(ANONYMOUS, "view", ("",)) for _ in range(times))
        return [verdict for (verdict,) in await asyncio.gather(*asked)]

    return asyncio.run(ask())


def test_the_verdict_comes_through() -> None:
    """From the pool as from the loop itself."""
    pooled = AuthorizerPool(Scripted(lambda: YES))
    assert _allow(pooled, 20) == [YES] * 20
    assert _allow(DirectAuthorizer(Scripted(lambda: YES))) == [YES]
    pooled.close()


def test_a_late_answer_is_a_no(stuck: tuple[Scripted, threading.Event]) -> None:
    """The deadline counts from the question; the reason names it."""
    gate = AuthorizerPool(stuck[0], threads=1, deadline_s=0.05)
    (verdict,) = _allow(gate)
    assert (verdict.allowed, verdict.reason) == (
        False,
        "the authorizer did not answer within 0.05 s",
    )
    stuck[1].set()
    gate.close()


def test_a_full_queue_is_a_no_at_once(stuck: tuple[Scripted, threading.Event]) -> None:
    """Nobody waits behind a hanging authorizer for longer than the deadline."""
    gate = AuthorizerPool(stuck[0], threads=1, waiting=2, deadline_s=0.2)
    verdicts = _allow(gate, 10)
    assert not any(v.allowed for v in verdicts)
    assert sum("too many" in v.reason for v in verdicts) >= 7
    stuck[1].set()
    gate.close()


@pytest.mark.parametrize("make", [AuthorizerPool, DirectAuthorizer])
def test_an_exception_is_a_no_that_hides_its_text(
    make: Callable[[Scripted], AuthorizerPool | DirectAuthorizer], caplog: pytest.LogCaptureFixture
) -> None:
    """The caller learns that it failed; the log learns why."""
    gate = make(Scripted(_fails))
    (verdict,) = _allow(gate)
    assert (verdict.allowed, verdict.reason) == (False, "the authorizer failed")
    assert "engine lost" in caplog.text
    if isinstance(gate, AuthorizerPool):
        gate.close()


@pytest.mark.parametrize("answer", [None, True, "yes"])
def test_what_is_no_verdict_is_a_no(answer: Any) -> None:
    """A truthy answer of the wrong type opens nothing."""
    (verdict,) = _allow(DirectAuthorizer(Scripted(lambda: answer)))
    assert not verdict.allowed


def test_an_answer_after_the_deadline_disturbs_nobody(
    stuck: tuple[Scripted, threading.Event],
) -> None:
    """Late verdicts are dropped, and the pool serves the next question."""
    gate = AuthorizerPool(stuck[0], threads=1, deadline_s=0.05)
    assert not _allow(gate)[0].allowed
    stuck[1].set()
    again = AuthorizerPool(Scripted(lambda: YES), threads=1)
    assert _allow(again) == [YES]
    gate.close()
    again.close()
    gate.close()
