"""A process of a Python model that dies is told at once; one that Triton ends is not."""

import os
import secrets
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from asking import ask, free_ports
from local_runtime import LocalRuntimeHome, eventually, fact
from servers.triton import CONFIG, NAP

from tarn.domain import Ended, Running, StubEnded
from tarn.domain.spec import ModelsSpec
from tarn.process_table import age_s
from tarn.triton.control import parse_index, stubs_ended
from tarn_plugins.runtime.local.machine import processes_of
from tarn_plugins.runtime.local.runtime import LocalRuntime

pytestmark = pytest.mark.gray
CALM, STRUCK = "echo-0001", "echo-0002"
BOTH = {"nap_0_0", "other_0_0"}
LOAD_S, TOLD_S, END_S = 60.0, 6.0, 40.0
READY = "/v2/health/ready"


class Case:
    """Two Tritons, each with the models `nap` and `other`, that load when they are told to."""

    def __init__(self, path: Path) -> None:
        self.models = path / "models"
        for name in ("nap", "other"):
            (self.models / name).mkdir(parents=True)
            (self.models / name / "config.pbtxt").write_text(CONFIG)
            self.version(name, 1)
        self.stage = LocalRuntimeHome(path, path / "cache")
        self.told: list[StubEnded] = []

    def start(self) -> LocalRuntime:
        runtime = self.stage.master()
        models = ModelsSpec(str(self.models), control="explicit")
        self.stage.launch = attrs.evolve(
            self.stage.launch, repository=models.repository, models=models
        )
        runtime.start("http://127.0.0.1:1")
        runtime.apply(self.stage.wish(CALM, STRUCK))
        for instance_id in (CALM, STRUCK):
            eventually(lambda i=instance_id: self.stubs(i).keys() == BOTH, LOAD_S)
            # A stub serves before Triton does, which ends if one dies until then.
            eventually(lambda i=instance_id: is_ready(fact(runtime, i, Running)), LOAD_S)
        return runtime

    def version(self, model: str, number: int) -> None:
        (self.models / model / str(number)).mkdir()
        (self.models / model / str(number) / "model.py").write_text(NAP)

    def stubs(self, instance_id: str) -> dict[str, int]:
        """Return the pid of each living stub that serves, by the name of the model's instance."""
        found = {}
        for process in processes_of(self.stage.directory):
            try:
                argv = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
            except FileNotFoundError:
                continue
            stub = len(argv) > 8 and argv[0].endswith("/triton_python_backend_stub")
            if stub and process.instance_id == instance_id and argv[8] in BOTH:
                found[argv[8]] = process.pid
        return found

    def looked(self, runtime: LocalRuntime, instance_id: str) -> dict[str, int]:
        """Keep what was told until two looks were made since now; return the living stubs."""
        stubs = runtime._slots[instance_id].stubs
        enough = stubs._looks + 3

        def done() -> bool:
            if (word := fact(runtime, instance_id, StubEnded)) is not None:
                self.told.append(word)
            return stubs._looks >= enough

        eventually(done)
        return self.stubs(instance_id)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    one = Case(tmp_path)
    yield one
    one.stage.end()


def is_ready(running: Running | None) -> bool:
    """Say whether Triton answers that it is ready."""
    try:
        return running is not None and ask(running.endpoint.http_port, "GET", READY)[0] == 200
    except OSError:
        return False


def change(running: Running, what: str) -> None:
    """Load or unload a model."""
    url = f"http://{running.endpoint.http}/v2/repository/models/{what}"
    with urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=LOAD_S):
        pass


@pytest.mark.timeout(240)
def test_a_stub_that_is_killed_is_told_and_one_that_triton_ends_is_not(case: Case) -> None:
    """Through unload, reload and the end of Triton not a word; of a death which model it was."""
    runtime = case.start()
    calm, struck = fact(runtime, CALM, Running), fact(runtime, STRUCK, Running)
    assert calm is not None
    assert struck is not None

    victim = case.looked(runtime, STRUCK)["nap_0_0"]
    woken = case.stage.woken
    os.kill(victim, signal.SIGKILL)
    word = eventually(lambda: fact(runtime, STRUCK, StubEnded), TOLD_S)
    assert f"nap_0_0 (pid {victim}) of the Python model 'nap' was killed by" in word.said
    assert case.stage.woken > woken
    assert fact(runtime, STRUCK, Running) == struck

    change(calm, "nap/unload")
    eventually(lambda: case.looked(runtime, CALM).keys() == {"other_0_0"}, LOAD_S)
    change(calm, "nap/load")
    first = case.looked(runtime, CALM)
    assert first.keys() == BOTH
    case.version("nap", 2)
    change(calm, "nap/load")
    eventually(lambda: (now := case.looked(runtime, CALM)).keys() == BOTH and now != first, LOAD_S)
    os.kill(int(calm.container_id), signal.SIGTERM)  # nobody asked us: we look on

    def ended() -> Ended | None:
        if (said := fact(runtime, CALM, StubEnded)) is not None:
            case.told.append(said)
        return fact(runtime, CALM, Ended)

    assert eventually(ended, END_S).exit.code == 0
    assert case.told == []

    assert fact(runtime, STRUCK, StubEnded) == word
    change(struck, "nap/load")  # there is a version 2 by now
    eventually(lambda: fact(runtime, STRUCK, StubEnded) is None, LOAD_S)


def stub_of(triton: int) -> int | None:
    """Return the pid of the stub `nap_0_0` once some looks can have seen it alive."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[8:9] == ["nap_0_0"] and str(triton) in words and age_s(int(entry.name)) > 2.0:
            return int(entry.name)
    return None


def index_of(http_port: int) -> bytes:
    try:
        return ask(http_port, "POST", "/v2/repository/index")[2]
    except OSError:
        return b""


@pytest.mark.timeout(180)
def test_a_triton_on_another_machine_tells_it_in_its_own_index(case: Case, tmp_path: Path) -> None:
    """Started as a container of YARN starts it; its models are as ever."""
    (tmp_path / "container").mkdir()
    http, grpc, metrics = free_ports()
    program = [sys.executable, "-P", "-m", "tarn.triton.start", f"--model-repository={case.models}"]
    program += [f"--http-port={http}", f"--grpc-port={grpc}", f"--metrics-port={metrics}"]
    program += [f"--{name}-address=127.0.0.1" for name in ("http", "grpc", "metrics")]
    prefix = f"tarn_{secrets.token_hex(4)}_elsewhere-0001_"
    program.append(f"--backend-config=python,shm-region-prefix-name={prefix}")
    environ = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        program, env=environ, cwd=tmp_path / "container", stderr=subprocess.DEVNULL
    ) as triton:
        try:
            eventually(lambda: index_of(http).count(b"READY") == 2, LOAD_S)
            serving = parse_index(index_of(http))
            victim = eventually(lambda: stub_of(triton.pid), LOAD_S)
            os.kill(victim, signal.SIGKILL)
            (end,) = eventually(lambda: stubs_ended(index_of(http)), TOLD_S)
            assert (end.model, end.name, end.pid, end.code) == ("nap", "nap_0_0", victim, -9)
            assert parse_index(index_of(http)) == serving
        finally:
            triton.kill()
