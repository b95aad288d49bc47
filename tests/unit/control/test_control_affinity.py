"""The rules of affinity: asked for when the models change, and never lost."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tarn.control import mailbox
from tarn.control.affinity import AffinityRunner, KnownTraits
from tarn.control.http1 import Reply
from tarn.control.probe import ModelRegistry
from tarn.domain import AffinityRule, Known, ModelState, ModelTraits, Reading
from tarn.domain.affinity import AffinityStatus
from tarn.testing.fakes import FakeAffinity, FakeClock
from tarn.testing.wait import until

ACC = ModelTraits("acc", True, 60.0)
RULE = AffinityRule(("acc",), "sequence", idle_s=65.0)
BOTH = KnownTraits({"acc": ACC, "echo": ModelTraits("echo")}, frozenset({"acc", "echo"}))


def serving(*names: str) -> dict[str, Reading]:
    """Return the reading of an instance on which these models are READY."""
    models = Known(tuple(ModelState(name, "READY") for name in names))
    return {"w-0001": Reading("w-0001", 0.0, live=Known(True), models=models)}


class Runner:
    """A runner whose thread ends with the test."""

    def __init__(self, affinity: Any) -> None:
        self.woken = threading.Event()
        self.runner = AffinityRunner(affinity, FakeClock(), self.woken.set, "acme")

    def __enter__(self) -> AffinityRunner:
        return self.runner

    def __exit__(self, *_exc: object) -> None:
        self.runner.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "RETRY_S", 0.01)


def test_the_rules_follow_the_models() -> None:
    """They are complete once every model that serves is known."""
    with Runner(FakeAffinity()) as runner:
        nothing = KnownTraits()
        assert runner.status(nothing, {}) == AffinityStatus()
        until(lambda: runner.status(nothing, {}).complete)
        assert not runner.status(nothing, serving("acc")).complete
        until(lambda: runner.status(BOTH, serving("acc", "echo")).complete)
        assert runner.status(BOTH, serving("acc")).rules == (RULE,)
        assert not runner.status(BOTH, serving("acc", "other")).complete


def test_a_model_that_is_loaded_again_is_not_known_until_it_is_read() -> None:
    """Its rule stays meanwhile."""
    with Runner(FakeAffinity()) as runner:
        until(lambda: runner.status(BOTH, {}).complete)
        stale = KnownTraits(BOTH.models, frozenset({"echo"}))
        assert runner.status(stale, serving("acc")) == AffinityStatus((RULE,), complete=False)


class Fails(FakeAffinity):
    """Answers what it is told to, or raises it."""

    answer: Any = None

    def rules(self, models: Sequence[ModelTraits]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return super().rules(models) if self.answer is None else self.answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ValueError("no"), "ValueError: no"),
        ([], "something other than a tuple of AffinityRule"),
        (("acc",), "something other than a tuple of AffinityRule"),
        ((RULE,) * 65, "65 rules; at most 64 are possible"),
        ((AffinityRule(("m",) * 5000, "body"),), "rules with 5000 names of models"),
    ],
)
def test_a_wrong_answer_is_an_issue_and_the_rules_before_stay(answer: Any, said: str) -> None:
    """The thread tries again, and the plugin is named."""
    affinity = Fails()
    with Runner(affinity) as runner:
        until(lambda: runner.status(BOTH, {}).complete)
        affinity.answer = answer
        more = KnownTraits({**BOTH.models, "new": ModelTraits("new")}, frozenset())
        runner.status(more, {})
        until(lambda: said in runner.worker.error)
        assert runner.status(more, {}) == AffinityStatus((RULE,), complete=False)
        affinity.answer = None
        until(lambda: runner.status(more, {}).complete)
        assert runner.worker.error == ""


def test_an_affinity_that_hangs_stops_nobody() -> None:
    """The control thread gets the rules before; closing does not wait."""
    going = threading.Event()

    class Hangs(FakeAffinity):
        def rules(self, models: Sequence[ModelTraits]) -> tuple[AffinityRule, ...]:
            going.wait(5)
            return ()

    with Runner(Hangs()) as runner:
        assert runner.status(BOTH, {}) == AffinityStatus()
        assert not runner.close()
    going.set()


def test_the_registry_reads_a_configuration_and_forgets_it_when_it_may_have_changed() -> None:
    """The traits stay until there are newer ones."""
    registry = ModelRegistry()
    config = b'{"sequence_batching": {"max_sequence_idle_microseconds": 60000000}}'
    registry.add("acc", Reply(200, config))
    assert registry.traits == KnownTraits({"acc": ACC}, frozenset({"acc"}))
    registry.forget("acc")
    assert registry.traits == KnownTraits({"acc": ACC}, frozenset())
    registry.add("acc", Reply(503, b""))
    assert registry.traits.current == frozenset()
    registry.add("acc", Reply(200, b"{}"))
    assert registry.traits == KnownTraits({"acc": ModelTraits("acc")}, frozenset({"acc"}))
