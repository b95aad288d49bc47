"""TARN and the Java TARN, one after the other on the same YARN: what both are asked, from outside.

A program of its own, which runs in a network namespace of its own: the Java TARN refuses loopback
addresses, so the nodes have others there. It prints what it measured as JSON. Both serve the same
model from the same folder of HDFS with the same tritonserver.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import attrs
from bench.bench_http import asked
from bench.yarn_rounds import bare_start
from house import MODELS, kill, until
from servers.yarn import Hadoop, YarnHouse, contained, sandbox

from tarn import config
from tarn.errors import TarnError
from tarn.triton import binary
from tarn.triton.start import words

SUBNET = "10.78"
WITHIN_S = 150.0
LOOK_S = 0.05
MOST_DIFFERENCE = 1.5
"""Of the load averages at the two ends of a round; a round with more is repeated."""
MOST_REPEATS = 3
PACED, CONNECTIONS = 150, 8
HEARTBEAT = "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"
REPOSITORY = "/bench/models"
MODEL = "echo"
INFERENCE = json.dumps(
    {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [4], "data": [0, 1, 2, 3]}]}
)


class Contender(Protocol):
    """One fleet of one instance, which is started anew for each round."""

    def start(self) -> None:
        """Submit it; return at once."""
        ...

    def end(self) -> None:
        """End it, and wait until YARN says so."""
        ...

    @property
    def api_token(self) -> str:
        """What its API asks for."""
        ...

    def address(self) -> tuple[str, int] | None:
        """Return where its API should answer now; None while nobody knows."""
        ...

    def masters(self) -> list[int]:
        """Return the processes of its master."""
        ...


class _Submitted:
    """What both have in common: an application of YARN."""

    master_word = ""

    def __init__(self, hadoop: Hadoop) -> None:
        self._hadoop = hadoop
        self._before = {app["id"] for app in hadoop.apps()}
        self._command: subprocess.Popen[Any] | None = None

    @property
    def application_id(self) -> str:
        """The one that was submitted since; empty while there is none."""
        return next((a["id"] for a in self._hadoop.apps() if a["id"] not in self._before), "")

    def masters(self) -> list[int]:
        """Return the processes of its master; a shell around it is none."""
        return [
            one.pid
            for one in self._processes()
            if self.master_word in one.argv and "sh" not in Path(one.argv[0]).name
        ]

    def tritons(self) -> set[int]:
        """Return its tritonservers."""
        return {p.pid for p in self._processes() if Path(p.argv[0]).name == "tritonserver"}

    def end(self) -> None:
        """Kill its application; a command that still runs ends, too."""
        application_id = self.application_id
        if application_id:
            self._hadoop.kill_application(application_id)
        if self._command is not None:
            self._command.terminate()
            self._command.wait(30)
        until(lambda: not list(self._processes()), WITHIN_S, f"the end of {application_id}")

    def _processes(self) -> Iterator[Any]:
        mark = self.application_id.removeprefix("application_")
        return (p for p in contained() if mark and f"_{mark}_" in p.container_id and p.argv)


class Tarn(_Submitted):
    """Ours."""

    master_word = "tarn.master"

    def __init__(self, hadoop: Hadoop, house: YarnHouse) -> None:
        super().__init__(hadoop)
        self._house, self._name = house, f"ours-{secrets.token_hex(3)}"
        self._spec = house.spec(
            self._name,
            models={"repository": f"hdfs://{REPOSITORY}", "serve": [MODEL]},
            replicas={"min": 1, "max": 1, "initial": 1},
        )

    def start(self) -> None:
        self._command = self._house.start("up", "-f", self._spec, "--timeout", "120s")

    def end(self) -> None:
        if self._command is not None:
            self._command.communicate(timeout=WITHIN_S)
        self._house.tarn("down", "-c", self._name, "--timeout", "60s")
        super().end()

    @property
    def api_token(self) -> str:
        path = self._house.directory(self._name) / "api_token"
        return path.read_text().strip() if path.exists() else ""

    def address(self) -> tuple[str, int] | None:
        if not (application_id := self.application_id):
            return None
        host, _, port = str(self._hadoop.app(application_id).get("amRPCAddress", "")).partition(":")
        return (host, int(port)) if port.isdigit() else None


class JavaTarn(_Submitted):
    """The Java TARN of a jar, submitted by its client as its README says, without ``yarn jar``.

    That would first unpack the jar; plain ``java`` is faster.
    """

    master_word = "varga.tarn.yarn.ApplicationMaster"
    api_token = "bench"
    _numbers = itertools.count()

    def __init__(self, hadoop: Hadoop, jar: Path) -> None:
        super().__init__(hadoop)
        self._jar, self._first = jar, 21000 + 10 * next(self._numbers)

    def start(self) -> None:
        ports = dict(zip(("am", "client", "http", "grpc", "metrics"), itertools.count(self._first)))
        lib, conf = self._hadoop.directory / "lib", self._hadoop.directory / "etc" / "hadoop"
        environ = {
            **config.environ(),
            **self._hadoop.environ,
            "ACCELERATOR_TYPE": "cpu_only",
            "GRPC_PORT": str(ports["grpc"]),
        }
        arguments = {
            "model-repository": f"hdfs://{REPOSITORY}",
            "image": "none",
            "port": ports["http"],
            "metrics-port": ports["metrics"],
            "am-port": ports["am"],
            "client-port": ports["client"],
            "token": self.api_token,
            "jar": self._jar,
            "min-instances": 1,
            "max-instances": 1,
            # Bash of a container has a PATH of its own, whatever the node's is.
            "env": f"PATH={environ['PATH']}",
        }
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._command = subprocess.Popen(
            [
                Path(environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in environ else "java",
                *flags,
                *("-cp", f"{conf}:{self._jar}:{lib}/*", "varga.tarn.yarn.Client"),
                *itertools.chain.from_iterable((f"--{k}", str(v)) for k, v in arguments.items()),
            ],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def address(self) -> tuple[str, int] | None:
        # It listens on every address of this machine, and its port is known beforehand.
        return "127.0.0.1", self._first


@attrs.define
class Measured:
    """What one contender did in all rounds, in seconds unless its name says otherwise."""

    submit: list[float] = attrs.field(factory=list)
    replaced: list[float] = attrs.field(factory=list)
    answers: list[float] = attrs.field(factory=list)
    """From the kill of the master until its API answers anything."""
    serves: list[float] = attrs.field(factory=list)
    """From there until it names a Triton that is ready."""
    asked: list[int] = attrs.field(factory=list)
    lost: list[int] = attrs.field(factory=list)
    p50_ms: list[float] = attrs.field(factory=list)
    p99_ms: list[float] = attrs.field(factory=list)
    closed_rate: list[float] = attrs.field(factory=list)
    rss_mib: list[float] = attrs.field(factory=list)


def serving(one: Any) -> set[tuple[str, int]]:
    """Return what its API names and what is ready, by Triton's own answer."""
    listed = _asked(one.address(), "/instances", {"X-TARN-Token": one.api_token})
    named = (line.rpartition(":") for line in (listed or "").split())
    places = {(host, int(port)) for host, _, port in named}
    return {place for place in places if _asked(place, "/v2/health/ready", {}) is not None}


