"""Masters die, hang and come back; the fleet goes on."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, ids, kill, until

from tarn.domain import Applied, Epoch
from tarn.follow import MasterApi

pytestmark = [pytest.mark.triton, pytest.mark.endurance]

STOPPED_S = 75.0
"""Beyond every deadline of a master: leases (15 s), idle connections (30 s), what it remembers of
somebody who asked (60 s)."""


def master(house: House, name: str) -> int:
    return int(house.ref(name)["pid"])


def new_master(house: House, name: str, old: int) -> int:
    """Wait until another master than *old* has announced itself and answers."""

    def changed() -> int:
        try:
            pid = master(house, name)
        except (OSError, ValueError):
            return 0
        return pid if pid != old and house.answered(name) is not None else 0

    return until(changed, 30, "a new master")


def keeper(house: House, name: str) -> int:
    return int(json.loads((house.directory(name) / "keeper.json").read_text())["pid"])


def settled(house: House, name: str, count: int) -> dict[str, object]:
    def ready() -> dict[str, object] | None:
        status = house.status(name)
        calm = len(status["instances"]) == count == len(ids(status))
        return status if calm else None

    return until(ready, 60, f"{count} ready and nothing else")


def test_masters_killed_at_random_moments_change_nothing(house: House) -> None:
    """Five times kill -9, one mid-drain, one mid-start: same instances, same size, drains go on."""
    name, chance = "phoenix", random.Random(7)
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    before = settled(house, name, 2)
    tritons = house.tritons(name)
    for _ in range(3):
        old = master(house, name)
        until(lambda: True, chance.random(), "a moment")
        kill(old)
        new_master(house, name, old)
        after = settled(house, name, 2)
        assert ids(after) == ids(before)
        assert after["desired"] == before["desired"]
        assert house.tritons(name) == tritons
        assert after["epoch"] > before["epoch"]
        before = after
    assert house.tarn("scale", "4", "-c", name).returncode == 0
    until(lambda: len(house.tritons(name)) > 2, 10, "a start in work")
    old = master(house, name)
    kill(old)  # mid-start
    new_master(house, name, old)
    grown = settled(house, name, 4)
    assert len(house.tritons(name)) == 4
    assert grown["manual"] == 4
    assert house.tarn("scale", "3", "-c", name).returncode == 0
    until(lambda: ids(house.status(name), "draining"), 5, "a drain in work")
    draining = ids(house.status(name), "draining")
    old = master(house, name)
    kill(old)  # mid-drain
    new_master(house, name, old)
    shrunk = settled(house, name, 3)
    assert ids(shrunk) == ids(grown) - draining
    assert len(house.tritons(name)) == 3


def test_a_master_that_wakes_up_superseded_touches_nothing(house: House) -> None:
    """SIGSTOP for a minute and more, a successor scales; SIGCONT: the old one touches nothing."""
    name = "fence"
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    settled(house, name, 2)
    old, epoch = master(house, name), house.status(name)["epoch"]
    kill(old, signal.SIGSTOP)
    stopped_s = time.monotonic()
    with successor(house, name):
        new_master(house, name, old)
        assert house.tarn("scale", "3", "-c", name).returncode == 0
        status = settled(house, name, 3)
        tritons, by_old = house.tritons(name), saved_by(house, name, epoch)
        threading.Event().wait(max(0.0, stopped_s + STOPPED_S - time.monotonic()))
        kill(old, signal.SIGCONT)
        until(lambda: _dead(old), 15, "the end of the old one")
        assert house.tritons(name) == tritons
        assert saved_by(house, name, epoch) <= by_old
        after = house.status(name)
        assert ids(after) == ids(status)
        assert after["epoch"] == status["epoch"]
        assert house.tarn("down", "-c", name).returncode == 0


@contextlib.contextmanager
def successor(house: House, name: str) -> Iterator[None]:
    """Start another master of a cluster, as YARN does when it believes the first one lost."""
    argv = [sys.executable, "-m", "tarn.master", str(house.directory(name))]
    log = (house.root / "successor.log").open("wb")
    process = subprocess.Popen(argv, env=house.environ, stdout=log, stderr=log)
    try:
        yield
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(5)
        log.close()


def saved_by(house: House, name: str, epoch: str) -> set[str]:
    """Return the saved states that the master of *epoch* wrote."""
    states = house.directory(name).glob("state-*")
    return {p.name for p in states if json.loads(p.read_text())["epoch"] == epoch}


def _dead(pid: int) -> bool:
    """Say whether the process ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True


def test_instances_serve_without_master_and_keeper_until_up_adopts_them(house: House) -> None:
    """`status` says that there is no master and that they serve; `up` takes the same ones over."""
    name = "orphans"
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    before = settled(house, name, 2)
    tritons = house.tritons(name)
    kill(keeper(house, name))
    kill(master(house, name))
    until(lambda: house.processes(name).keys() >= tritons, 5, "the Tritons")
    said = until(
        lambda: (done := house.tarn("status", "-c", name)) and "no master" in done.stdout and done,
        10,
        "a status without a master",
    )
    assert "2 instances serve" in said.stdout
    assert "tarn up" in said.stdout
    done = house.tarn("up", "-f", house.spec(name))
    assert done.returncode == 0, done.stderr
    after = settled(house, name, 2)
    assert ids(after) == ids(before)
    assert house.tritons(name) == tritons


