"""What a load through HAProxy may lose, and what it may not: scaled, and killed at random."""

import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from house import House, clear, kill, until
from proxied_fleet import SERVED_S, Fleet, FleetAgent, executed, followed, ledger_model, soon
from proxied_load import GrpcStream, HttpLoad, StreamOutcome
from servers.haproxy import LoggedRequest, RenderedHaproxy

pytestmark = [pytest.mark.discovery, pytest.mark.timed, pytest.mark.triton]

RATE = 200.0
SCALINGS, KILLS = 50, 10
SEED = 20260728
MOST = 4
FIRST_OF_STREAM = 1_000_000
ANSWER_S = 1.0
"""Until a client knows what HAProxy knows."""


@attrs.frozen
class Kill:
    """What HAProxy had on a server in the moment in which its Triton was killed."""

    server: str
    at: float
    """Unix seconds before its statistics were read, and it was killed."""
    in_flight: int
    """Sent and unanswered, or queued for it: ``scur`` and ``qcur``."""
    late: int
    """Sent to it after that, until HAProxy chose it no more: what ``stot`` grew by."""
    streams: int
    """The first two, in the backend for gRPC."""
    out: float
    """Unix seconds at which HAProxy chose it no more."""


@attrs.frozen
class Course:
    """All that happened."""

    load: HttpLoad
    steady: StreamOutcome
    """Of the stream that was open while sizes changed."""
    told: StreamOutcome
    """Of the one that was open while instances were killed."""
    held: str
    """The instance that was drained with the first stream, and stayed for it."""
    kills: tuple[Kill, ...]
    lines: tuple[LoggedRequest, ...]
    executed: dict[int, int]

    def killed_before(self, moment: float) -> Kill | None:
        """Return the last kill before a moment."""
        return next((k for k in reversed(self.kills) if k.at <= moment), None)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("load")


