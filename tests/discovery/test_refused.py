"""One client that is refused and tries again is one client, however often HAProxy counts it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_stage import fake_tritons
from discovery_house import staged
from house import until

pytestmark = pytest.mark.discovery

AGAIN_S = 0.01
TARGET = {"use": "target", "options": {"target": 2}, "cooldown": "0s"}


@contextmanager
def one_client(address: str, refused: list[int]) -> Iterator[None]:
    """Ask without a pause; after each 503 after 10 ms."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            connection = http.client.HTTPConnection(address, timeout=10)
            try:
                connection.request("GET", "/v2/models/echo/ready")
                if connection.getresponse().status == 503:
                    refused.append(1)
            finally:
                connection.close()
            over.wait(AGAIN_S)

    thread = threading.Thread(target=ask, name="one-client")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(20)


@pytest.mark.timeout(150)
def test_a_client_that_tries_again_asks_for_one_instance(tmp_path: Path) -> None:
    """The only instance is drained at once: its replacement comes, and no other one."""
    keys = {**fake_tritons(tmp_path), "scaling": TARGET}
    program = tmp_path / "tritonserver"  # its start leaves the time for many refusals
    program.write_text(program.read_text().replace("exec", "sleep 2\nexec", 1))
    with staged(tmp_path, "refused", keys) as stage:
        api, refused = stage.fleet.api, list[int]()
        api.scale(1)
        stage.fleet.settled(stage.door, 1)
        (old,) = (str(row["id"]) for row in stage.fleet.ready().values())
        with one_client(stage.door.address, refused):
            api.adapt()
            api.drain(old, now=True)
            until(lambda: len(refused) > 5, 60, "refusals")
            until(lambda: {r["id"] for r in stage.fleet.ready().values()} - {old}, 30, "another")
            stage.fleet.settled(stage.door, 1)
        sizes = [row["desired"] for row in api.decisions()]
        assert max(sizes[1:]) <= 2, api.decisions()  # 2: as it was started
        assert sizes[-1] == 1