def one_round(one: Any) -> Measured:
    """Do all that is measured to a fleet that is started and ended here."""
    found = Measured()
    try:
        began_s = time.monotonic()
        one.start()
        _until(lambda: serving(one), "the first ready instance")
        found.submit.append(time.monotonic() - began_s)
        (master,) = one.masters()
        found.rss_mib.append(_rss_mib(master))
        _ask_api(one, found)
        found.replaced.append(_triton_killed(one))
        _master_killed(one, found)
    finally:
        one.end()
    return found


def _triton_killed(one: Any) -> float:
    (old,) = before = one.tritons()
    began_s = time.monotonic()
    kill(old)
    _until(lambda: one.tritons() - before and serving(one), "another Triton")
    return time.monotonic() - began_s


def _master_killed(one: Any, found: Measured) -> None:
    (master,) = one.masters()
    with Load(*next(iter(serving(one)))) as load:
        until(lambda: load.answered, WITHIN_S, "a first answer")
        began_s = time.monotonic()
        kill(master)
        headers = {"X-TARN-Token": one.api_token}
        _until(lambda: _asked(one.address(), "/instances", headers) is not None, "its API")
        found.answers.append(time.monotonic() - began_s)
        _until(lambda: serving(one), "a ready instance")
        found.serves.append(time.monotonic() - began_s)
    found.asked.append(load.answered + load.lost)
    found.lost.append(load.lost)


def _ask_api(one: Any, found: Measured) -> None:
    host, port = one.address()
    order = {"path": "/instances", "host": host, "port": port, "api_token": one.api_token}
    paced = asked(**order, connections=CONNECTIONS, seconds=10, rate=PACED)["took_s"]
    cuts = statistics.quantiles(paced, n=100, method="inclusive")
    found.p50_ms.append(cuts[49] * 1e3)
    found.p99_ms.append(cuts[98] * 1e3)
    closed = asked(**order, connections=CONNECTIONS, seconds=3)["took_s"]
    found.closed_rate.append(len(closed) / 3)


