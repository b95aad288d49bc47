"""The local runtime with a real tritonserver and a real Python model."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import attrs
import pytest

from tarn.domain import Asked, ClusterSpec, Ended, Fact, Launch, Running, RuntimeWish
from tarn.domain.spec import LogSpec, ModelsSpec, TritonSpec
from tarn.errors import Superseded
from tarn.interfaces import MasterContext, Paths
from tarn_plugins.runtime.local.epoch import claim
from tarn_plugins.runtime.local.procfs import processes_of, start_ticks
from tarn_plugins.runtime.local.runtime import LocalRuntime

pytestmark = pytest.mark.triton
MODELS = Path(__file__).parent.parent / "models"
READY_S = 60.0


class SystemClock:
    def now_s(self) -> float:
        return time.monotonic()

    def at(self) -> float:
        return time.time()


class Stage:
    """A cluster's directory, and masters of it one after the other."""

    def __init__(self, home: Path, cache: Path) -> None:
        self.paths = Paths(home, cache)
        self.directory = self.paths.cluster("echo")
        self.directory.mkdir(parents=True)
        self.runtimes: list[LocalRuntime] = []

    def master(self, **triton: object) -> LocalRuntime:
        spec = ClusterSpec(
            "echo", ModelsSpec(str(MODELS)), TritonSpec(**triton), log=LogSpec()
        )
        context = MasterContext(
            clock=SystemClock(),
            environ=dict(os.environ),  # noqa: TID251 (a test is an entry point)
            paths=self.paths,
            spec=spec,
            epoch=claim(None, self.directory, {}),
            directory=self.directory,
        )
        runtime = LocalRuntime(context, present_gpus=tuple)
        self.runtimes.append(runtime)
        self.launch = Launch(spec.models, spec.triton, spec.instance, str(MODELS), "h1")
        self.epoch = context.epoch
        return runtime

    def wish(self, *ids: str, stop: tuple[str, ...] = ()) -> RuntimeWish:
        want = frozenset((i, "h1") for i in ids)
        return RuntimeWish(self.epoch, 1, want, frozenset(stop), (self.launch,))

    def end(self) -> None:
        for runtime in self.runtimes:
            runtime.close()
        for process in processes_of(self.directory):
            os.kill(process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def stage(tmp_path, cache):
    stage = Stage(tmp_path, cache)
    yield stage
    stage.end()


def eventually(look, timeout_s: float = 10.0):
    """Return the first true answer of *look*."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if found := look():
            return found
        time.sleep(0.005)  # noqa: TID251 (a real process is waited for)
    raise AssertionError(f"not within {timeout_s} s")


def fact(runtime: LocalRuntime, instance_id: str, kind: type[Fact]) -> Fact | None:
    return next(
        (f for f in runtime.facts() if f.instance_id == instance_id and isinstance(f, kind)), None
    )


def model_ready(running: Running, model: str = "echo") -> bool:
    try:
        url = f"http://{running.endpoint.http}/v2/models/{model}/ready"
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def infer(running: Running, values: list[float], delay: float = 0.0) -> list[float]:
    body = {
        "inputs": [{"name": "IN", "shape": [len(values)], "datatype": "FP32", "data": values}],
        "parameters": {"delay": str(delay)},
    }
    request = urllib.request.Request(
        f"http://{running.endpoint.http}/v2/models/echo/infer", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)["outputs"][0]["data"]


def start_one(stage: Stage, instance_id: str = "echo-0001") -> tuple[LocalRuntime, Running]:
    runtime = stage.master()
    runtime.start("http://127.0.0.1:1")
    runtime.apply(stage.wish(instance_id))
    running = fact(runtime, instance_id, Running)
    assert running is not None, runtime.facts()
    eventually(lambda: model_ready(running), READY_S)
    return runtime, running


def shm_of(stage: Stage) -> list[Path]:
    return [p for p in Path("/dev/shm").iterdir() if "echo-0001" in p.name]


def test_starts_serves_and_stops_without_a_trace(stage):
    """A Python model answers; after the stop no process, port, shared memory or record is left."""
    begun_s = time.monotonic()
    runtime, running = start_one(stage)
    print(f"ready after {time.monotonic() - begun_s:.2f} s")
    assert infer(running, [1.0, 2.5]) == [1.0, 2.5]
    print([p.name for p in Path("/dev/shm").iterdir()])
    assert shm_of(stage)
    stubs = [p for p in processes_of(stage.directory) if not p.leader]
    assert stubs
    begun_s = time.monotonic()
    runtime.apply(stage.wish(stop=("echo-0001",)))
    ended = eventually(lambda: fact(runtime, "echo-0001", Ended), 40)
    print(f"ended after {time.monotonic() - begun_s:.2f} s: {ended}")
    assert ended.exit.expected
    assert processes_of(stage.directory) == ()
    assert shm_of(stage) == []
    with pytest.raises(ConnectionRefusedError):
        import socket
        socket.create_connection(("127.0.0.1", running.endpoint.http_port), 1)
    runtime.apply(stage.wish())
    assert runtime.facts() == ()
    assert list((stage.directory / "instances").iterdir()) == []
