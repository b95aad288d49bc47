"""Logs of a real fleet: while it runs, of an instance that ended, and after the end."""

import re
from collections.abc import Iterator
from itertools import islice

import httpx
import pytest
from house import until
from stand_in_deployer import DeployerHomes
from yarn_fleet import Fleet

from tarn.cluster import Cluster, ClusterEnvironment, connect
from tarn.cluster.read.logs import MASTER
from tarn.errors import NotFoundError

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.timeout(300)]

LONG = "x" * 3000


@pytest.fixture
def connected(yarn_house) -> Iterator:
    """Connect to clusters in this process: one child asks YARN for all of it."""
    made: list[Cluster] = []

    def cluster(name: str) -> Cluster:
        made.append(connect(name, environment=ClusterEnvironment(yarn_house.environ)))
        return made[-1]

    yield cluster
    for one in made:
        one.detach()


def test_logs_of_masters_and_instances_before_and_after_the_end(
    yarn_house, hadoop, connected
) -> None:
    """Also of an instance that ended before; afterwards from what YARN collected."""
    fleet = Fleet(yarn_house, hadoop, "logs")
    fleet.up(yarn_house.spec("logs", replicas={"min": 1, "max": 2, "initial": 2}))
    first, second = (item["id"] for item in fleet.settled(2)["instances"])
    cluster = connected("logs")
    for id_ in (first, second):
        assert any(_names(line, id_) for line in cluster.logs(id_))
        assert len(list(cluster.logs(id_, 3))) == 3
    assert cluster.logged() == (MASTER, first, second)
    assert {line.source for line in cluster.log_lines()} == {MASTER, first, second}
    followed = cluster.follow_log_lines([first, MASTER], tail=1)
    assert {line.source for line in islice(followed, 1)} <= {first, MASTER}
    assert fleet.tarn("logs", second, "--tail", "2").count("\n") == 2
    _asks_the_master(fleet, cluster, first)
    fleet.tarn("scale", "1")
    (left,) = (item["id"] for item in fleet.settled(1)["instances"])
    gone = first if left == second else second
    assert any(_names(line, gone) for line in cluster.logs(gone)), "it is over, its log is not"
    assert _asked(fleet, gone, 3)["lines"]

    fleet.down()
    client = DeployerHomes(hadoop).deployer(
        yarn_house.root / "another-home", staging=yarn_house.staging
    )
    ending = until(lambda: client.ended("logs"), 30, "the end of the application")
    assert ending.state == "stopped"
    for id_ in (first, second):
        lines = until(lambda id_=id_: _lines(client, ending.ref, id_), 60, f"the log of {id_}")
        assert any(_names(line, id_) for line in lines)
    assert _lines(client, ending.ref, "")
    assert client.logged(ending.ref) == tuple(sorted((first, second)))
    assert not _lines(client, ending.ref, "logs-0099")


def test_a_log_on_a_node_is_kept_below_its_bound(yarn_house, hadoop, connected) -> None:
    """What was moved aside is read, too, wherever it is; YARN has all of it at the end."""
    fleet = Fleet(yarn_house, hadoop, "bounded")
    verbose, bound = {"args": {"log-verbose": 1}}, {"triton_max_size": "1MiB"}
    one_only = {"min": 1, "max": 1}
    fleet.up(yarn_house.spec("bounded", replicas=one_only, log=bound, triton=verbose))
    (one,) = fleet.settled(1)["instances"]
    cluster = connected("bounded")
    with httpx.Client(base_url=f"http://{one['http']}", trust_env=False) as web:
        for number in range(400):  # each is a line of 3 kB
            web.get(f"/v2/models/{LONG}{number:04}-/config")
    (log,) = hadoop.directory.rglob(f"*{one['container_id']}/triton.stderr")
    assert (log.parent / f"instance-{one['id']}").is_file()
    until(lambda: log.stat().st_size < 2**20, 30, "a log that was moved aside")
    whole = "\n".join(cluster.logs(one["id"]))
    written = _written(whole)  # on the node, or collected already, and not twice
    assert f"| {one['id']} " in whole
    asked = _asked(fleet, one["id"], 2000)
    assert asked["lines"]
    fleet.down()
    client = DeployerHomes(hadoop).deployer(
        yarn_house.root / "another-home", staging=yarn_house.staging
    )
    ending = until(lambda: client.ended("bounded"), 30, "the end of the application")

    lines = until(lambda: _lines(client, ending.ref, one["id"]), 60, "what was collected")
    assert _written("\n".join(lines)) == written
    assert client.logged(ending.ref) == (one["id"],)


def _written(log: str) -> list[str]:
    """Return the numbers of the requests in a log: each once, but for the moment of the cut."""
    numbers = re.findall(rf"{LONG}(\d+)-", log)
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 395
    return numbers


def _names(line: str, id_: str) -> bool:
    return line.startswith("| server_id ") and f"| {id_} " in line


def _asks_the_master(fleet: Fleet, cluster: Cluster, id_: str) -> None:
    """The end of a log over HTTP: from the node of a container, and the master's own file."""
    asked = _asked(fleet, id_, 3)
    assert (len(asked["lines"]), asked["truncated"]) == (3, True)
    assert asked["lines"][-1] in list(cluster.logs(id_, 50))
    assert "epoch" in "\n".join(_asked(fleet, "", 50)["lines"])
    headers = {"X-TARN-Token": fleet.api_token}
    where = f"{fleet.url}/api/v1/logs?instance=logs-0099"
    assert httpx.get(where, headers=headers, trust_env=False).status_code == 404


def _asked(fleet: Fleet, id_: str, lines: int) -> dict:
    answer = httpx.get(
        f"{fleet.url}/api/v1/logs",
        params={"instance": id_, "lines": lines},
        headers={"X-TARN-Token": fleet.api_token},
        trust_env=False,
        timeout=20,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def _lines(client, ref, id_: str) -> list[str]:
    try:
        return list(client.logs(ref, id_, None))
    except NotFoundError:
        return []
