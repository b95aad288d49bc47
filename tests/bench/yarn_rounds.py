"""One round of what happens to a fleet on YARN: when each step was, by those who took it.

Wall time is what the command, the ResourceManager, the master and this process have in common;
all of them run on one machine.
"""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil
from asking import ask, free_ports
from house import MODELS, kill, until
from servers.yarn import Hadoop, YarnHouse
from yarn_fleet import Fleet, SteadyLoad

from tarn import config
from tarn.errors import TarnError
from tarn.follow import MasterApi
from tarn.triton import binary
from tarn.triton.start import words
from tarn_plugins.runtime.yarn.master.recovery import record_of

__all__ = [
    "Phases",
    "Watched",
    "bare_start",
    "master_killed",
    "started",
    "submitted",
    "triton_killed",
]

WITHIN_S = 120.0
BEGUN, ASKED, STARTED, READY = "TARN-1002", "TARN-1100", "TARN-1101", "TARN-1102"

Event = Mapping[str, Any]


@attrs.frozen
class Phases:
    """Named moments in their order, in Unix seconds; the first one is the beginning."""

    moments: tuple[tuple[str, float], ...]

    @property
    def whole_s(self) -> float:
        """Seconds from the first moment to the last."""
        return self.moments[-1][1] - self.moments[0][1]

    def until_s(self, name: str) -> float:
        """Seconds from the first moment to the one called *name*."""
        return dict(self.moments)[name] - self.moments[0][1]

    def steps_s(self) -> dict[str, float]:
        """Return seconds by step, as ``from → to``."""
        pairs = zip(self.moments, self.moments[1:], strict=False)
        return {f"{a} → {b}": end - begin for (a, begin), (b, end) in pairs}


