"""A master on another machine: who brings its files, where it listens, whose word it takes."""

import gc
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import httpx
import pytest
from master_in_thread import at_work, brought, running

from tarn import master, plugins
from tarn.clock import SystemClock
from tarn.control.state import load_state
from tarn.domain import Epoch, ProxyRule, SavedState
from tarn.errors import ConfigError, LaunchError, ProviderError
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.http.server import HttpServer
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeRuntime
from tarn.testing.wait import until

TOKEN = "correct-horse"


class Elsewhere:
    """A runtime whose files are packed, and whose machine has a name."""

    def __init__(self, name: str = "elsewhere", host: str = "localhost", port: int = 0) -> None:
        self.name, self.port, self.host = name, port, host
        self.runtime = FakeRuntime()
        self.unpacked: list[tuple[Path, str]] = []

    def unpack(self, directory: Path, environ: Mapping[str, str]) -> None:
        self.unpacked.append((directory, environ["CONTAINER"]))
        spec = cluster_spec()
        spec = attrs.evolve(
            spec,
            runtime=attrs.evolve(spec.runtime, use=self.name),
            api=attrs.evolve(spec.api, port=self.port),
            replicas=attrs.evolve(spec.replicas, min=0),
        )
        brought(directory, spec, TOKEN)

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        made = running(
            self.runtime,
            unpack=self.unpack,
            host=lambda environ: environ.get("HOST", self.host),
            proxy=lambda _settings, _directory, environ: ProxyRule(
                frozenset({"127.0.0.1"}), environ["USER"], proves=True
            ),
        )
        return {"elsewhere": made, "other": made}


ENVIRON = {"CONTAINER": "c1", "USER": "alice", "HOME": "/nowhere"}


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def at_its_work(elsewhere: Elsewhere, tmp_path: Path) -> Iterator[None]:
    """Run a master of it on a thread until the test is over."""
    with at_work(tmp_path, elsewhere, elsewhere.runtime, ENVIRON, "elsewhere"):
        yield


@pytest.mark.usefixtures("at_its_work")
def test_the_runtime_brings_the_files_and_the_name_is_advertised(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """It listens at the address of that name."""
    assert elsewhere.unpacked == [(tmp_path, "c1")]
    assert elsewhere.runtime.api_url.startswith("http://localhost:")
    headers = {"X-TARN-Token": TOKEN}
    answer = httpx.get(f"{elsewhere.runtime.api_url}/api/v1/status", headers=headers)
    assert answer.json()["runtime"] == "elsewhere"


@pytest.mark.usefixtures("at_its_work")
def test_the_owner_comes_in_through_the_proxy_without_the_token(elsewhere: Elsewhere) -> None:
    """As whom the runtime says; of others it is known who they are, and that they may nothing."""
    for cookie, status in (("proxy-user=alice", 200), ("proxy-user=bob", 403)):
        headers = {"Cookie": cookie}
        answer = httpx.get(f"{elsewhere.runtime.api_url}/api/v1/status", headers=headers)
        assert answer.status_code == status


def test_the_garbage_collector_leaves_alone_what_a_master_consists_of(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """From when it works until it ends."""
    assert gc.get_freeze_count() == 0
    with at_work(tmp_path, elsewhere, elsewhere.runtime, ENVIRON, "elsewhere"):
        until(lambda: gc.get_freeze_count() > 0)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("at_its_work")
def test_every_thread_of_a_master_is_a_daemon() -> None:
    """Nothing can keep its process from ending."""
    names = {t.name for t in threading.enumerate() if not t.daemon}
    assert names <= {"MainThread"}


def test_a_spec_of_another_runtime_is_refused(tmp_path: Path) -> None:
    """Both are named, and the file."""
    offered = plugins.load([Elsewhere("other")])
    with pytest.raises(ConfigError, match="'other'; the master was started for 'elsewhere'"):
        master.run(tmp_path, ENVIRON, threading.Event(), "elsewhere", offered)


def test_a_fixed_port_that_is_taken_ends_the_master_in_words(tmp_path: Path) -> None:
    """Before the runtime heard of it."""
    held = HttpServer()
    try:
        there = Elsewhere(host="127.0.0.1", port=held.port)
        with pytest.raises(LaunchError, match="HTTP service cannot listen: Address already in use"):
            master.run(tmp_path, ENVIRON, threading.Event(), "elsewhere", plugins.load([there]))
        assert there.runtime.api_url == ""
    finally:
        held.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_a_name_that_is_not_this_machine_says_so(host: str) -> None:
    """Not the port is to blame."""
    with pytest.raises(LaunchError, match="must lead to an address of this machine"):
        HttpServer(host)


class Away:
    """A state store that answers at the third time."""

    def __init__(self, retry_after_s: float | None = 0.01) -> None:
        self.retry_after_s = retry_after_s
        self.asked = 0

    def load(self) -> tuple[SavedState | None, tuple[str, ...]]:
        self.asked += 1
        if self.asked < 3:
            raise ProviderError("fake", "away", retry_after_s=self.retry_after_s)
        return SavedState(2), ()

    def save(self, state: SavedState, epoch: Epoch) -> None:
        """Nothing is kept."""


def test_a_state_store_that_is_away_is_waited_for() -> None:
    """Unless it says that it is no use, or the master is to leave."""
    stop, store = threading.Event(), Away()
    assert load_state(store, SystemClock(), stop) == (SavedState(2), ())
    with pytest.raises(ProviderError):
        load_state(Away(None), SystemClock(), stop)
    stop.set()
    store = Away()
    with pytest.raises(ProviderError):
        load_state(store, SystemClock(), stop)
    assert store.asked == 1
