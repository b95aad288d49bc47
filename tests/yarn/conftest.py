"""Fixtures for a real YARN. Run with ``-p no:faulthandler``: a JVM lives in the process."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from yarn_stage import (
    KERBEROS_LIFE_S,
    SHARED,
    Hadoop,
    YarnHouse,
    chosen,
    context,
    sandbox,
    session_sandbox,
)

from tarn_plugins.cli.sandbox.kerberos import with_sbin
from tarn_plugins.cli.sandbox.options import SandboxOptions

KERBERIZED = ("test_yarn_kerberos.py", "test_yarn_kerberos_door.py", "test_yarn_matrix.py")
"""They use `kerberized`, one after the other."""


def pytest_configure() -> None:
    """Refuse what no sandbox can be made with before the first test."""
    try:
        SandboxOptions(**chosen())
    except ValueError as error:
        raise pytest.UsageError(f"the Hadoop of this session: {error.args[0]}") from error


class _Files(LoadFileScheduling):
    """Gives whole files to workers, and those that share a YARN of their own to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "kerberized" if file.endswith(KERBERIZED) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Have files distributed as `_Files` does, where files are."""
    return _Files(config, log) if config.getvalue("dist") == "loadfile" else None


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


def _breaks(item: pytest.Item) -> bool:
    return item.get_closest_marker("breaks") is not None


def _world(item: pytest.Item) -> str:
    """Return how a test of a parametrized table wants YARN; '': as it is."""
    return str(item.callspec.params.get("world", "")) if hasattr(item, "callspec") else ""


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
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """A YARN of three nodes with a realm of its own, whose tokens live for `KERBEROS_LIFE_S`.

    Only the files in `KERBERIZED` use it: tests that kill its daemons need not be the last.
    """
    if shutil.which("krb5kdc", path=with_sbin({})["PATH"]) is None:
        pytest.skip("needs MIT Kerberos: apt install krb5-kdc krb5-admin-server krb5-user")
    given = context().environ.get(SHARED)
    if given and Hadoop(Path(given), context()).options.kerberos:
        with session_sandbox(Path(given)) as one:
            one.log_in()
            yield one
        return
    directory = tmp_path_factory.mktemp("kerberos") / "sandbox"
    with sandbox(directory, kerberos=True, token_life_s=KERBEROS_LIFE_S) as one:
        yield one


@pytest.fixture
def kerberos_house(tmp_path: Path, kerberized: Hadoop) -> Iterator[YarnHouse]:
    """Return a home whose clusters run in `kerberized`, with a fresh ticket."""
    kerberized.log_in()
    one = YarnHouse(tmp_path, kerberized)
    yield one
    kerberized.up()
    kerberized.log_in()
    one.clear()


@pytest.fixture(scope="module")
def shared_hadoop_ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with sandbox(tmp_path_factory.mktemp("ha") / "sandbox", ha=True, nodes=1) as one:
        yield one


@pytest.fixture
def hadoop_ha(shared_hadoop_ha: Hadoop) -> Hadoop:
    """Another YARN, of two ResourceManagers and one node; for `YarnHouse(tmp_path, hadoop_ha)`."""
    shared_hadoop_ha.up()
    return shared_hadoop_ha
