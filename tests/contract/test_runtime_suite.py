"""Runtimes keep the promises of `Runtime`."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import attrs
from contract.fake_binary import fake_models, fake_triton
from contract.fake_suites import FakeRuntimeSuite

from tarn.domain import ClusterSpec, Epoch, Launch, Running
from tarn.interfaces import Runtime
from tarn.testing.context import cluster_spec
from tarn.testing.contracts import RuntimeContract
from tarn.testing.wait import until
from tarn.triton.stubs import ChildProcess, ChildProcesses
from tarn_plugins.runtime import local
from tarn_plugins.runtime.local.runtime import LocalRuntime


class OneStubEach(ChildProcesses):
    """One stub for each Triton, which ends and starts when a test says so; pids are made up."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.ended: set[int] = set()
        self.again: set[int] = set()

    def look(self, parents: AbstractSet[int]) -> Mapping[int, list[ChildProcess]]:
        self.looks += 1
        argv = ("/b/triton_python_backend_stub", "/r/m/1/model.py", *("?" * 6), "m_0_0")
        return {
            pid: [
                ChildProcess(2**23 + pid, 1, code=-9)
                if pid in self.ended
                else ChildProcess(2**23 + pid, 1, argv),
                *([ChildProcess(2**24 + pid, 2, argv)] if pid in self.again else []),
            ]
            for pid in parents
        }


class TestFake(FakeRuntimeSuite):
    """In memory."""


class TestLocal(RuntimeContract):
    """Real processes, each a fake Triton."""

    factory = local.tarn_runtimes()["local"]

    def spec(self, tmp_path: Path) -> ClusterSpec:
        models, triton = fake_models(tmp_path), fake_triton(tmp_path)
        return attrs.evolve(cluster_spec(), models=models, triton=triton)

    def make(self, tmp_path: Path) -> tuple[Runtime, Epoch]:
        runtime, epoch = super().make(tmp_path)
        assert isinstance(runtime, LocalRuntime)
        self.children = runtime._children = OneStubEach()
        return runtime, epoch

    def end_stub(self, runtime: Runtime, running: Running) -> bool:
        looked = self.children.looks
        until(lambda: self.children.looks > looked + 1, self.within_s, "a look at the living stub")
        self.children.ended.add(int(running.container_id))
        return True

    def start_stub(self, runtime: Runtime, running: Running) -> None:
        self.children.again.add(int(running.container_id))

    def broken_launch(self, tmp_path: Path) -> Launch:
        triton = fake_triton(tmp_path, FAKE_TRITON_CRASH="no such GPU")
        return attrs.evolve(super().broken_launch(tmp_path), triton=triton)
