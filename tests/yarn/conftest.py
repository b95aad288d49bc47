"""Fixtures for a real YARN. Run with ``-p no:faulthandler``: a JVM lives in the process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from yarn_stage import Hadoop, YarnHouse, sandbox, session_sandbox

ONCE = ("kerberized", "hadoop_ha", "fleet")
"""Fixtures that one worker makes, and runs all tests of: a sandbox beside its own costs much; and
the secrets of the contract's fleet are looked for in every process of the machine."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep together, for `--dist loadgroup`, what shares a fixture that is made once."""
    for name in ONCE:
        if name in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Run what stops or kills daemons after everything else; of each, the longest first.

    Workers take tests in this order: the cores end together when what is left last is short. It
    is the last word: whoever shuffles tests has done so.
    """
    yield
    items.sort(key=lambda item: (item.get_closest_marker("breaks") is not None, -_patience_s(item)))


def _patience_s(item: pytest.Item) -> float:
    """Return the time-out that a test has of its own; 0: the session's is enough for it."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


@pytest.fixture(scope="session")
def shared_hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with session_sandbox(tmp_path_factory.mktemp("hadoop") / "sandbox") as one:
        yield one


@pytest.fixture
def hadoop(shared_hadoop: Hadoop) -> Hadoop:
    """The session's YARN, every daemon of it at work."""
    shared_hadoop.up()
    return shared_hadoop


@pytest.fixture
def yarn_house(tmp_path: Path, hadoop: Hadoop) -> Iterator[YarnHouse]:
    one = YarnHouse(tmp_path, hadoop)
    yield one
    hadoop.up()
    one.clear()


@pytest.fixture(scope="session")
def shared_hadoop_ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with sandbox(tmp_path_factory.mktemp("ha") / "sandbox", ha=True, nodes=1) as one:
        yield one


@pytest.fixture
def hadoop_ha(shared_hadoop_ha: Hadoop) -> Hadoop:
    """Another YARN, of two ResourceManagers and one node; for `YarnHouse(tmp_path, hadoop_ha)`."""
    shared_hadoop_ha.up()
    return shared_hadoop_ha