class Load:
    """Asks one Triton for an inference twenty times a second; counts what is not answered."""

    def __init__(self, host: str, port: int) -> None:
        self._place, self._stop = (host, port), threading.Event()
        self.answered = self.lost = 0
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            if _asked(self._place, f"/v2/models/{MODEL}/infer", {}, INFERENCE) is None:
                self.lost += 1
            else:
                self.answered += 1


def _asked(
    place: tuple[str, int] | None, path: str, headers: Mapping[str, str], body: str = ""
) -> str | None:
    """Return the text of an answer 200 to a GET, or to a POST of *body*; None for anything else."""
    if place is None:
        return None
    connection = http.client.HTTPConnection(*place, timeout=2)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("POST" if body else "GET", path, body or None, dict(headers))
        answer = connection.getresponse()
        text = answer.read().decode()
        return text if answer.status == 200 else None
    return None


def _until(true: Callable[[], Any], what: str) -> None:
    def calmly() -> Any:
        with contextlib.suppress(TarnError, OSError):  # the ResourceManager is busy
            return true()
        return None

    until(calmly, WITHIN_S, what, LOOK_S)


def _rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def own_network(nodes: int) -> None:
    """Give this namespace its addresses; its ``/etc/hosts`` is a copy, which a sandbox may fill."""
    copy = Path(tempfile.mkdtemp()) / "hosts"
    lines = Path("/etc/hosts").read_text().splitlines(keepends=True)
    # A sandbox of tests leaves its names there, with loopback addresses that the Java TARN refuses.
    copy.write_text("".join(line for line in lines if ".tarn.test" not in line))
    commands = [
        "ip link set lo up",
        *(f"ip addr add {SUBNET}.78.{last}/32 dev lo" for last in (*range(1, 7), *_last(nodes))),
        f"mount --bind {copy} /etc/hosts",
    ]
    for command in commands:
        subprocess.run(command.split(), check=True)


def _last(nodes: int) -> range:
    return range(11, 11 + nodes)


def one_tritonserver(folder: Path) -> None:
    """Put a `tritonserver` first on ``PATH``, for the Java TARN: the one that TARN prepares."""
    environ = config.environ()
    program = binary.prepare(None, environ, config.paths(environ).cache)
    new = binary.environment(program, environ)
    exports = [f'export {k}="{v}"\n' for k, v in new.items() if environ.get(k) != v]
    command = " ".join(map(str, words(program, [])))
    script = folder / "tritonserver"
    script.write_text(f'#!/bin/sh\n{"".join(exports)}exec {command} "$@"\n')
    script.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{environ['PATH']}"  # noqa: TID251 (of this program)


def measure(jar: Path | None, heartbeat_ms: int, rounds: int) -> dict[str, Any]:
    """Measure in interleaved rounds; without a jar only ours."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        one_tritonserver(root)
        properties = {HEARTBEAT: str(heartbeat_ms)}
        with sandbox(root / "sandbox", subnet=SUBNET, nodes=2, properties=properties) as hadoop:
            hadoop.run("hdfs", "dfs", "-mkdir", "-p", REPOSITORY)
            hadoop.run("hdfs", "dfs", "-put", str(MODELS / MODEL), REPOSITORY)
            house = YarnHouse(root, hadoop)
            try:
                return _measure(hadoop, house, jar, rounds)
            finally:
                house.clear()


def _measure(hadoop: Hadoop, house: YarnHouse, jar: Path | None, rounds: int) -> dict[str, Any]:
    every: dict[str, Any] = {"ours": Measured(), "java": Measured() if jar else None}
    bare_s: list[float] = []
    loads: list[float] = []
    repeated = 0
    while len(bare_s) < rounds:
        before = os.getloadavg()[0]
        bare = bare_start()
        ours = one_round(Tarn(hadoop, house))
        java = one_round(JavaTarn(hadoop, jar)) if jar else None
        after = os.getloadavg()[0]
        sys.stderr.write(f"load {before:.1f} to {after:.1f}: ours {ours}, java {java}\n")
        if abs(after - before) > MOST_DIFFERENCE and repeated < MOST_REPEATS:
            repeated += 1
            continue
        bare_s.append(bare)
        loads += [before, after]
        for whole, part in (("ours", ours), ("java", java)):
            if part is not None:
                for field in attrs.fields(Measured):
                    getattr(every[whole], field.name).extend(getattr(part, field.name))
    return {
        "bare": bare_s,
        "load": [min(loads), max(loads)],
        "repeated": repeated,
        **{name: attrs.asdict(one) for name, one in every.items() if one is not None},
    }


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--heartbeat-ms", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    own_network(2)
    found = measure(given.against, given.heartbeat_ms, given.rounds)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
