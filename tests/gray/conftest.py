"""One fleet of three real Tritons behind one HAProxy for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from discovery_door import Door
from gray_fleet import GrayFleet
from proxied_load import MODEL

import tarn

CODE = Path(__file__).with_name("sick_model.py")
CONFIG = """backend: "python"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_INT32 dims: [1]}]
output [{name: "OUT" data_type: TYPE_INT32 dims: [1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""


@pytest.fixture(scope="session")
def gray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrayFleet]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("tarn")
        patch.setenv("TARN_HOME", str(home))
        version = home / "models" / MODEL / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE.read_text())
        (version.parent / "config.pbtxt").write_text(CONFIG)
        with Door(home, "gray", grpc=False) as door:
            options = {"socket": str(door.socket)}
            spec = {
                "name": "gray",
                "models": {"repository": str(home / "models")},
                "replicas": {"min": 3, "max": 3},
                "instance": {"unready_after": "2s", "replace_after": "10s"},
                "drain": {"timeout": "30s", "quiesce": "500ms"},
                "discovery": [{"use": "haproxy", "required": True, "options": options}],
            }
            with tarn.Cluster(spec) as running:
                running.wait(ready=3, timeout="60s")
                yield GrayFleet(running, door)
