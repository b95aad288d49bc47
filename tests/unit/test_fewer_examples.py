"""One factor decides how many examples every test runs."""

from collections.abc import Callable, Iterator

import pytest
from fewer_examples import WHOLE, scale_examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule


@pytest.fixture(autouse=True)
def _loaded() -> Iterator[None]:
    """Load a profile with a tenth of the examples, as ``nox -s quick`` does."""
    before = settings.default
    settings.register_profile("before", before)
    settings.register_profile("tenth", before, max_examples=WHOLE // 10, database=None)
    settings.load_profile("tenth")
    yield
    settings.load_profile("before")


def examples_of(decorate: Callable[..., Callable[..., None]]) -> Callable[[], int]:
    """Return a call that runs a law, and says how many examples it took."""
    seen: list[int] = []

    def law(number: int) -> None:
        seen.append(number)

    decorated = decorate(law)
    scale_examples([decorated, decorated])

    def run() -> int:
        decorated()
        return len(seen)

    return run


def test_a_number_of_examples_is_scaled_once() -> None:
    """Above ``@given`` and below it; a test that comes twice, by parameters, counts once."""
    above = examples_of(lambda law: settings(max_examples=200)(given(st.integers())(law)))
    below = examples_of(lambda law: given(st.integers())(settings(max_examples=50)(law)))
    assert above() == 20
    assert below() == 5


def test_without_a_number_the_profile_decides() -> None:
    assert examples_of(given(st.integers()))() == 10


def test_at_least_one_example_is_run() -> None:
    few = examples_of(lambda law: settings(max_examples=2)(given(st.integers())(law)))
    assert few() == 1


def test_a_machine_of_states_is_scaled_too() -> None:
    class Machine(RuleBasedStateMachine):
        @rule()
        def step(self) -> None:
            pass

    case = Machine.TestCase
    case.settings = settings(max_examples=40, stateful_step_count=7)
    scale_examples([], [case, case])
    assert (case.settings.max_examples, case.settings.stateful_step_count) == (4, 7)


def test_all_examples_run_by_default() -> None:
    settings.load_profile("before")
    whole = examples_of(lambda law: settings(max_examples=30)(given(st.integers())(law)))
    assert settings.default.max_examples != WHOLE or whole() == 30