@pytest.fixture(scope="module")
def course(root: Path, request: pytest.FixtureRequest) -> Iterator[Course]:
    """Play it once: every test looks at what came of it."""
    house = House(root)
    environ = ledger_model(root)
    path = house.spec(
        "load",
        models={"repository": str(root / "models")},
        triton={"env": environ},
        replicas={"min": 1, "max": MOST, "initial": 2},
        drain={"timeout": "120s", "quiesce": "200ms"},
        scaling={"interval": "200ms"},
        **followed(),
    )
    try:
        done = house.tarn("up", "-f", path, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        with (
            RenderedHaproxy(root) as door,
            FleetAgent(house, door, "load"),
            Fleet(house, "load") as fleet,
        ):
            yield _play(fleet, door, root)
            clear(house)  # while the agent is there, which the end waits for
    finally:
        clear(house)


def _play(fleet: Fleet, door: RenderedHaproxy, root: Path) -> Course:
    chance = random.Random(SEED)
    fleet.settled(door, 2)
    with HttpLoad(door.address, RATE) as load:
        load.pass_(100)
        with GrpcStream(door.grpc_address, FIRST_OF_STREAM) as steady:
            held = _scale(fleet, door, Load(load, steady), chance)
        with GrpcStream(door.grpc_address, 2 * FIRST_OF_STREAM) as broken:
            fleet.api.scale(MOST)
            until(lambda: len(fleet.ready()) == MOST, 60, f"{MOST} ready")
            kills = tuple(_kill(fleet, door, load, chance, freeze=n % 2 == 1) for n in range(KILLS))
            load.pass_(100)
    lines, ran = tuple(door.lines()), dict(executed(root))
    return Course(load, steady.told, broken.told, held, kills, lines, ran)


@attrs.frozen
class Load:
    """Requests, and one stream."""

    http: HttpLoad
    stream: GrpcStream


def _scale(fleet: Fleet, door: RenderedHaproxy, load: Load, chance: random.Random) -> str:
    """Set another size fifty times; now and then wait for it, else go on after a few answers.

    Half way, the instance that has the stream is drained, and the stream rests, so that only
    HAProxy knows of it. The instance's id is returned if it is still there at the end.
    """
    size, holder = 2, ""
    for number in range(SCALINGS):
        size = chance.choice([n for n in range(1, MOST + 1) if n != size])
        fleet.api.scale(size)
        if number == SCALINGS // 2:
            holder = _drain_holder(fleet, door)
            load.stream.rest()
        elif chance.random() < 0.3:
            until(lambda wish=size: len(fleet.ready()) == wish, 60, f"{size} ready")
        else:
            load.http.pass_(chance.randrange(20, 200))
    load.stream.go_on()
    load.http.pass_(100)
    left = {str(row["id"]) for row in fleet.all() if row["state"] == "draining"}
    return holder if holder in left else ""


def _drain_holder(fleet: Fleet, door: RenderedHaproxy) -> str:
    """Drain the instance that has the stream, as soon as others serve; return its id."""
    fleet.api.scale(MOST)
    until(lambda: len(fleet.ready()) == MOST, 60, f"{MOST} ready")
    servers = door.servers(door.settings.grpc_backend)
    holder = next(name for name, row in servers.items() if int(row["scur"]))
    fleet.api.drain(holder, now=True)
    until(lambda: holder not in {row["id"] for row in fleet.ready().values()}, 60, "its drain")
    return holder


def _kill(
    fleet: Fleet, door: RenderedHaproxy, load: HttpLoad, chance: random.Random, *, freeze: bool
) -> Kill:
    """Kill one that served long enough not to count as a bad start; wait for its replacement.

    A frozen one answers nothing more, so that something certainly is on its way when it dies.
    """

    def proven() -> list[dict[str, Any]]:
        return [row for row in fleet.ready().values() if row["state_for_s"] > SERVED_S]

    victim = chance.choice(until(proven, 60, "an instance that served for a while"))
    pid, http = int(victim["container_id"]), str(victim["http"])
    server = soon(lambda: door.taking().get(http, ""), 10, f"HAProxy sends to {http}")
    backends = (door.settings.backend, door.settings.grpc_backend)
    if freeze:
        kill(pid, signal.SIGSTOP)
        soon(
            lambda: _counts(door, door.settings.backend, server)[0],
            10,
            "requests at a frozen instance",
        )
    backends = (door.settings.backend, door.settings.grpc_backend)
    at = time.time()
    before = [_counts(door, backend, server) for backend in backends]
    kill(pid)
    late = [0, 0]

    def out() -> bool:
        taking = server in {*door.taking().values(), *door.taking(backends[1]).values()}
        for n, backend in enumerate(backends):
            late[n] = max(late[n], _counts(door, backend, server)[1] - before[n][1])
        return not taking

    soon(out, 10, "HAProxy chooses a killed one no more")
    out_at = time.time()
    load.pass_(20)
    until(lambda: http not in fleet.ready() and len(fleet.ready()) == MOST, 60, "a replacement")
    return Kill(server, at, before[0][0], late[0], before[1][0] + late[1], out_at)


def _counts(door: RenderedHaproxy, backend: str, server: str) -> tuple[int, int]:
    """Return what HAProxy has on a server now, and what it sent there in all."""
    row = door.servers(backend).get(server)
    return (0, 0) if row is None else (int(row["scur"]) + int(row["qcur"]), int(row["stot"]))


def test_scaling_loses_nothing(course: Course) -> None:
    """Fifty changes of size at 200 requests a second: every one is answered."""
    first = course.kills[0].at
    assert [one for one in course.load.missed if one.ended < first] == []
    assert len({line.server for line in course.lines}) > SCALINGS / 3, (
        "servers really came and went"
    )


def test_one_stream_lives_through_all_scaling(course: Course) -> None:
    """Its instance was drained meanwhile, and stayed until it ended; every message came back."""
    assert course.held
    assert course.steady.broken == []
    assert course.steady.wrong == []
    assert course.steady.sent == len(course.steady.answered) > 100


def test_a_kill_loses_at_most_what_haproxy_had_there(
    course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is lost by a kill is no more than HAProxy had sent to that server, and nothing later."""
    report = course.load.report
    lost = Counter(course.killed_before(one.ended) for one in course.load.missed)
    with capsys.disabled():
        print(f"\n  {report}", file=sys.stderr)
        print("  lost by a kill, of in flight + later:", end=" ", file=sys.stderr)
        print(
            ", ".join(f"{lost[k]} of {k.in_flight}+{k.late}" for k in course.kills), file=sys.stderr
        )
        out_ms = 1000 * statistics.median(k.out - k.at for k in course.kills)
        print(f"  out of rotation: {out_ms:.0f} ms (median)", file=sys.stderr)
    assert report.sent == len(report.answered) + len(report.lost)
    assert any(k.in_flight for k in course.kills)
    assert [k for k in course.kills if lost[k] > k.in_flight + k.late] == []
    after = [(one.ended, course.killed_before(one.ended)) for one in course.load.missed]
    assert [ended for ended, k in after if k is not None and ended > k.out + ANSWER_S] == []


def test_what_haproxy_logs_as_broken_was_on_a_killed_server(course: Course) -> None:
    """No other server broke an answer, and nothing waited in vain for a server."""
    killed = {k.server for k in course.kills}
    broken = [line for line in course.lines if line.ending[0] in "SsPRIUKD"]
    assert [line for line in broken if line.server not in killed] == []


def test_a_stream_breaks_only_with_its_server(course: Course) -> None:
    """A kill of its own server ends it, and loses its open messages only."""
    told = course.told
    broken = Counter(course.killed_before(one.ended) for one in told.broken)
    assert told.wrong == []
    assert [k for k in course.kills if broken[k] > k.streams] == []
    assert told.sent == len(told.answered) + sum(len(one.open) for one in told.broken)


def test_nothing_runs_twice(course: Course) -> None:
    """Each answered number was executed once, as the models wrote it down; a lost one at most."""
    answered = course.load.report.answered.union(course.steady.answered, course.told.answered)
    assert course.load.report.doubled == 0
    assert [n for n in answered if course.executed.get(n) != 1] == []
    assert [n for n, times in course.executed.items() if times > 1] == []
