"""The whole contract of a discovery, over this one."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tarn_file_discovery import FACTORY, FileDiscovery

from tarn.domain import Endpoint
from tarn.interfaces import Discovery
from tarn.testing.contracts import DiscoveryContract


class TestFileDiscovery(DiscoveryContract):
    """What a discovery promises is tested by TARN; it asks what a client would find."""

    factory = FACTORY

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "door" / "fleet.json"
        self.path.parent.mkdir()
        self.settings = {"path": self.path}

    def published(self) -> Mapping[str, Endpoint]:
        """Read the file as any program would."""
        if not self.path.exists():
            return {}
        instances = json.loads(self.path.read_text())["instances"]
        return {name: Endpoint(**endpoint) for name, endpoint in instances.items()}

    def break_down(self, discovery: Discovery) -> None:
        """Take the folder away."""
        assert isinstance(discovery, FileDiscovery)
        shutil.rmtree(discovery.path.parent)
