"""A ResourceManager that is too old is refused with both versions."""

import attrs
import pytest

from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.cluster import leaves, manager_version, refuse_old


@pytest.mark.parametrize("version", ["3.2.4", "3.1.1.7.1.9.0-387", "2.10.2", "3.2.99-x"])
def test_below_the_floor_is_refused(version: str) -> None:
    """With what each side is, where, and what to do; a preflight shows it as a finding."""
    with pytest.raises(LaunchError) as caught:
        refuse_old(version, "3.4.2", "http://rm:8088")
    finding = from_error(caught.value)
    assert finding.code == "TARN-3121"
    assert finding.where == "http://rm:8088"
    assert finding.fatal
    for words in (f"Hadoop {version}", "Hadoop 3.4.2", "3.3.0 or newer"):
        assert words in finding.found
    assert "HADOOP_CONF_DIR" in finding.next_step


@pytest.mark.parametrize("version", ["3.3.0", "3.3.6.1.2.4.0-32", "3.4.2", "4.0.0", "", "trunk"])
def test_from_the_floor_on_or_unknown_is_let_through(version: str) -> None:
    """Nothing is refused for what it does not say."""
    refuse_old(version, "3.3.0", "http://rm:8088")


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"clusterInfo": {"hadoopVersion": "3.3.6", "resourceManagerVersion": "x"}}, "3.3.6"),
        ({"clusterInfo": {}}, ""),
        ({"clusterInfo": None}, ""),
        ({}, ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_the_answer_is_read_and_its_absence_survived(info: object, version: str) -> None:
    """No web page, a login page, a router: then nothing is known."""
    assert manager_version(info) == version


@attrs.frozen
class Queue:
    """What every Hadoop tells of a queue: `QueueInfo`."""

    name: str
    below: "tuple[Queue, ...] | None" = None

    def getQueueName(self) -> str:  # noqa: N802 (Java's)
        return self.name

    def getChildQueues(self) -> "tuple[Queue, ...] | None":  # noqa: N802
        return self.below


def test_paths_of_queues_come_from_their_tree() -> None:
    """Before 3.4 a CapacityScheduler tells the last part only; a FairScheduler the whole path."""
    short = (Queue("default"), Queue("ml", (Queue("gpu", ()), Queue("cpu"))))
    whole = (Queue("root.default"), Queue("root.ml", (Queue("root.ml.gpu"), Queue("root.ml.cpu"))))
    for queues in (short, whole):
        found = [path for path, _ in leaves(queues, "root")]
        assert found == ["root.default", "root.ml.gpu", "root.ml.cpu"]
