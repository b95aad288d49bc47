"""Ranger's engine decides as an independent evaluator does, over its own download protocol."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ranger_evaluator import allowed
from servers.ranger import PolicyServer, item, opened, policy

from tarn.domain import Principal
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer
from tarn_plugins.authorizer.ranger.setup_file import service_definition

PAIRS = 200
USERS, GROUPS = ("alice", "bob", "carol"), ("ds", "ops", "public")
MODELS = ("ocr", "OCR", "ocr-2", "llama", "lla.a", "o", "secret")
PATTERNS = ("*", "ocr*", "?cr", "llama", "LLAMA", "*a*", "lla?a", "o?r-2", "secret", "lla.a", "o")
ACCESSES = ("infer", "metadata", "list")


def some(values: tuple[str, ...], most: int = 2) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=most, unique=True)


items = st.builds(
    item, st.lists(st.sampled_from(ACCESSES), min_size=1, unique=True), some(USERS), some(GROUPS)
)
rows = st.lists(items, max_size=2)


@st.composite
def bundles(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return some policies, each with allow and deny and the exceptions of both."""
    return [
        policy(
            number,
            draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True)),
            *(draw(rows) for _ in range(4)),
            excludes=draw(st.booleans()) and draw(st.booleans()),
            enabled=draw(st.booleans()) or draw(st.booleans()),
        )
        for number in range(1, draw(st.integers(1, 5)) + 1)
    ]


requests = st.tuples(
    st.builds(
        Principal, st.sampled_from(USERS), some(GROUPS[:2]).map(frozenset), st.just("spnego")
    ),
    st.sampled_from(MODELS),
    st.sampled_from(ACCESSES),
)


@pytest.fixture(scope="module")
def changing() -> Iterator[PolicyServer]:
    with PolicyServer() as server:
        yield server


@pytest.fixture(scope="module")
def engine(
    java: None, changing: PolicyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RangerAuthorizer]:
    made = opened(tmp_path_factory.mktemp("evaluator"), changing.url, audit=False)
    assert made.wait(60)
    yield made
    made.close()


@settings(
    max_examples=PAIRS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(bundle=bundles(), asked=st.lists(requests, min_size=1, max_size=4))
def test_the_engine_decides_as_the_evaluator(
    changing: PolicyServer,
    engine: RangerAuthorizer,
    bundle: list[dict[str, Any]],
    asked: list[tuple[Principal, str, str]],
) -> None:
    """Two hundred bundles of policies are downloaded, and questions asked about each."""
    changing.change(bundle)
    engine._engine._plugin.refreshPoliciesAndTags()
    assert engine._engine.version() == changing.version
    for principal, model, access in asked:
        right = allowed(
            service_definition(), bundle, principal.user, principal.groups, model, access
        )
        verdict = engine.check(principal, access, model)
        assert verdict.allowed is right, (principal, access, model, verdict)
        assert not verdict.stale
