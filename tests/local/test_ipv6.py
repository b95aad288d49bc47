"""A fleet whose Tritons listen at an address of IPv6 only."""

from pathlib import Path

import numpy as np
import pytest
from asking import has_ipv6
from house import House
from tritonclient import grpc, http

import tarn

pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1"),
]


def test_a_fleet_at_loopback_of_ipv6_serves(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ready at once, answers both protocols under what is shown, and the fleet's client."""
    done = house.tarn("up", "-f", house.spec("six", triton={"bind": "::1"}, replicas={"min": 1}))
    assert done.returncode == 0, done.stderr
    (one,) = house.status("six")["instances"]
    assert one["http"].startswith("[::1]:")
    log = next(Path(house.directory("six") / "logs" / one["id"]).glob("triton.stderr"))
    assert "255.255.255.255" not in log.read_text()
    for protocol, place in ((http, one["http"]), (grpc, one["grpc"])):
        client = protocol.InferenceServerClient(place)
        given = protocol.InferInput("IN", [2], "FP32")
        given.set_data_from_numpy(np.ones(2, np.float32))
        assert client.infer("echo", [given]).as_numpy("OUT").tolist() == [1, 1]
        client.close()
    monkeypatch.setenv("TARN_HOME", str(house.home))
    given = http.InferInput("IN", [2], "FP32")
    given.set_data_from_numpy(np.ones(2, np.float32))
    with tarn.connect("six").client() as fleet:
        assert fleet.infer("echo", [given]).as_numpy("OUT").tolist() == [1, 1]
