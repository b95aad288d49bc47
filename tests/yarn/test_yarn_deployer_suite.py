"""The deployer of YARN keeps the promises of `Deployer`, on a real YARN."""

import secrets
from pathlib import Path

import pytest
from servers.yarn import Hadoop
from stand_in_deployer import STAGING, DeployerHomes, small

from tarn.domain import ClusterSpec
from tarn.interfaces import Deployer, Uploader
from tarn.testing.contracts import DeployerContract, UploaderContract
from tarn_plugins.runtime import yarn

pytestmark = pytest.mark.yarn


class TestYarn(DeployerContract):
    """Real applications; what runs in them only registers itself."""

    factory = yarn.tarn_runtimes()["yarn"]

    @pytest.fixture(autouse=True)
    def on(self, hadoop: Hadoop) -> None:
        self.stage = DeployerHomes(hadoop)

    def make(self, tmp_path: Path) -> Deployer:
        return self.stage.deployer(tmp_path / "home")

    def spec(self, tmp_path: Path) -> ClusterSpec:
        return small("suite")

    def doomed_spec(self, tmp_path: Path) -> ClusterSpec:
        return small("doomed-suite")


class TestYarnCarries(UploaderContract):
    """To HDFS, from a client without a JVM."""

    @pytest.fixture(autouse=True)
    def on(self, hadoop: Hadoop) -> None:
        self.stage = DeployerHomes(hadoop)

    def make(self, tmp_path: Path) -> Uploader:
        return self.stage.deployer(tmp_path / "home")

    def uri(self, carrier: Uploader) -> str:
        return f"hdfs://{STAGING}/carried-{secrets.token_hex(4)}/file.tar.gz"

    def content(self, carrier: Uploader, uri: str) -> bytes:
        return self.stage.files().read(uri)
