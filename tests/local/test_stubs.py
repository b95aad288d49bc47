"""A process of a Python model that dies is told at once; one that Triton ends is not."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from local_stage import Stage, eventually, fact
from real_triton import CONFIG, NAP

from tarn.domain import Ended, Running, StubEnded
from tarn.domain.spec import ModelsSpec
from tarn_plugins.runtime.local.procfs import processes_of
from tarn_plugins.runtime.local.runtime import LocalRuntime

pytestmark = pytest.mark.triton
CALM, STRUCK = "echo-0001", "echo-0002"
BOTH = {"nap_0_0", "other_0_0"}
LOAD_S, TOLD_S, END_S = 60.0, 6.0, 40.0


class Case:
    """Two Tritons, each with the models `nap` and `other`, that load when they are told to."""

    def __init__(self, path: Path) -> None:
        self.models = path / "models"
        for name in ("nap", "other"):
            (self.models / name).mkdir(parents=True)
            (self.models / name / "config.pbtxt").write_text(CONFIG)
            self.version(name, 1)
        self.stage = Stage(path, path / "cache")
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
