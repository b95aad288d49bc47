"""The logs of a cluster in memory, as one and as they grow."""

from itertools import islice
from pathlib import Path

import pytest
from fake_fleet import FakeFleet

from tarn.cluster import Cluster, remembered
from tarn.cluster.read.logs import MASTER
from tarn.errors import NotFoundError, ProviderError

YAML = "name: demo\nmodels: models\nruntime: {use: fake}\n"


def triton(second: int, text: str) -> str:
    return f"I0101 00:00:{second:02}.000000 1 a.cc:1] {text}"


def master(second: int, text: str) -> str:
    return f"2027-01-01T00:00:{second:02}.000Z INFO main tarn.x: {text}"


@pytest.fixture
def running(fleet: FakeFleet) -> FakeFleet:
    Path("tarn.yaml").write_text(YAML)
    Cluster(environment=fleet.environment).up()
    fleet.lines = [master(1, "m1"), master(5, "m5")]
    fleet.others = {
        "demo-0001": [triton(2, "a2"), "| table |", triton(6, "a6")],
        "demo-0002": [triton(3, "b3"), triton(4, "b4")],
    }
    return fleet


def found(fleet: FakeFleet) -> Cluster:
    return remembered("demo", environment=fleet.environment)


def words(lines) -> list[tuple[str, str]]:
    return [(line.source, line.text.rpartition(" ")[2]) for line in lines]


def test_every_log_is_one_by_time(running: FakeFleet) -> None:
    """The master's and each instance's; what has no time stays with its line."""
    assert words(found(running).log_lines()) == [
        (MASTER, "m1"),
        ("demo-0001", "a2"),
        ("demo-0001", "|"),
        ("demo-0002", "b3"),
        ("demo-0002", "b4"),
        (MASTER, "m5"),
        ("demo-0001", "a6"),
    ]
    assert found(running).logged() == (MASTER, "demo-0001", "demo-0002")


def test_some_logs_some_lines_since_a_moment(running: FakeFleet) -> None:
    """The tail is of all together."""
    cluster = found(running)
    assert words(cluster.log_lines(tail=2)) == [(MASTER, "m5"), ("demo-0001", "a6")]
    some = ["demo-0002", MASTER]
    assert words(cluster.log_lines(some, tail=3)) == [
        ("demo-0002", "b3"),
        ("demo-0002", "b4"),
        (MASTER, "m5"),
    ]
    moment = next(line.at for line in cluster.log_lines([MASTER], tail=1))
    assert words(cluster.log_lines(since=moment)) == [(MASTER, "m5"), ("demo-0001", "a6")]


def test_what_is_written_is_followed_in_every_log(running: FakeFleet) -> None:
    """Also in that of an instance that starts meanwhile."""
    lines = found(running).follow_log_lines(tail=1)
    assert words(islice(lines, 1)) == [("demo-0001", "a6")]
    running.lines.append(master(8, "m8"))
    running.others["demo-0001"].append(triton(7, "a7"))
    assert words(islice(lines, 2)) == [("demo-0001", "a7"), (MASTER, "m8")]
    running.others["demo-0003"] = [triton(9, "c9")]
    assert words(islice(lines, 1)) == [("demo-0003", "c9")]


def test_a_master_that_cannot_be_asked_for_a_while_ends_no_following(
    running: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written meanwhile comes later."""
    lines = found(running).follow_log_lines([MASTER], tail=1)
    assert words(islice(lines, 1)) == [(MASTER, "m5")]
    read, silent = FakeFleet.logs, iter([True, True])

    def logs(self: FakeFleet, ref, instance_id: str, tail):
        if next(silent, False):
            raise NotFoundError("not now")
        return read(self, ref, instance_id, tail)

    monkeypatch.setattr(FakeFleet, "logs", logs)
    running.lines.append(master(8, "m8"))
    assert words(islice(lines, 1)) == [(MASTER, "m8")]


def test_following_ends_with_the_cluster(running: FakeFleet) -> None:
    """After one more look: the last words are often the best."""
    cluster, words_of = found(running), running.lines
    lines, one = cluster.follow_log_lines(tail=0), cluster.follow_logs(tail=0)
    running.vanish()
    words_of.append(master(9, "m9"))
    assert list(one) == []
    assert list(lines) == []
    assert list(found_ended(running).follow_logs(tail=1)) == [words_of[-1]]


def found_ended(fleet: FakeFleet) -> Cluster:
    (fleet.directory / "logs").mkdir()
    return found(fleet)


def test_one_log_that_is_refused_hides_no_other(running: FakeFleet, monkeypatch, caplog) -> None:
    """It is told; where every one is refused, that is the error."""
    read, refused = FakeFleet.logs, {"demo-0002"}

    def logs(self: FakeFleet, ref, instance_id: str, tail):
        if instance_id in refused:
            raise ProviderError("yarn", "answers 403", code="TARN-3811")
        return read(self, ref, instance_id, tail)

    monkeypatch.setattr(FakeFleet, "logs", logs)
    cluster = found(running)
    assert {line.source for line in cluster.log_lines()} == {MASTER, "demo-0001"}
    assert "the log of demo-0002 cannot be read" in caplog.text
    refused |= {"", "demo-0001"}
    with pytest.raises(ProviderError, match="answers 403"):
        list(cluster.log_lines())


def test_a_log_that_was_named_must_be_there(running: FakeFleet, monkeypatch) -> None:
    """Of all that there are, one that went away meanwhile is left out."""
    read = FakeFleet.logs

    def logs(self: FakeFleet, ref, instance_id: str, tail):
        if instance_id == "demo-0002":
            raise NotFoundError("gone")
        return read(self, ref, instance_id, tail)

    monkeypatch.setattr(FakeFleet, "logs", logs)
    cluster = found(running)
    with pytest.raises(NotFoundError):
        list(cluster.log_lines(["demo-0002"]))
    assert {line.source for line in cluster.log_lines()} == {MASTER, "demo-0001"}


def test_what_ended_and_left_its_logs_only_is_read(running: FakeFleet) -> None:
    """Its reference, its spec and its runtime's memory are gone."""
    running.vanish()
    for file in list(running.directory.iterdir()):
        file.unlink()
    with pytest.raises(NotFoundError, match="does not run"):
        found(running)
    (running.directory / "logs").mkdir()
    assert words(found(running).log_lines(tail=1)) == [("demo-0001", "a6")]
    assert list(found(running).logs()) == running.lines
