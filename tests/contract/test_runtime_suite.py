"""Runtimes keep the promises of `Runtime`."""

from pathlib import Path

import attrs
from contract.fake_binary import fake_models, fake_triton
from contract.fake_suites import FakeRuntimeSuite

from tarn.domain import Launch
from tarn.testing.context import cluster_spec, launch_of
from tarn.testing.contracts import RuntimeContract
from tarn_plugins.runtime import local


class TestFake(FakeRuntimeSuite):
    """In memory."""


class TestLocal(RuntimeContract):
    """Real processes, each a fake Triton."""

    factory = local.tarn_runtimes()["local"]

    def launch(self, tmp_path: Path, spec_hash: str) -> Launch:
        crash = {"FAKE_TRITON_CRASH": "no such GPU"} if spec_hash.startswith("b") else {}
        models, triton = fake_models(tmp_path), fake_triton(tmp_path, **crash)
        return launch_of(attrs.evolve(cluster_spec(), models=models, triton=triton), spec_hash)
