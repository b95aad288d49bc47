"""28: the Java TARN stopped a container whose last request still executed."""

import json
import re
import threading
import urllib.request

import pytest
from house import MODELS, House, house, until

from tarn.domain import Known, Reading, Unknown
from tarn.follow import MasterApi

__all__ = ["house"]

LONG_S = 10.0


def test_what_executes_is_work_though_nothing_waits() -> None:
    """Pending alone excludes it: the counter drops when the backend begins."""
    metrics = {"pending": Known(0.0), "executing": Known(1.0)}
    assert Reading("a", 1.0, metrics=metrics).busy == Known(1.0)


def test_not_knowing_what_executes_is_not_idleness() -> None:
    """A drain then goes on to its time limit."""
    metrics = {"pending": Known(0.0), "executing": Unknown("timed out")}
    assert Reading("a", 1.0, metrics=metrics).busy == Unknown("timed out")


class Leaving:
    """A cluster of one instance that executes a request of ten seconds while it is drained."""

    def __init__(self, house: House, name: str, control: str, exit_timeout: str) -> None:
        self.house, self.name, self.answers = house, name, []
        spec = house.spec(
            name,
            models={"repository": str(MODELS), "serve": ["echo"], "control": control},
            triton={"exit_timeout": exit_timeout},
            replicas={"min": 0, "max": 1, "initial": 1},
            drain={"timeout": "60s", "quiesce": "200ms"},
        )
        self.starting = house.start("up", "-f", spec)

    def begin(self) -> None:
        """Once it is up, begin the request and the drain."""
        _, said = self.starting.communicate(timeout=90)
        assert self.starting.returncode == 0, said
        token = (self.house.directory(self.name) / "api_token").read_text().strip()
        self.api = MasterApi(str(self.house.ref(self.name)["url"]), token)
        (one,) = self.api.instances()["instances"]
        self.id, self.http = one["id"], one["http"]
        self._infer(0.0)  # so that ten seconds are far more than the model's mean
        self.asking = threading.Thread(target=self._infer, args=(LONG_S,))
        self.asking.start()
        self.api.scale(0)

    def _infer(self, delay_s: float) -> None:
        tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [1.0]}
        body = {"inputs": [tensor], "parameters": {"delay": str(delay_s)}}
        where = f"http://{self.http}/v2/models/echo/infer"
        try:
            with urllib.request.urlopen(where, json.dumps(body).encode(), timeout=60) as reply:
                self.answers.append(reply.status)
        except OSError as error:
            self.answers.append(repr(error))

    def receipt(self) -> str:
        """Return the one event that tells of its end, once there is one."""

        def told() -> list[str]:
            return [
                event["message"]
                for event in self.api.events()
                if event["subject"] == self.id and event["code"] in {"TARN-1104", "TARN-1114"}
            ]

        (only,) = until(told, 30, "a receipt")
        self.api.close()
        return str(only)


@pytest.mark.triton
@pytest.mark.timeout(180)
def test_a_request_of_ten_seconds_outlives_the_drain_of_its_instance(house: House) -> None:
    """Proven by unloading, where a stop would cut it at once; estimated, where the stop waits."""
    proven = Leaving(house, "proven", "explicit", "1s")
    estimated = Leaving(house, "estimated", "none", "30s")
    for one in (proven, estimated):
        one.begin()
    for one in (proven, estimated):
        one.asking.join(30)
        assert one.answers == [200, 200]
        receipt = one.receipt()
        # the short one counts, too, where it ended after the last look before the drain
        shape = rf"drained {one.id}: [12] requests? in \d+\.\d s, 0 lost, 0 cut"
        assert re.fullmatch(shape, receipt), receipt
