"""The same cluster from another home, and from behind a firewall."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from house import House, ids, until
from yarn_fleet import Fleet
from yarn_stage import Hadoop

from tarn.errors import NotAuthorizedError, TarnError

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

ONE = {"min": 1, "max": 2, "initial": 1}
FIREWALL = """
import socket

_asked = socket.getaddrinfo


def getaddrinfo(host, port, *rest, **more):
    node = isinstance(host, str) and host.startswith("nm")
    return _asked("127.0.0.1" if node else host, 1 if node else port, *rest, **more)


socket.getaddrinfo = getaddrinfo
"""
"""For this client no node is where its name says; the ResourceManager is."""


def home(root: Path, hadoop: Hadoop) -> House:
    """Return another home of the same user, in which nothing is kept."""
    root.mkdir()
    one = House(root)
    one.environ |= hadoop.environ
    return one


def firewall(folder: Path) -> dict[str, str]:
    """Return the environment of a client that reaches no node."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FIREWALL)
    return {"PYTHONPATH": str(folder)}


def told(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(300)
def test_two_homes_have_one_cluster(yarn_house, hadoop, tmp_path) -> None:
    """Two `up` at once: one wins; both know it; who has nothing finds it by its tag."""
    there = home(tmp_path / "there", hadoop)
    spec = Path(yarn_house.spec("homes", replicas=ONE)).rename(tmp_path / "tarn.yaml")
    (there.root / "tarn.yaml").write_text(spec.read_text())
    both = [one.start("up", "--timeout", "120s") for one in (yarn_house, there)]
    ends = [(one.communicate(timeout=150), one.returncode) for one in both]
    assert [code for _, code in ends] == [0, 0], ends
    assert len(yarn_house.applications("homes")) == 1
    here_ref, there_ref = yarn_house.ref("homes"), there.ref("homes")
    assert here_ref["application_id"] == there_ref["application_id"]
    first, second = yarn_house.status("homes"), there.status("homes")
    assert first["instances"][0]["container_id"] == second["instances"][0]["container_id"]

    # the spec of a third one says where the token lies
    third = home(tmp_path / "third", hadoop)
    refused = third.tarn("status", "-c", "homes")
    assert refused.returncode == NotAuthorizedError.exit_code, refused.stderr
    assert "api token is not kept here" in refused.stderr
    assert "tarn.yaml" in refused.stderr
    (third.root / "tarn.yaml").write_text(spec.read_text())
    assert told(third.tarn("status", "-o", "json"))["ready"] == 1
    token = third.directory("homes") / "api_token"
    assert token.read_bytes() == (yarn_house.directory("homes") / "api_token").read_bytes()
    assert token.stat().st_mode & 0o777 == 0o600
    program = "import tarn; print(tarn.connect('homes').status()['ready'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True, capture_output=True, text=True, cwd=third.root, env=third.environ, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "1"

    # what runs is attached to, or told apart
    assert third.tarn("up", timeout_s=120).returncode == 0
    other = third.tarn("up", "--set", "replicas.max=3")
    assert "TARN-2102" in other.stderr
    assert len(yarn_house.applications("homes")) == 1

    # behind a firewall the proxy lets nobody in without the token
    behind = yarn_house.tarn("status", "-c", "homes", **firewall(tmp_path / "wall"))
    assert behind.returncode == NotAuthorizedError.exit_code, behind.stderr
    assert "No api token passes the proxy" in behind.stderr
    assert "token: none" in behind.stderr

    # its end is known to who started it, and to who never heard of it
    assert third.tarn("down", "-c", "homes", "--timeout", "60s").returncode == 0
    fourth = home(tmp_path / "fourth", hadoop)
    for one in (fourth, there, yarn_house):
        shown = until(lambda one=one: _over(one, "homes"), 30, "the end")
        assert shown["state"] == "stopped"


def _over(one: House, name: str) -> dict[str, Any] | None:
    done = one.tarn("status", "-c", name, "-o", "json")
    status = json.loads(done.stdout) if done.returncode == 0 else {}
    return status if status.get("ended_at") else None


@pytest.mark.timeout(300)
def test_every_verb_works_through_the_proxy(yarn_house, hadoop, tmp_path) -> None:
    """GET and PUT, with `api: {token: none}`; the client says which way it goes."""
    fleet = Fleet(yarn_house, hadoop, "proxied")
    fleet.up(yarn_house.spec("proxied", replicas=ONE, api={"token": "none"}))
    direct = fleet.settled(1)
    wall = firewall(tmp_path / "wall")

    def through(*arguments: str) -> str:
        done = yarn_house.tarn(*arguments, "-c", "proxied", timeout_s=120, **wall)
        assert done.returncode == 0, done.stderr
        assert "through the proxy http://rm." in done.stderr
        return str(done.stdout)

    seen = json.loads(through("status", "-o", "json"))
    assert seen["instances"][0]["container_id"] == direct["instances"][0]["container_id"]
    through("scale", "2")
    through("wait", "--for", "ready=2", "--timeout", "60s")
    assert len(ids(fleet.status())) == 2
    assert "scale" in through("events")
    assert through("why").strip()
    through("down", "--timeout", "60s")
    until(lambda: not yarn_house.applications("proxied"), 20, "its end")
    refused = yarn_house.tarn("scale", "1", "-c", "proxied", **wall)
    assert refused.returncode >= TarnError.exit_code
