"""NVIDIA's load client against a fleet behind one address, before, while and after it changes.

Twenty runs: four ways (HTTP and gRPC, closed and open loop) in five situations. A run passes where
nothing failed, and where the server's statistics have as many requests as the client counted.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from one_address import Addresses, SharedAddress, no_haproxy, shared_address
from servers.perf_analyzer import PerfAnalyzer, PerfReport, sequence_data

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.timed,  # what is sent while statistics are asked for counts on one side only
]

MOST = 0.01
"""How far the server's count may be from the client's."""
RATE = 125
"""Requests a second, open loop."""
LENGTH = 20
"""Steps of a sequence."""
STEPS = 32 * LENGTH
"""Requests of a run with sequences: each thread sends whole ones, for perf_analyzer ends what is
under way when its count is reached, also a sequence that it has not begun."""
WAYS = {
    "HTTP, closed loop": ("http", ("--concurrency-range", "4")),
    "HTTP, open loop": ("http", ("--request-rate-range", str(RATE))),
    "gRPC, closed loop": ("grpc", ("--concurrency-range", "4")),
    "gRPC, open loop": ("grpc", ("--request-rate-range", str(RATE))),
}
CLOSED = ("--concurrency-range", "8")
OPEN = ("--request-rate-range", str(RATE), "--serial-sequences", "--num-of-sequences", "16")
SEQUENCE_WAYS = {
    "HTTP, closed loop": ("http", CLOSED),
    "HTTP, open loop": ("http", OPEN),
    "gRPC, closed loop": ("grpc", CLOSED),
    "gRPC, open loop": ("grpc", OPEN),
    "gRPC stream": ("grpc", (*CLOSED, "--streaming")),
}


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedAddress]:
    """A fleet of one, which a test may scale."""
    if reason := no_haproxy():
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("growing")
    with shared_address(root, "growing", "identity", "checked", size=1, idle_s=5) as one:
        yield one


def _run(perf: PerfAnalyzer, at: Addresses, way: str) -> PerfReport:
    """Let a run last some seconds: what is sent while it asks for statistics is little then."""
    protocol, options = WAYS[way]
    requests = 6 * RATE if "open" in way else 4000
    address = at.http if protocol == "http" else at.grpc
    count = ("--request-count", str(requests))
    return perf.run(address, protocol, "identity", "--shape", "IN:1024", *options, *count)


def _failed(report: PerfReport) -> str:
    """Say why a run does not pass; empty: it does."""
    if report.problem or report.difference <= MOST:
        return report.problem
    return f"the server's statistics have {report.server} of {report.client} requests"


@pytest.mark.parametrize("way", WAYS)
def test_one_triton_passes(perf: PerfAnalyzer, alone: Addresses, way: str) -> None:
    """What is asked of a fleet is what one Triton gives."""
    assert not _failed(_run(perf, alone, way))


def test_twenty_of_twenty_runs_pass_while_a_fleet_grows_and_shrinks(
    perf: PerfAnalyzer, growing: SharedAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes 1 to 4 to 2: each run's server counts are its client's, within one in a hundred."""
    bad: list[str] = []

    def four(situation: str) -> None:
        for way in WAYS:
            report = _run(perf, growing.addresses, way)
            with capsys.disabled():
                print(f"\n  {situation}, {way}: {report}", end="")
            if why := _failed(report):
                bad.append(f"{situation}, {way}: {why}")

    four("one instance")
    growing.scale(4)
    four("from one to four")
    growing.settled(4)
    four("four instances")
    growing.scale(2)
    four("from four to two")
    growing.settled(2)
    four("two instances")
    assert not bad, "\n".join(bad)


def _sequences(perf: PerfAnalyzer, at: Addresses, way: str, data: Path) -> PerfReport:
    protocol, options = SEQUENCE_WAYS[way]
    address = at.http if protocol == "http" else at.grpc
    length = ("--sequence-length", str(LENGTH), "--sequence-length-variation", "0")
    given = ("--input-data", str(data), *length, "--request-count", str(STEPS))
    return perf.run(address, protocol, "checked", *given, *options)


@pytest.mark.parametrize("way", SEQUENCE_WAYS)
def test_one_triton_keeps_each_sequence(
    perf: PerfAnalyzer, alone: Addresses, way: str, tmp_path: Path
) -> None:
    data = sequence_data(tmp_path / "steps.json", range(1, LENGTH + 1))
    report = _sequences(perf, alone, way, data)
    assert not report.problem_in(STEPS)
    assert report.sequences


def test_no_sequence_fails_or_has_a_wrong_sum_while_a_fleet_grows_and_shrinks(
    perf: PerfAnalyzer,
    growing: SharedAddress,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The model itself refuses a sum that is not what the client expects."""
    data, bad = sequence_data(tmp_path / "steps.json", range(1, LENGTH + 1)), []
    for situation, size in (("two to four", 4), ("four", 4), ("four to two", 2)):
        growing.scale(size)
        for way in SEQUENCE_WAYS:
            report = _sequences(perf, growing.addresses, way, data)
            with capsys.disabled():
                print(f"\n  {situation}, {way}: {report.sequences} sequences, {report}", end="")
            if why := report.problem_in(STEPS):
                bad.append(f"{situation}, {way}: {why}")
        growing.settled(size)
    assert not bad, "\n".join(bad)
