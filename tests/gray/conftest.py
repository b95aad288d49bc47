"""A fleet of three real Tritons behind a HAProxy, new for each fault.

What replaced a sick one waits longer for its own replacement, so no fault may follow another.
"""

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


@pytest.fixture
def gray(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GrayFleet]:
    unwell = getattr(request, "param", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARN_HOME", str(tmp_path))
        version = tmp_path / "models" / MODEL / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE.read_text())
        (version.parent / "config.pbtxt").write_text(CONFIG)
        with Door(tmp_path, "gray", grpc=False) as door:
            options = {"socket": str(door.socket)}
            spec = {
                "name": "gray",
                "models": {"repository": str(tmp_path / "models")},
                "replicas": {"min": 3, "max": 3},
                "instance": {"unready_after": "2s", "replace_after": "10s", "unwell": unwell},
                "drain": {"timeout": "30s", "quiesce": "500ms"},
                "discovery": [{"use": "haproxy", "required": True, "options": options}],
            }
            with tarn.Cluster(spec) as running:
                running.wait(ready=3, timeout="60s")
                yield GrayFleet(running, door)
