"""For every test: which ones run, on which worker, and with how many examples.

A law is judged by its examples, never by how busy the machine is.
"""

import asyncio
import os

import pytest
from fewer_examples import WHOLE, scale_examples
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "kerberized": ("test_yarn_kerberos.py", "test_yarn_kerberos_door.py", "test_yarn_matrix.py"),
    "knox": (
        *("test_authz_knox.py", "test_authz_matrix.py"),
        *("test_knox_gateway.py", "test_knox_zookeeper.py"),
    ),
}
"""Files that share a server which is dear to start: one worker gets all of them."""

# What `CI` in the environment chooses has no deadline either, and is left as it is.
settings.register_profile(
    "tarn", settings(), deadline=None, suppress_health_check=(HealthCheck.too_slow,)
)
settings.register_profile("quick", settings.get_profile("tarn"), max_examples=WHOLE // 10)
if settings.default.deadline is not None:
    settings.load_profile("tarn")
if (profile := os.environ.get("TARN_TEST_PROFILE")) is not None:  # noqa: TID251
    settings.load_profile(profile)


# Pure code needs attrs and nothing else, which all other code needs, too.
ONCE = ("tests/unit/domain/", "tests/unit/simulator/", "tests/unit/plain/")
LONG = ("properties", "yarn_core", "yarn_laws", "mutations")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--interpreters",
        choices=("all", "each", "once"),
        default="all",
        help="each: only tests that may depend on an interpreter, or on a library's version; "
        "once: only the others",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose by `--interpreters`, and run as many examples as the profile says."""
    part = config.getoption("interpreters")
    if part != "all":
        left = [item for item in items if _may_depend(item) != (part == "each")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if _may_depend(item) == (part == "each")]
    _follow_profile(items)


def _may_depend(item: pytest.Item) -> bool:
    name = item.nodeid
    inside = name.startswith("tests/unit/") and not name.startswith(ONCE)
    return inside and not any(word in name for word in LONG)


def _follow_profile(items: list[pytest.Item]) -> None:
    """Scale the examples also where a test names a number."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    scale_examples(
        (getattr(item.obj, "__func__", item.obj) for item in functions),
        (item.cls for item in functions if item.cls is not None),
    )


@pytest.fixture(params=["short way", "h11"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve HTTP as installed; then without the short way, and by a loop of asyncio's own."""
    if request.param == "h11":
        monkeypatch.setattr("tarn.http.connection.HOT", frozenset())
        monkeypatch.setattr("tarn.http.server.new_loop", asyncio.new_event_loop)


class _Files(LoadFileScheduling):
    """Gives whole files to workers, and those of `TOGETHER` to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((name for name, files in TOGETHER.items() if file.endswith(files)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Have files distributed as `_Files` does, where files are."""
    return _Files(config, log) if config.getvalue("dist") == "loadfile" else None
