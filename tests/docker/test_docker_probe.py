"""`tarn doctor --probe` starts the image as an instance is started, and says what came of it."""

import pytest
from house import until
from probing import probe, rows
from servers.docker import DockerHouse

pytestmark = [pytest.mark.docker, pytest.mark.yarn]

IMAGE = "(image, default partition)"


def test_the_image_is_started_or_said_why_not(docker_house: DockerHouse) -> None:
    """A good one says what is in it; one that is not there, and a mount that is denied, say so."""
    mount = {"docker": {"mounts": ["/etc:/denied:ro"]}}
    clients = {
        "good": probe(docker_house, "good"),
        "gone": probe(docker_house, "gone", triton={"image": "tarn/gone:1"}),
        "denied": probe(docker_house, "denied", options=mount),
    }
    found = {}
    for name, client in clients.items():
        found[name] = rows(client)
    good = found["good"]
    docker = good[f"node Docker {IMAGE}"]
    assert (docker["known"], docker["findings"]) == (True, []), docker
    assert "tritonserver" in docker["seen"]
    assert "uid 65534" in docker["seen"]
    # a tmpfs of YARN's, not Docker's own 64 MB
    assert good[f"node space {IMAGE}"]["findings"] == []
    # the master runs in no image: it needs what is on the node
    assert good["node Python (default partition)"]["findings"] == []
    for name, words in (("gone", "tarn/gone:1"), ("denied", "/etc")):
        (finding,) = found[name][f"node Docker {IMAGE}"]["findings"]
        assert finding["code"] == "TARN-3188"
        assert words in finding["found"], finding
    containers = docker_house.stage.dockerd.containers
    until(lambda: not containers(), 20, "that YARN has removed what ended")
