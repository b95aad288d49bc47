"""The agent keeps HAProxy's questions at the master: a real master, HAProxy and Triton."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, clear, kill, until
from servers.guarded_haproxy import GATE, TOKEN, GuardedHaproxy
from servers.haproxy import HAPROXY, OneBackendHaproxy
from servers.lb_agent import AgentProcess, agent

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.triton,
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
NAME = "guarded"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A home with one cluster of one Triton, whose authorizer lets everybody use models."""
    root = tmp_path_factory.mktemp("guarded")
    one = House(root)
    sizes = {"min": 1, "max": 1, "initial": 1}
    (root / "lb1.token").write_text(TOKEN)
    (root / "lb1.token").chmod(0o600)
    proxy = {"name": "lb1", "address": "127.0.0.0/8", "authenticated_by": "token"}
    api = {"trusted_proxies": [{**proxy, "token": "file:lb1.token"}]}
    spec = one.spec(NAME, replicas=sizes, api=api)
    try:
        done = one.tarn("up", "-f", spec)
        assert done.returncode == 0, done.stderr
        done = one.tarn("wait", "-c", NAME, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        yield one
    finally:
        clear(one)


def _door(root: Path, token: str = TOKEN) -> GuardedHaproxy:
    """Return a HAProxy that knows no master, and no server."""
    door = GuardedHaproxy(root, None, 0, {"grace_s": 0}, cluster=NAME)
    door.environ["TARN_PROXY_TOKEN"] = token
    return door


def _agent(house: House, door: GuardedHaproxy) -> AgentProcess:
    words = door.settings.agent.split()[3:]
    return agent(house, *words, "--name", "lb1")


def _uses_triton(door: GuardedHaproxy) -> None:
    """Infer, and look at what Triton itself would show and do to whoever reaches it."""
    tensor = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [7, 8]}
    body = json.dumps({"inputs": [tensor]}).encode()
    head = (
        "POST /v2/models/echo/infer?user.name=alice HTTP/1.1\r\nHost: lb\r\n"
        f"X-Tarn-Gate: {GATE}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = door.raw(head.encode() + body)
    assert json.loads(answer.body)["outputs"][0]["data"] == [7, 8]
    for path in ("/v2", "/v2/models/stats", "/v2/models/echo/versions/1/config"):
        assert door.knox(path).status == 200
    assert door.knox("/v2/models/nix").status == 404
    for path in ("/v2/logging", "/v2/trace/setting", "/v2/repository/models/echo/unload"):
        assert b"forbidden" in door.knox(path, "POST").body


def test_questions_go_to_the_present_master(house: House, tmp_path: Path) -> None:
    """Also after it was killed, was looked for elsewhere, and after HAProxy forgot where it is."""
    with _door(tmp_path) as door:
        assert door.knox("/v2/models/echo").status == 503
        with _agent(house, door) as one:
            until(lambda: door.knox("/v2/models/echo").status == 200, 30, "a first answer")
            one.heard("HAProxy asks the master at 127.0.0.1:")
            _uses_triton(door)
            before = house.ref(NAME)
            kill(before["pid"])
            until(lambda: house.ref(NAME)["epoch"] != before["epoch"], 30, "the next master")
            until(lambda: door.knox("/v2/models/next").status != 503, 20, "its first answer")
            door.command("set server tarn_master/master addr 127.0.0.9 port 9")
            until(lambda: door.knox("/v2/models/moved").status != 503, 10, "asked where it is")
            door.stop()
            door.start()
            until(lambda: door.knox("/v2/models/echo").status == 200, 20, "asked again")
            assert "Traceback" not in one.said()


def test_a_proxy_that_the_master_does_not_know_lets_nobody_pass(
    house: House, tmp_path: Path
) -> None:
    """Its log has what the master answered."""
    with _door(tmp_path, "token-of-somebody-else") as door, _agent(house, door) as one:
        one.heard("HAProxy asks the master at 127.0.0.1:")
        until(lambda: "why=master-401" in door.log.read_text() or _asks(door), 20, "the reason")
        assert door.knox("/v2/models/echo").status == 503


def _asks(door: GuardedHaproxy) -> bool:
    assert door.knox("/v2/models/echo").status == 503
    return False


def test_a_file_that_asks_nobody_is_told_at_the_start(house: House, tmp_path: Path) -> None:
    """Rather than a door that stays closed and says nothing."""
    with (
        OneBackendHaproxy(tmp_path) as proxy,
        agent(house, "-c", NAME, "--socket", str(proxy.socket), "--authz") as one,
    ):
        assert one.process.wait(30) == 2
        assert "TARN-3337" in one.said()
        assert "config --authz" in one.said()
