"""A fleet that comes, grows, loses a Triton, shrinks and goes, again and again: nothing is left.

Three rounds take under a minute; ``TARN_TEST_ROUNDS=50`` says how many, ``-s`` shows the counts.
"""

import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from house import House, clear, ids, kill, until

from tarn.cluster import Cluster, ClusterEnvironment
from tarn_plugins.runtime.local.files import KEPT

ROUNDS = int(os.environ.get("TARN_TEST_ROUNDS", "3"))  # noqa: TID251
STARTED_A_ROUND = 4
"""One, two more, and one in place of the killed one."""
NAME = "rounds"

pytestmark = [
    pytest.mark.triton,
    pytest.mark.endurance,
    pytest.mark.timeout(60 + 60 * ROUNDS),
]


@attrs.frozen
class Counts:
    """What a round may leave behind."""

    processes: int
    """Of this cluster, and children of this test that nobody took in."""
    shared_memory: int
    """Regions of this cluster in ``/dev/shm``."""
    temporary: int
    """Entries of ``TMPDIR``."""
    home: int
    """Files below ``~/.tarn``, without the logs of instances."""
    logs: int
    """Files of logs of instances: those have a bound."""
    cache: int
    """Files below ``~/.cache/tarn``."""
    descriptors: int
    """Open files of this client."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    for variable, folder in (("XDG_CACHE_HOME", "cache"), ("TMPDIR", "tmp")):
        (tmp_path / folder).mkdir()
        one.environ[variable] = str(tmp_path / folder)
    yield one
    clear(one)


def files(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if not one.is_dir()]


def counts(place: House) -> Counts:
    gc.collect()  # what is only referred to in a circle goes whenever Python likes
    logs = [one for one in files(place.home) if one.parent.name.startswith(f"{NAME}-")]
    return Counts(
        processes=len(place.processes(NAME)) + children(),
        shared_memory=len(list(Path("/dev/shm").glob(f"tarn_*_{NAME}-*"))),
        temporary=len(list((place.root / "tmp").iterdir())),
        home=len(files(place.home)) - len(logs),
        logs=len(logs),
        cache=len(files(place.root / "cache")),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
    )


def children() -> int:
    """Return how many children this process has, ended ones too."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended
            found += len((task / "children").read_text().split())
    return found


def settled(cluster: Cluster, count: int) -> set[str]:
    """Wait until *count* are ready, and there is nothing else."""

    def ready() -> set[str]:
        status = cluster.status()
        return ids(status) if len(status["instances"]) == count == len(ids(status)) else set()

    return until(ready, 60, f"{count} ready and nothing else", 0.1)


def one_round(place: House, spec: str) -> None:
    cluster = Cluster(Path(spec), environment=ClusterEnvironment(place.environ)).up()
    first = settled(cluster, 1)
    cluster.scale(3)
    three = settled(cluster, 3)
    (victim,) = (one["pid"] for one in tritons(place) if one["id"] in first)
    kill(victim, signal.SIGKILL)
    until(lambda: settled(cluster, 3) != three, 60, "another in its place")
    cluster.scale(1)
    settled(cluster, 1)
    cluster.down()
    until(lambda: not place.processes(NAME), 20, "the end of every process")


def tritons(place: House) -> list[dict[str, object]]:
    argvs = place.processes(NAME)
    named = {
        pid: next((word.partition("=")[2] for word in argvs[pid] if word.startswith("--id=")), "")
        for pid in place.tritons(NAME)
    }
    return [{"pid": pid, "id": name} for pid, name in named.items()]


def test_rounds_of_a_fleet_leave_nothing_behind(place: House) -> None:
    """What the first round left is all there ever is, but for logs, which have a bound."""
    spec = place.spec(
        NAME,
        replicas={"min": 1, "max": 3, "initial": 1},
        drain={"timeout": "10s", "quiesce": "100ms"},
    )
    one_round(place, spec)
    before = after = counts(place)
    for number in range(2, ROUNDS + 1):
        one_round(place, spec)
        after = counts(place)
        print(number, after)
        # one that was started since the last look of a master may be there besides those it keeps
        assert after.logs <= KEPT + STARTED_A_ROUND
    assert (before.processes, before.shared_memory, before.temporary) == (0, 0, 0)
    assert attrs.evolve(after, logs=0) == attrs.evolve(before, logs=0)
