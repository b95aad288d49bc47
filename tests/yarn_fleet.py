"""One fleet on a real YARN, seen from outside: the command line, the RM's REST, HDFS, processes."""

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from house import fresh, ids, kill, until
from servers.process import listens
from servers.yarn import ContainerProcess, contained
from tritonclient import http as triton

from tarn.errors import TarnError
from tarn.follow import MasterApi

SETTLED_WITHIN_S = 120.0
LOOK_S = 0.1
"""Who waits leaves the cores to what is waited for."""


def processes(application_id: str) -> Iterator[ContainerProcess]:
    """Yield every process that carries a container of this application in its environment."""
    of = application_id.removeprefix("application_")
    return (one for one in contained() if f"_{of}_" in one.container_id and one.argv)


class Fleet:
    """A cluster named *name* on *hadoop*, driven from *house*."""

    def __init__(self, house: Any, hadoop: Any, name: str) -> None:
        self.house, self.hadoop, self.name = house, hadoop, name

    def up(self, spec: str, timeout_s: float = 150) -> None:
        done = self.house.tarn("up", "-f", spec, "--timeout", "120s", timeout_s=timeout_s)
        assert done.returncode == 0, self._with_states(done.stderr)

    def _with_states(self, stderr: str) -> str:
        """Return *stderr*, and what YARN logged of the applications that it names."""
        named = dict.fromkeys(re.findall(r"application_\d+_\d+", stderr))
        return "\n".join((stderr, *map(self.hadoop.said_of, named)))

    def tarn(self, *arguments: str, timeout_s: float = 150) -> str:
        """Run a verb on this cluster that must succeed; return its standard output."""
        done = self.house.tarn(*arguments, "-c", self.name, timeout_s=timeout_s)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return str(done.stdout)

    def down(self) -> None:
        self.tarn("down", "--timeout", "60s")

    def status(self) -> dict[str, Any]:
        return self.house.status(self.name)

    def history(self) -> list[list[float | None]]:
        """Return the rows of ``/api/v1/history``, the oldest first."""
        with MasterApi(self.url, self.api_token) as api:
            return list(api.get("/api/v1/history")["rows"])

    def settled(self, count: int, within_s: float = SETTLED_WITHIN_S) -> dict[str, Any]:
        """Wait until *count* are ready and nothing else is there."""
        status: dict[str, Any] | None = None

        def calm() -> dict[str, Any] | None:
            nonlocal status
            status = self.answered()
            if status is None:
                return None
            return status if len(status["instances"]) == count == len(ids(status)) else None

        def seen() -> str:
            return f"{count} ready and nothing else (last: {_brief(status)})"

        return until(calm, within_s, seen, LOOK_S)

    def answered(self) -> dict[str, Any] | None:
        """Return the status, or None while no master answers."""
        status = self.house.direct_status(self.name)
        if status is not None:
            return fresh(status)
        found: dict[str, Any] | None = None
        if self._has_master():
            found = self.house.answered(self.name)
        return found

    def without_master(self) -> Iterator[None]:
        """Yield again and again until a master answers."""
        pause = threading.Event()
        while self.answered() is None:
            yield
            pause.wait(LOOK_S)

    def _has_master(self) -> bool:
        """Say whether a master listens where YARN says; where YARN does not say, one may.

        Without one, `tarn status` takes seconds of a core to find that out, which the next master
        needs for its start.
        """
        try:
            place = str(self.hadoop.app(self.application_id).get("amRPCAddress", ""))
        except (TarnError, OSError):  # OSError: this home does not know the application yet
            return True
        host, _, port = place.rpartition(":")
        return port.isdecimal() and listens(int(port), host)

    @property
    def application_id(self) -> str:
        return str(self.house.ref(self.name)["application_id"])

    @property
    def url(self) -> str:
        return str(self.house.ref(self.name)["url"])

    @property
    def api_token(self) -> str:
        return (self.house.directory(self.name) / "api_token").read_text().strip()

    def tritons(self) -> dict[str, int]:
        """Return container id to the pid of its tritonserver."""
        return {
            p.container_id: p.pid
            for p in processes(self.application_id)
            if Path(p.argv[0]).name == "tritonserver"
        }

    def masters(self) -> dict[int, str]:
        """Return the pids of this cluster's masters, with their containers."""
        return {
            p.pid: p.container_id
            for p in processes(self.application_id)
            if "tarn.master" in p.argv and "python" in Path(p.argv[0]).name
        }

    def master(self) -> int:
        found = self.masters()
        assert len(found) == 1, found
        return next(iter(found))

    def after(self, epoch: str, within_s: float = 90) -> dict[str, Any]:
        """Wait for the status of a master newer than *epoch*."""

        def newer() -> dict[str, Any] | None:
            status = self.answered()
            fresh = status is not None and not status.get("stale") and status["epoch"] != epoch
            return status if fresh else None

        return until(newer, within_s, f"a master after epoch {epoch}", LOOK_S)

    def kill_master(self, number: int = signal.SIGKILL) -> str:
        """Send the master a signal; return its epoch."""
        epoch = str(self.status()["epoch"])
        kill(self.master(), number)
        return epoch

    def infer(self, instance: dict[str, Any]) -> None:
        """Ask one instance for an echo, as a user's client does."""
        client = triton.InferenceServerClient(instance["http"], network_timeout=10.0)
        try:
            values = np.arange(4, dtype=np.float32)
            given = triton.InferInput("IN", list(values.shape), "FP32")
            given.set_data_from_numpy(values)
            answer = client.infer("echo", [given]).as_numpy("OUT")
            assert np.array_equal(answer, values)
        finally:
            client.close()


class SteadyLoad:
    """Asks every given instance again and again; counts what was not answered."""

    def __init__(self, fleet: Fleet, instances: list[dict[str, Any]], gap_s: float = 0.05) -> None:
        self._fleet, self._instances, self._gap_s = fleet, instances, gap_s
        self._stop = threading.Event()
        self.answered = 0
        self.failed: list[str] = []
        self._threads = [
            threading.Thread(target=self._ask, args=(one,), name=f"ask-{one['id']}")
            for one in instances
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _ask(self, instance: dict[str, Any]) -> None:
        while not self._stop.wait(self._gap_s):
            try:
                self._fleet.infer(instance)
                self.answered += 1
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a lost request)
                self.failed.append(f"{instance['id']}: {error!r}")


@contextmanager
def steady(fleet: Fleet, status: dict[str, Any]) -> Iterator[SteadyLoad]:
    """Ask all ready instances of *status* meanwhile; not one request may fail."""
    ready = [i for i in status["instances"] if i["state"] == "ready"]
    began_s = time.monotonic()
    with SteadyLoad(fleet, ready) as load:
        yield load
    assert not load.failed, load.failed[:5]
    assert load.answered >= len(ready), f"{load.answered} in {time.monotonic() - began_s:.1f} s"


def _brief(status: dict[str, Any] | None) -> str:
    if status is None:
        return "no master answered"
    rows = [(i["id"], i["state"], i["reason"]) for i in status["instances"]]
    return f"{rows}, desired {status['desired']}, holds {status['holds']}, {status['warnings']}"


def dead(pid: int) -> bool:
    """Say whether a process ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True