def test_a_keeper_that_is_missing_is_said_so(house: House) -> None:
    """The master goes on, and `status` warns that nobody restarts it."""
    name = "lonely"
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    kill(keeper(house, name))
    warned = until(
        lambda: [w for w in house.status(name)["warnings"] if "keeper" in w], 15, "the warning"
    )
    assert warned


def test_a_hanging_triton_leaves_the_view_and_is_replaced(house: House) -> None:
    """SIGSTOP: out after unready_after, replaced after replace_after, the others untouched."""
    name = "hang"
    instance = {"unready_after": "1s", "replace_after": "4s"}
    spec = house.spec(name, instance=instance, replicas={"min": 1, "max": 4, "initial": 3})
    assert house.tarn("up", "-f", spec).returncode == 0
    before = settled(house, name, 3)
    victim = before["instances"][0]  # type: ignore[index]
    others = ids(before) - {victim["id"]}
    kill(int(victim["container_id"]), signal.SIGSTOP)

    def out() -> bool:
        status = house.status(name)
        silent = [i["id"] for i in status["instances"] if i["suspect"]]
        return silent == [victim["id"]] and status["ready"] == 2

    until(out, 10, "the silent one out of the view, and nobody else")
    until(lambda: len(ids(house.status(name)) - others) == 1, 30, "its replacement")
    after = settled(house, name, 3)
    assert victim["id"] not in ids(after)
    assert ids(after) >= others
    assert _dead(int(victim["container_id"]))


def test_a_damaged_state_is_replaced_by_the_older_one(house: House) -> None:
    """The newest state is cut short while no master runs: the older one is used, with an alert."""
    name = "damaged"
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    assert house.tarn("scale", "3", "-c", name).returncode == 0
    settled(house, name, 3)
    _stop_both(house, name)
    newest = max(house.directory(name).glob("state-*.json"), key=lambda p: p.stat().st_mtime_ns)
    newest.write_text(newest.read_text()[:50])
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    events = json.loads(house.tarn("events", "-c", name, "-o", "json").stdout)
    assert any(e["code"] == "TARN-1006" for e in events)
    assert len(ids(house.status(name))) >= 2


def test_a_state_from_a_newer_tarn_is_refused_in_words(house: House) -> None:
    """A schema of the future: nothing is guessed, nothing is stopped."""
    name = "newer"
    assert house.tarn("up", "-f", house.spec(name)).returncode == 0
    settled(house, name, 2)
    tritons = house.tritons(name)
    _stop_both(house, name)
    for path in house.directory(name).glob("state-*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    done = house.tarn("up", "-f", house.spec(name))
    assert done.returncode == 1
    assert "TARN-1007" in done.stderr + (house.directory(name) / "logs/master.log").read_text()
    assert house.tritons(name) == tritons


def _stop_both(house: House, name: str) -> None:
    pids = keeper(house, name), master(house, name)
    for pid in pids:
        kill(pid)
    until(lambda: all(_dead(pid) for pid in pids), 5, "their end")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_costs_a_warning_and_never_the_fleet(house: House) -> None:
    """The home is full: the state is not saved, `status` warns, the fleet scales on."""
    house.home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(house.home)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this system does not let root mount a tmpfs; run it where it does")
    name = "full"
    try:
        assert house.tarn("up", "-f", house.spec(name)).returncode == 0
        settled(house, name, 2)
        filler = house.home / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        assert house.tarn("scale", "1", "-c", name).returncode == 0
        warned = until(
            lambda: [w for w in house.status(name)["warnings"] if "state" in w], 15, "the warning"
        )
        assert any("free" in w for w in warned), warned
        settled(house, name, 1)
        filler.unlink()
        assert house.tarn("down", "-c", name).returncode == 0
    finally:
        for pid in house.processes(name):
            kill(pid)
        subprocess.run(["umount", "-l", str(house.home)], check=True)


def test_a_follower_follows_the_next_cluster_of_the_name(house: House) -> None:
    """down, then up: the follower finds it again, and its epoch is higher, never lower."""
    name = "again"
    spec = house.spec(name, replicas={"min": 1, "max": 2})
    seen: list[tuple[int, int]] = []
    for _ in range(2):
        assert house.tarn("up", "-f", spec).returncode == 0
        with MasterApi(str(house.ref(name)["url"]), token(house, name)) as api:
            view = api.instances()
            epoch = Epoch.parse(view["epoch"])
            seen.append((epoch.incarnation, epoch.attempt))
            applied = Applied("lb1", epoch, view["revision"], at=0.0)
            api.acknowledge(applied)
            follower = api.status()["followers"][0]
            assert (follower["name"], follower["revision"]) == ("lb1", view["revision"])
            if len(seen) == 2:
                stale = Applied("lb1", Epoch(*seen[0]), 10**6, at=0.0)
                api.acknowledge(stale)
                assert api.status()["followers"][0]["revision"] == view["revision"]
        assert house.tarn("down", "-c", name).returncode == 0
    assert seen[1] > seen[0]


def token(house: House, name: str) -> str:
    return (house.directory(name) / "api_token").read_text().strip()
