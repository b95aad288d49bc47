"""Two fleets of real Tritons: one is attacked; its users and the other fleet lose nothing.

``TARN_TEST_ATTACK_S`` says for how many seconds (12; a whole run is 300).
"""

import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import attackers
import pytest
from house import House, clear, until
from servers.guarded_haproxy import TOKEN, GuardedHaproxy
from servers.haproxy import HAPROXY
from servers.lb_agent import agent

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.timed,
    pytest.mark.triton,
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
SECONDS = float(os.environ.get("TARN_TEST_ATTACK_S", "12"))  # noqa: TID251
ATTACKED, QUIET = "attacked", "quiet"
VIEWER_TOKEN = "token-of-who-may-only-look-0001"
GAP_S = 0.05
RATE = 40
"""Requests a second about one user; the flood asks for more."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    for name, text in (("lb1", TOKEN), ("viewer", VIEWER_TOKEN)):
        (tmp_path / f"{name}.token").write_text(text)
        (tmp_path / f"{name}.token").chmod(0o600)
    yield one
    clear(one)


def start(home: House, name: str, **keys: object) -> None:
    spec = home.spec(name, replicas={"min": 2, "max": 2, "initial": 2}, **keys)
    done = home.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    done = home.tarn("wait", "-c", name, "--for", "ready=2", "--timeout", "60s")
    assert done.returncode == 0, done.stderr


class Users:
    """Send numbered inferences one after the other, and note which have not their answer."""

    def __init__(self, infer: Callable[[int], list[float]]) -> None:
        self._infer, self._ended = infer, threading.Event()
        self.sent, self.lost = 0, list[str]()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        for number in itertools.count():
            if self._ended.wait(GAP_S):
                return
            self.sent += 1
            try:
                found = self._infer(number)
                problem = "" if found == [7.0, float(number)] else f"answered {found}"
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                self.lost.append(f"{number}: {problem}")


def body(number: int) -> bytes:
    tensor = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [7, number]}
    return json.dumps({"inputs": [tensor]}).encode()


def through(door: GuardedHaproxy) -> Callable[[int], list[float]]:
    """Infer as alice, through the HAProxy that asks the master."""

    def infer(number: int) -> list[float]:
        data = body(number)
        head = (
            "POST /v2/models/echo/infer?user.name=alice HTTP/1.1\r\nHost: lb\r\n"
            f"X-Tarn-Gate: {door.environ['TARN_KNOX_GATE']}\r\nConnection: close\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        answer = door.raw(head.encode() + data)
        if answer.status != http.client.OK:
            raise OSError(f"{answer.status}: {answer.body[:200]!r}")
        return json.loads(answer.body)["outputs"][0]["data"]

    return infer


def straight(addresses: list[str]) -> Callable[[int], list[float]]:
    """Infer at the instances in turn."""

    def infer(number: int) -> list[float]:
        host, _, port = addresses[number % len(addresses)].rpartition(":")
        line = http.client.HTTPConnection(host, int(port), timeout=10)
        try:
            line.request("POST", "/v2/models/echo/infer", body(number))
            answer = line.getresponse()
            return json.loads(answer.read())["outputs"][0]["data"]
        finally:
            line.close()

    return infer


def attack(home: House, door: GuardedHaproxy) -> dict[str, int]:
    """Attack for `SECONDS`, and return what became of it."""
    port = home.ref(ATTACKED)["url"].rpartition(":")[2]
    words = [str(SECONDS), port, str(door.http_port), VIEWER_TOKEN]
    done = subprocess.run(
        [sys.executable, attackers.__file__, *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS + 60,
    )
    return json.loads(done.stdout)


def unwell(home: House, name: str) -> list[str]:
    """Return the codes of all that happened to instances since they were ready."""
    done = home.tarn("events", "-c", name, "-o", "json")
    assert done.returncode == 0, done.stderr
    bad = {"TARN-1105", "TARN-1106", "TARN-1108", "TARN-1010", "TARN-1301"}
    return [one["code"] for one in json.loads(done.stdout) if one["code"] in bad]


@pytest.mark.timeout(SECONDS + 180)
def test_an_attack_on_one_fleet_costs_its_users_nothing_and_the_other_fleet_nothing(
    home: House, tmp_path: Path
) -> None:
    """Idle connections, streams of a viewer, and a flood of invented models, all at once."""
    by_token = {"authenticated_by": "token"}
    lb = {"name": "lb1", "address": "127.0.0.1", "token": "file:lb1.token", **by_token}
    viewer = {"name": "viewer", "address": attackers.VIEW_FROM, "token": "file:viewer.token"}
    proxies = [lb, {**viewer, **by_token, "users": ["bob"]}]
    start(
        home,
        ATTACKED,
        api={"trusted_proxies": proxies, "rate_limit": RATE},
        viewers={"users": ["bob"]},
    )
    start(home, QUIET)
    (tmp_path / "lb").mkdir()
    door = GuardedHaproxy(tmp_path / "lb", None, 0, {"grace_s": 5}, cluster=ATTACKED)
    words = door.settings.agent.split()[3:]
    with door, agent(home, *words, "--name", "lb1") as agent_process:
        until(lambda: door.knox("/v2/models/echo").status == 200, 30, "a first answer")
        at = [one["http"] for one in home.status(QUIET)["instances"]]
        with Users(through(door)) as alice, Users(straight(at)) as others:
            until(lambda: alice.sent > 20 and others.sent > 20, 30, "both loads")
            told = attack(home, door)
        print(f"attack: {told}; alice {alice.sent}, others {others.sent}")
        assert agent_process.process.poll() is None, agent_process.said()
    assert told["idle opened"] > 500
    assert told["idle closed by the master"] > 0
    assert 1 <= told["stream 200"] <= 20
    assert told["flood 503"] > 0
    assert sum(count for what, count in told.items() if what.startswith("flood")) > 10 * SECONDS
    assert alice.lost == []
    assert others.lost == []
    for name in (ATTACKED, QUIET):
        assert home.status(name)["state"] == "ready"
        assert unwell(home, name) == []
