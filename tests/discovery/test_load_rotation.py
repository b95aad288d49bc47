"""How soon an instance gets requests through HAProxy, and how soon it gets none any more."""

import signal
import statistics
import sys
import threading
from collections.abc import Iterator

import pytest
from house import kill, until
from proxied_fleet import ProxiedFleet, proxied_fleet, soon
from proxied_load import HttpLoad

pytestmark = [pytest.mark.discovery, pytest.mark.timed]

RATE = 200.0
IN_AIM_S, OUT_AIM_S = 0.150, 1.0
SLACK = 3
"""A busy machine may take so many times what is aimed at."""
STEADY_S = 10.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedFleet]:
    with proxied_fleet(tmp_path_factory.mktemp("rotation"), "turn") as one:
        yield one


@pytest.fixture(autouse=True)
def two_instances(stage: ProxiedFleet) -> None:
    stage.two_left()


def test_haproxy_runs_with_the_file_that_the_command_prints(stage: ProxiedFleet) -> None:
    """What all this is measured with is what a user gets."""
    door = stage.door.settings
    words = ["-c", "turn", "--address", door.address, "--http-port", f"{door.http_port}"]
    words += ["--grpc-port", f"{door.grpc_port}", "--stats-port", "0", "--socket", door.socket]
    done = stage.house.tarn("lb", "haproxy", "config", *words, "--user", "", "--group", "")
    assert done.stdout == stage.door.file.read_text(), done.stderr


def test_a_ready_instance_gets_requests_at_once(
    stage: ProxiedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the master's event to the first request that HAProxy sends it: median of five."""
    with HttpLoad(stage.door.address, RATE) as load:
        took_s = [stage.first_request() for _ in range(5)]
    with capsys.disabled():
        print(f"\n  ready → first request: {[round(1000 * s) for s in took_s]} ms", file=sys.stderr)
    assert load.missed == []
    assert statistics.median(took_s) < SLACK * IN_AIM_S


def test_a_killed_instance_is_chosen_no_more(
    stage: ProxiedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kill -9 of one that is idle, so that only the push can say it: median of three."""
    stage.fleet.api.scale(4)
    stage.fleet.settled(stage.door, 4)
    stage.served()
    took_s = [stage.out_after_kill() for _ in range(3)]
    with capsys.disabled():
        print(
            f"\n  kill -9 → out of rotation: {[round(1000 * s) for s in took_s]} ms",
            file=sys.stderr,
        )
    assert statistics.median(took_s) < SLACK * OUT_AIM_S


def test_a_restarted_haproxy_is_filled_again(stage: ProxiedFleet) -> None:
    """It comes back without servers; soon it has them all, and answers."""
    ready = set(stage.fleet.ready())
    stage.door.stop()
    stage.door.start()
    soon(lambda: set(stage.door.taking()) == ready, 10, "every server again")
    with HttpLoad(stage.door.address, RATE) as load:
        load.pass_(50)
    assert load.missed == []


def test_nothing_is_written_in_steady_state(stage: ProxiedFleet) -> None:
    """Ten seconds without an event: HAProxy is looked at, and told nothing."""
    looks, writes = len(stage.tap.heard), len(stage.tap.writes)
    threading.Event().wait(STEADY_S)
    assert stage.tap.writes[writes:] == []
    assert 0 < len(stage.tap.heard) - looks < 20 * STEADY_S


def test_a_killed_master_changes_nothing(stage: ProxiedFleet) -> None:
    """Without a master the last good set stays; its successor takes nobody out."""
    pid = int(str(stage.house.ref("turn")["pid"]))
    writes = len(stage.tap.writes)
    with HttpLoad(stage.door.address, RATE) as load:
        load.pass_(50)
        kill(pid, signal.SIGKILL)
        until(lambda: stage.house.ref("turn")["pid"] != pid, 30, "the next master")
        until(lambda: len(stage.fleet.ready()) == 2, 30, "its view")
        load.pass_(100)
    assert load.missed == []
    # HAProxy is told whose servers these are now, and where the next master answers; the servers
    # themselves are left alone
    changed = [write for write in stage.tap.writes[writes:] if "server" in write]
    assert [write for write in changed if "tarn_answers" not in write] == []


def test_a_successor_serves_before_the_last_one_goes(stage: ProxiedFleet) -> None:
    """One is taken out as soon as another is ready: HAProxy has checked that one before."""
    stage.fleet.api.scale(1)
    stage.fleet.settled(stage.door, 1)
    with HttpLoad(stage.door.address, RATE) as load:
        for _ in range(3):
            (old,) = (row["id"] for row in stage.fleet.ready().values())
            stage.fleet.api.scale(2)
            soon(lambda one=old: stage.others({one}), 30, "a successor")
            stage.fleet.api.drain(str(old))
            stage.fleet.api.scale(1)
            stage.fleet.settled(stage.door, 1)
            until(lambda: len(stage.fleet.all()) == 1, 30, "the end of the others")
    assert load.missed == []
