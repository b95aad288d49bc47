"""Round after round on a real YARN: nothing of a fleet that is over stays anywhere."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from house import kill, until
from servers.yarn import Hadoop, YarnHouse
from yarn_fleet import Fleet

from tarn.config import environ

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

ROUNDS = int(environ().get("TARN_TEST_ROUNDS", "2"))
"""The first makes what is kept on purpose, such as caches; none after it may add anything."""
JAVA = (
    ".attach_pid*",
    ".java_pid*",
    "hadoop-unjar*",
    "jetty-*",
    "libjansson*",
    "libleveldbjni*",
    "snappy-*",
)
"""What JVMs leave in /tmp; the daemons of a sandbox have a directory of their own for it."""
OF_ONE_ROUND = 6
"""Triton's Python backend leaves a folder for each Triton that is killed, as YARN kills it here
after a quarter of a second: fewer a round, and the first Triton of the next round removes them."""


def left(house: YarnHouse, hadoop: Hadoop, name: str) -> Mapping[str, set[str]]:
    """Return what there is of clusters, by place.

    Left out is what has a bound of its own: logs that YARN collected (their retention), files that
    NodeManagers keep for the next container (``localizer.cache.target-size-mb``), and the archive
    of classes, one for each Java, which comes with the second round.
    """
    logs = ("/tmp/logs", "/logs")
    own = (house.home, house.root / "cache")

    def left_out(path: str) -> bool:
        return path.startswith(logs) or "/.classes/" in path

    return {
        "processes": set(map(str, house.processes(name))),
        "/tmp": {path.name for pattern in JAVA for path in Path("/tmp").glob(pattern)},
        "/dev/shm": {path.name for path in Path("/dev/shm").glob(f"*{name}-*")},
        "HDFS": {path for path in hadoop.hdfs_listing() if not left_out(path)},
        "TARN_HOME and cache": {str(path) for root in own for path in root.rglob("*")},
    }


def one_round(fleet: Fleet, spec: str, number: int) -> None:
    """Up, 1 → 3, something is killed, 3 → 1, down."""
    fleet.up(spec)
    fleet.tarn("scale", "3")
    fleet.settled(3)
    if number % 2:
        kill(next(iter(fleet.tritons().values())))
    else:
        fleet.after(fleet.kill_master())
    fleet.tarn("scale", "1")
    fleet.settled(1)
    fleet.down()


@pytest.mark.timeout(120 + 200 * ROUNDS)  # on a machine that others use, too
def test_rounds_leave_nothing_behind(yarn_house: YarnHouse, hadoop: Hadoop) -> None:
    """Processes, /tmp, /dev/shm, HDFS and the client's directories are as after the first one."""
    yarn_house.environ["XDG_CACHE_HOME"] = str(yarn_house.root / "cache")
    fleet = Fleet(yarn_house, hadoop, "again")
    size = {"min": 1, "max": 3, "initial": 1}
    spec = yarn_house.spec("again", replicas=size, instance={"replace_after": "3s", **RESOURCES})
    one_round(fleet, spec, 1)
    until(lambda: not yarn_house.processes("again"), 30, "the end of every process")
    before = left(yarn_house, hadoop, "again")
    for number in range(2, ROUNDS + 1):
        one_round(fleet, spec, number)
    until(lambda: not yarn_house.processes("again"), 30, "the end of every process")

    def grown() -> Mapping[str, set[str]]:
        now = left(yarn_house, hadoop, "again")
        return {place: more for place, there in now.items() if (more := there - before[place])}

    until(lambda: not grown(), 20, lambda: f"after {ROUNDS} rounds there is more: {grown()}")
    if ROUNDS > 2:  # by itself: a Triton of another test keeps what is younger than it
        assert len(list(Path("/tmp").glob("python_env_*"))) < OF_ONE_ROUND


RESOURCES = {"resources": {"vcores": 1, "memory": "768MiB"}}
