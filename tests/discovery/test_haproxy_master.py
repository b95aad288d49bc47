"""A master that drives a HAProxy on its own machine, from `up` to `down`."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, clear, kill, until
from servers.haproxy import ThreeBackendHaproxy
from servers.lb_agent import fake_tritons

pytestmark = [pytest.mark.discovery, pytest.mark.timeout(120)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "house").mkdir()
    one = House(tmp_path / "house")
    yield one
    clear(one)


def _ports(home: House) -> set[int]:
    return {int(one["http"].rpartition(":")[2]) for one in home.status("echo")["instances"]}


def _serving(haproxy: ThreeBackendHaproxy) -> set[int]:
    return {port for _, port in haproxy.serving().values()}


def test_a_fleet_is_in_haproxy_from_up_to_down(home: House, haproxy: ThreeBackendHaproxy) -> None:
    """Scaled, the master killed (-9) and back, HAProxy restarted: always who is ready."""
    options = {"socket": str(haproxy.socket), "grpc_backend": "triton_grpc"}
    spec = home.spec(
        "echo",
        discovery=[{"use": "haproxy", "required": True, "options": options}],
        **fake_tritons(home.root),
    )
    done = home.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    until(lambda: len(_serving(haproxy)) == 2, 10, "two servers")
    assert _serving(haproxy) == _ports(home)
    until(lambda: haproxy.get("/v2/health/ready")[0] == 200, 5, "an answer through HAProxy")
    assert home.tarn("scale", "3", "-c", "echo").returncode == 0
    until(lambda: len(_serving(haproxy)) == 3, 20, "a third")
    assert home.tarn("scale", "1", "-c", "echo").returncode == 0
    until(lambda: len(haproxy.servers()) == 1, 20, "one left")
    until(lambda: _serving(haproxy) == _ports(home), 20, "the same one")
    before = haproxy.serving()
    kill(int(home.ref("echo")["pid"]), signal.SIGKILL)
    until(lambda: home.answered("echo"), 30, "the next master")
    assert haproxy.serving() == before
    haproxy.restart()
    until(lambda: haproxy.serving() == before, 10, "the restarted HAProxy filled")
    done = home.tarn("down", "-c", "echo")
    assert done.returncode == 0, done.stderr
    until(lambda: haproxy.servers() == {}, 5, "nothing left")


def test_a_start_without_haproxy_says_why(home: House, tmp_path: Path) -> None:
    """Not required: the fleet serves, and `status` says which socket is missing."""
    options = {"socket": str(tmp_path / "no.sock")}
    spec = home.spec(
        "echo",
        discovery=[{"use": "haproxy", "options": options}],
        **fake_tritons(home.root),
    )
    done = home.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    until(lambda: "there is no such socket" in home.tarn("status", "-c", "echo").stdout, 20, "why")
