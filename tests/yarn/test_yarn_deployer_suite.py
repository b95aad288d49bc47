"""The deployer of YARN keeps the promises of `Deployer`, on a real YARN."""

from pathlib import Path

import pytest
from deployer_stage import Stage, small
from yarn_stage import Hadoop

from tarn.domain import ClusterSpec
from tarn.interfaces import Deployer
from tarn.testing.contracts import DeployerContract
from tarn_plugins.runtime import yarn

pytestmark = pytest.mark.yarn


class TestYarn(DeployerContract):
    """Real applications; what runs in them only registers itself."""

    factory = yarn.tarn_runtimes()["yarn"]

    @pytest.fixture(autouse=True)
    def on(self, hadoop: Hadoop) -> None:
        self.stage = Stage(hadoop)

    def make(self, tmp_path: Path) -> Deployer:
        return self.stage.deployer(tmp_path / "home")

    def spec(self, tmp_path: Path) -> ClusterSpec:
        return small("suite")

    def doomed_spec(self, tmp_path: Path) -> ClusterSpec:
        return small("doomed-suite")