class Watched:
    """A cluster seen without a client's JVM: by the RM's REST, and by its master's API."""

    def __init__(self, hadoop: Hadoop, fleet: Fleet) -> None:
        self.fleet, self._hadoop = fleet, hadoop
        self.application_id, self._token = fleet.application_id, fleet.api_token
        self._staging = fleet.house.staging

    @property
    def application(self) -> Mapping[str, Any]:
        """What the RM says now."""
        return self._hadoop.app(self.application_id)

    def status(self) -> Mapping[str, Any] | None:
        """Return the status; None while no master answers at the address that YARN knows."""
        status: Mapping[str, Any] | None = self._ask(lambda api: api.status())
        return status

    def event(self, code: str, accept: Callable[[Event], bool]) -> Event:
        """Wait for an event that *accept* takes, and return the newest."""

        def look() -> Event | None:
            events = self._ask(lambda api: api.events()) or ()
            return next((e for e in reversed(events) if e["code"] == code and accept(e)), None)

        found: Event = until(look, WITHIN_S, f"an event {code} of {self.fleet.name}")
        return found

    def granted(self, container_id: str) -> float:
        """Return when the master heard that YARN grants a container: its launch file says so."""
        names = (path.rpartition("/")[2] for path in self._hadoop.hdfs_listing(self._staging))
        records = (record for name in names if (record := record_of(name)) is not None)
        return next(r.started_at for r in records if r.container_id == container_id)

    def attempt(self, after: float) -> Mapping[str, Any]:
        """Return the attempt that YARN made after a moment."""
        attempts = self._hadoop.attempts(self.application_id)
        return next(a for a in attempts if _seconds(a["startTime"]) > after)

    def rss_mib(self) -> float:
        """Return the resident memory of the master's process."""
        status = Path(f"/proc/{self.fleet.master()}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def _ask(self, question: Callable[[MasterApi], Any]) -> Any:
        address = self.application.get("amRPCAddress", "")
        if not address or address.endswith(":-1"):
            return None
        try:
            with MasterApi(f"http://{address}", self._token) as api:
                return question(api)
        except TarnError:
            return None


def bare_start() -> float:
    """Start tritonserver alone with the same model; return the seconds until it is ready."""
    environ = config.environ()
    program = binary.prepare(None, environ, config.paths(environ).cache)
    ports = free_ports()
    named = zip(("http", "grpc", "metrics"), ports, strict=True)
    arguments = [f"--{name}-port={port}" for name, port in named]
    arguments += [f"--model-repository={MODELS}", "--allow-gpu-metrics=false"]
    began_s = time.monotonic()
    with subprocess.Popen(
        words(program, arguments),
        env=binary.environment(program, environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as triton:
        try:
            until(lambda: _is_ready(ports[0]), WITHIN_S, "a bare tritonserver")
            return time.monotonic() - began_s
        finally:
            triton.kill()


def started(house: YarnHouse, hadoop: Hadoop, name: str) -> Watched:
    """Bring a cluster of one instance up."""
    fleet = Fleet(house, hadoop, name)
    fleet.up(house.spec(name, replicas={"min": 1, "max": 1, "initial": 1}))
    return Watched(hadoop, fleet)


def submitted(house: YarnHouse, hadoop: Hadoop, name: str) -> Phases:
    """Bring a cluster up and down again; the last moment but one is that of the first ready."""
    began = time.time()
    cluster = started(house, hadoop, name)
    returned = time.time()
    app = cluster.application
    phases = Phases(
        (
            ("`tarn up`", began),
            ("submitted", _seconds(app["startedTime"])),
            ("its container started", _born(cluster.fleet.master())),
            ("master registered", cluster.event(BEGUN, lambda _: True)["first"]),
            *_instance(cluster, lambda _: True),
            ("`tarn up` returns", returned),
        )
    )
    cluster.fleet.down()
    return phases


def triton_killed(cluster: Watched) -> Phases:
    """Kill the one Triton; the last moment is the replacement's first ready."""
    status = cluster.status()
    assert status is not None
    before = {instance["id"] for instance in (*status["instances"], *status["ended"])}
    (pid,) = cluster.fleet.tritons().values()
    killed = time.time()
    kill(pid)
    return Phases(
        (("kill", killed), *_instance(cluster, lambda event: event["subject"] not in before))
    )


def master_killed(cluster: Watched) -> tuple[Phases, int]:
    """Kill the master while its instances are asked; return the moments, and what was lost.

    The last moment is the first answer of the next master that has the same containers ready.
    """
    status = cluster.status()
    assert status is not None
    serving = _ready(status)

    def controlled() -> bool:
        present = cluster.status()
        newer = present is not None and present["epoch"] != status["epoch"]
        return newer and _ready(present) == serving

    with SteadyLoad(cluster.fleet, status["instances"]) as load:
        until(lambda: load.answered or load.failed, WITHIN_S, "a first answer")
        pid = cluster.fleet.master()
        killed = time.time()
        kill(pid)
        until(controlled, WITHIN_S, "the next master")
        answered = time.time()
    attempt = cluster.attempt(killed)
    phases = Phases(
        (
            ("kill", killed),
            ("YARN's next attempt", _seconds(attempt["startTime"])),
            ("its container started", _born(cluster.fleet.master())),
            ("instances taken over", cluster.event(BEGUN, lambda e: e["first"] > killed)["first"]),
            ("status answered", answered),
        )
    )
    return phases, len(load.failed)


def _instance(cluster: Watched, accept: Callable[[Event], bool]) -> tuple[tuple[str, float], ...]:
    """Return the moments of the newest instance that *accept* takes, once it is ready."""
    ready = cluster.event(READY, accept)
    same = ready["subject"]
    begun = cluster.event(STARTED, lambda event: event["subject"] == same)
    asked = cluster.event(ASKED, lambda event: event["subject"] == same)
    container_id = begun["message"].rpartition(" ")[2]
    return (
        ("container asked", asked["first"]),
        ("granted", cluster.granted(container_id)),
        ("started", _born(cluster.fleet.tritons()[container_id])),
        ("ready", ready["first"]),
    )


def _is_ready(port: int) -> bool:
    try:
        return ask(port, "GET", "/v2/health/ready")[0] == 200
    except OSError:
        return False


def _ready(status: Mapping[str, Any]) -> set[str]:
    """Return the containers of the instances that are ready."""
    return {i["container_id"] for i in status["instances"] if i["state"] == "ready"}


def _born(pid: int) -> float:
    """Return when a process began; `psutil` alone knows the second of the boot only."""
    up_s = psutil.Process(pid).create_time() - psutil.boot_time()
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + up_s


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000
