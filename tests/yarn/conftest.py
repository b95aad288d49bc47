"""Fixtures for a real YARN. Run with ``-p no:faulthandler``: a JVM lives in the process."""

import time
from pathlib import Path

import pytest
from servers.yarn import (  # noqa: F401 (fixtures)
    chosen,
    hadoop,
    hadoop_ha,
    kerberized,
    kerberos_house,
    shared_hadoop,
    shared_hadoop_ha,
    yarn_house,
)

from tarn import config
from tarn_plugins.cli.sandbox.options import SandboxOptions

UNTIL = config.environ().get("TARN_TEST_UNTIL", "")
"""In Unix seconds; empty: there is time enough."""


def pytest_configure() -> None:
    """Refuse what no sandbox can be made with before the first test."""
    try:
        SandboxOptions(**chosen())
    except ValueError as error:
        raise pytest.UsageError(f"the Hadoop of this session: {error.args[0]}") from error


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what stops or kills daemons after everything else, and of each the longest files first.

    Workers take files in the order of their first tests: what is taken last is short, so that the
    cores end together. Tests that want YARN configured in one way follow one another.
    """
    longest_s: dict[Path, float] = {}
    for item in items:
        longest_s[item.path] = max(longest_s.get(item.path, 0.0), _patience_s(item))
    items.sort(key=lambda item: (_breaks(item), -longest_s[item.path], _world(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test once the time is over that `.ci/run` has set, but for a second run."""
    if UNTIL and time.time() > float(UNTIL) and not item.config.getoption("lf"):
        pytest.skip("NOT RUN: the time of .ci/run is over; `nox -s yarn` runs every test")


def _breaks(item: pytest.Item) -> bool:
    return item.get_closest_marker("breaks") is not None


def _world(item: pytest.Item) -> str:
    """Return how a test of a parametrized table wants YARN; '': as it is."""
    return str(item.callspec.params.get("world", "")) if hasattr(item, "callspec") else ""


def _patience_s(item: pytest.Item) -> float:
    """Return the time-out that a test has of its own; 0: the session's is enough for it."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0
