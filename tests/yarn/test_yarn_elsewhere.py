"""The same cluster from another home, and from behind a firewall."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from house import House, until
from page_links import Links
from servers.yarn import Hadoop
from walled import Wall, wall
from yarn_fleet import Fleet

from tarn.errors import NotAuthorizedError, TarnError

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

ONE = {"min": 1, "max": 2, "initial": 1}


def home(root: Path, hadoop: Hadoop) -> House:
    """Return another home of the same user, in which nothing is kept."""
    root.mkdir()
    one = House(root)
    one.environ |= hadoop.environ
    return one


@pytest.fixture
def firewall(tmp_path: Path, hadoop: Hadoop) -> Iterator[Wall]:
    """A real one: nothing of the nodes is reached from behind it; YARN and HDFS are."""
    folder = tmp_path / "wall"
    folder.mkdir()
    with wall(folder, hadoop.options) as one:
        yield one


def behind(one: House, firewall: Wall) -> House:
    """Return the same home for a client behind the firewall."""
    there = House(one.root, firewall.python)
    there.environ |= one.environ
    return there


def told(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(300)
def test_two_homes_have_one_cluster(yarn_house, hadoop, firewall, tmp_path) -> None:
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
    shut = behind(yarn_house, firewall).tarn("status", "-c", "homes")
    assert shut.returncode == NotAuthorizedError.exit_code, shut.stderr
    assert "does not pass api tokens on" in shut.stderr
    assert "token: none" in shut.stderr

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


VERBS = """
import itertools, json, sys, threading
import tarn

told = {}
cluster = tarn.connect("proxied")
cluster.adapt(min=1, max=2)
told["limits"] = cluster.status()["limits"]
cluster.scale(2)
cluster.wait(ready=2, timeout="90s")
cluster.watch("ready=2", "20s")
two = [one["id"] for one in cluster.instances()]
told["two"] = two
told["why"] = cluster.why(), cluster.why(two[0])
try:
    list(cluster.logs(two[0]))
except tarn.errors.NotFoundError as error:
    told["logs"] = str(error)
told["events"] = [event["code"] for event in cluster.events()]
stop = threading.Event()
news = itertools.islice((m.data["code"] for m in cluster.follow(stop) if m.event == "event"), 2)
told["followed"] = list(news)
try:
    with cluster.client(wait_s=1) as client:
        client.get_model_metadata("echo")
except tarn.errors.UnreachableError as error:
    told["client"] = str(error)
cluster.drain(two[0], now=True)
cluster.scale(1)
told["url"] = cluster.url
json.dump(told, sys.stderr)
"""
"""Every verb, from one process; the result is the last line of standard error."""


@pytest.mark.timeout(300)
def test_every_verb_works_through_the_proxy(yarn_house, hadoop, firewall) -> None:
    """A port that refuses, then one that drops all: with `api: {token: none}` nothing is missed."""
    fleet = Fleet(yarn_house, hadoop, "proxied")
    fleet.up(yarn_house.spec("proxied", replicas=ONE, api={"token": "none"}))
    direct = fleet.settled(1)
    there = behind(yarn_house, firewall)
    seen = there.tarn("status", "-c", "proxied", "-o", "json")
    assert told(seen)["instances"][0]["container_id"] == direct["instances"][0]["container_id"]
    assert "through the proxy http://rm." in seen.stderr
    assert "nobody listens there" in seen.stderr

    url = urlsplit(fleet.url)
    firewall.silence((socket.gethostbyname(str(url.hostname)), url.port or 0))
    done = subprocess.run(
        [firewall.python, "-c", VERBS],
        check=False, capture_output=True, text=True, cwd=there.root, env=there.environ, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no connection within the time limit" in done.stderr
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["limits"]["max"] == 2
    assert len(found["two"]) == 2
    assert all(found["why"])
    assert "no log" in found["logs"], "is on its node"
    assert {"TARN-1002"} < set(found["events"])
    assert set(found["followed"]) <= set(found["events"])
    assert "no instance took the request" in found["client"]
    assert "load balancer" in found["client"]
    assert "/proxy/application_" in found["url"]

    assert there.tarn("down", "-c", "proxied", "--timeout", "60s", timeout_s=120).returncode == 0
    until(lambda: not yarn_house.applications("proxied"), 20, "its end")
    refused = there.tarn("scale", "1", "-c", "proxied")
    assert refused.returncode >= TarnError.exit_code


def test_every_page_works_under_the_proxys_prefix(yarn_house, hadoop) -> None:
    """What `/` links to is the same page there, with a slash at the end of both or without."""
    fleet = Fleet(yarn_house, hadoop, "pages")
    fleet.up(yarn_house.spec("pages", replicas=ONE, api={"token": "none"}))
    fleet.settled(1)
    proxy = str(yarn_house.ref("pages")["proxy_url"]).rstrip("/")
    with httpx.Client(trust_env=False, follow_redirects=True) as web:
        for root in (proxy, f"{proxy}/", fleet.url, f"{fleet.url}/"):
            page = web.get(root)
            assert "text/html" in page.headers["Content-Type"]
            links = Links(page.content, root).targets()
            assert len(links) > 5
            for link in links:
                assert link.startswith(f"{root.rstrip('/')}/")
                path = link.removeprefix(f"{root.rstrip('/')}/")
                there = web.get(f"{fleet.url}/{path}")
                for end in ("", "/"):
                    here = web.get(f"{link}{end}")
                    assert here.status_code == there.status_code == 200, link
                    kind = here.headers["Content-Type"].replace(" ", "")
                    assert kind.startswith(there.headers["Content-Type"].replace(" ", "")), link
        _only_get_and_put_pass(web, proxy)
    fleet.down()


def _only_get_and_put_pass(web: httpx.Client, proxy: str) -> None:
    """What every write of ours relies on, and what does not come through."""
    scale = f"{proxy}/api/v1/scale"
    assert web.put(scale, json={"replicas": 1}).status_code == 200
    assert web.post(scale, json={"replicas": 1}).status_code == 405
    assert web.delete(scale).status_code == 405
    # no header of ours passes: neither the api token nor the condition of a write
    conditional = web.put(scale, json={"replicas": 1}, headers={"If-Match": '"999"'})
    assert conditional.status_code == 200
    # a stream is collected, and comes once it is over: not even its headers come before
    asks = {"Accept": "text/event-stream"}
    with pytest.raises(httpx.ReadTimeout):
        web.get(f"{proxy}/api/v1/stream", headers=asks, timeout=2)
