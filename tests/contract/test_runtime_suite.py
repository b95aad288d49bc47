"""Runtimes keep the promises of `Runtime`."""

from pathlib import Path

import attrs
from contract.fake_binary import fake_models, fake_triton
from contract.fake_suites import FakeRuntimeSuite

from tarn.domain import ClusterSpec, Launch
from tarn.testing.context import cluster_spec
from tarn.testing.contracts import RuntimeContract
from tarn_plugins.runtime import local


class TestFake(FakeRuntimeSuite):
    """In memory."""


class TestLocal(RuntimeContract):
    """Real processes, each a fake Triton."""

    factory = local.tarn_runtimes()["local"]

    def spec(self, tmp_path: Path) -> ClusterSpec:
        models, triton = fake_models(tmp_path), fake_triton(tmp_path)
        return attrs.evolve(cluster_spec(), models=models, triton=triton)

    def broken_launch(self, tmp_path: Path) -> Launch:
        triton = fake_triton(tmp_path, FAKE_TRITON_CRASH="no such GPU")
        return attrs.evolve(super().broken_launch(tmp_path), triton=triton)
