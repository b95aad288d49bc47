"""Ranger's engine in this process: its JVM, a server of policies, and one engine to share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.ranger import POLICIES, PolicyServer, opened

from tarn.config import environ
from tarn.java import java_home, start, started
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer

Open = Callable[..., RangerAuthorizer]


@pytest.fixture(scope="session")
def java() -> None:
    """Start the JVM with room for engines: a master has one, and none is ever given back."""
    if not started():
        start((), 256, java_home(environ()), ("-XX:MaxMetaspaceSize=512m",))


@pytest.fixture(scope="session")
def stage() -> Iterator[PolicyServer]:
    with PolicyServer(POLICIES) as server:
        yield server


@pytest.fixture(scope="session")
def shared(
    java: None, stage: PolicyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RangerAuthorizer]:
    """One engine for all tests that do not need one of their own: none is ever given back."""
    made = opened(tmp_path_factory.mktemp("shared"), stage.url)
    assert made.wait(60)
    yield made
    made.close()


@pytest.fixture
def own(java: None, tmp_path: Path) -> Iterator[Open]:
    """Open engines in the folder of the test; they are closed after it."""
    made: list[RangerAuthorizer] = []

    def one(url: str, *, wait: bool = True, **more: Any) -> RangerAuthorizer:
        made.append(opened(tmp_path, url, **more))
        if wait:
            assert made[-1].wait(60)
        return made[-1]

    yield one
    for each in made:
        each.close()
