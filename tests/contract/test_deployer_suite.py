"""Deployers keep the promises of `Deployer`."""

import socket
from pathlib import Path

import attrs
from contract.fake_binary import fake_models, fake_triton
from contract.fake_suites import FakeDeployerSuite

from tarn.domain import ClusterSpec
from tarn.domain.spec import ApiSpec, ReplicasSpec
from tarn.interfaces import Staged
from tarn.testing.context import cluster_spec
from tarn.testing.contracts import DeployerContract
from tarn_plugins.runtime import local


class TestFake(FakeDeployerSuite):
    """In memory."""


class TestLocal(DeployerContract):
    """Real keepers and masters, each with one fake Triton."""

    factory = local.tarn_runtimes()["local"]

    def setup_method(self) -> None:
        self.taken = socket.create_server(("127.0.0.1", 0))

    def teardown_method(self) -> None:
        self.taken.close()

    def spec(self, tmp_path: Path) -> ClusterSpec:
        return attrs.evolve(
            cluster_spec(),
            models=fake_models(tmp_path),
            triton=fake_triton(tmp_path),
            replicas=ReplicasSpec(1, 1),
        )

    def doomed_spec(self, tmp_path: Path) -> ClusterSpec:
        taken = ApiSpec(port=self.taken.getsockname()[1])
        return attrs.evolve(self.spec(tmp_path), name="doomed", api=taken)

    def staged(self, tmp_path: Path) -> Staged:
        return Staged(fake_models(tmp_path).repository, "in_place")
